"""The replay of a recording: its model answers, its calls get their recorded outcomes, and differences are noted.

No tool is called and nothing is imported because a recording names it: a tool is one that the test has, or, of another
system (``mcp:``, ``celery:``, ``agent:``), what the recording says was offered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from agents.catalogue import find_tool
from agents.governance.guardrails.guardrails import Guardrails
from agents.models.call import ModelCall
from agents.models.errors import MODEL_REFUSED
from agents.models.scripted import Call, Turn
from agents.recording.recording import (
    RecordedAnswer,
    RecordedResult,
    RecordedSummary,
    Recording,
    as_compared,
    common_length,
    requests_of,
)
from agents.tools.tool import Tool
from bus.journal.clients import RecordedCalls
from bus.journal.forks.errors import RECORDING_INVALID
from bus.journal.owner import HistoryItem, RecordedOutcome, Summary
from bus.payloads import EndPayload, Payload, ToolResultPayload
from config.definitions.agent import AgentDefinition
from config.redaction.redacted_data import without_secrets
from config.settings import Settings

ENDS_HERE = "the recording has no further answer here: the run had ended as {status}."
NOT_RECORDED = "Not done: the recording has no outcome of this call, and a replay makes none."
SHOWN = 80
"""Characters of a text around its first difference."""


@dataclass(kw_only=True, slots=True)
class ReplayedCalls(RecordedCalls):
    """The outcomes of a recording, by the id that its model gave each call; a call without one is refused."""

    recording: Recording
    outcomes: Mapping[tuple[str, str], Sequence[RecordedOutcome]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    """The calls that have none."""

    def take(self, call_id: str, name: str, digest: str) -> RecordedOutcome | None:
        outcome = _outcome_of(self.recording, call_id, name)
        if outcome is not None:
            facts = {"outcome": outcome.outcome, "result": outcome.result, "edited": outcome.edited}
        else:
            self.missing.append(f"{name} ({call_id})")
            facts = {"outcome": "refused", "result": NOT_RECORDED}
        return RecordedOutcome(run_id=self.recording.run.run_id, effect="", **facts)


def _outcome_of(recording: Recording, call_id: str, name: str) -> RecordedResult | None:
    return next((entry for entry in recording.outcomes if (entry.call_id, entry.name) == (call_id, name)), None)


class Replay:
    """One replay: answers the calls of the model in order, and knows what differs from the recording."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.calls = ReplayedCalls(recording=recording)
        self._requests = requests_of(recording)
        self._asked = 0
        self._differences: list[str] = []

    def respond(self, call: ModelCall) -> Turn:
        """Return the recorded answer to the next request; a request that differs ends the run."""
        if call.is_summary:  # of the thread, after the run
            return Turn(text="None.")
        number = self._asked
        self._asked += 1
        if number >= len(self._requests):
            self._differences.append(
                f"the model was asked {number + 1} times, and the recording has {len(self._requests)} answers."
            )
            return _refusing("the recording has no further answer.")
        problem = difference(self._requests[number], as_compared(_fields(call)))
        if problem is not None:
            self._differences.append(f"request {number + 1} to the model differs at {problem}")
            return _refusing("the request differs from the recording.")
        answer = self.recording.answers[number]
        ends = ENDS_HERE.format(status=self.recording.run.status)
        return _turn(answer) if answer.is_whole else _refusing(ends, answer)

    def require_same(self, events: Sequence[Payload]) -> None:
        """Return if the run went as it was recorded.

        Raises:
            AssertionError: it did not; the text names the first difference, or what of the recording is left over.
        """
        problems = [*self._differences, *self._of_calls(events), *self._left_over(events), *self._of_end(events)]
        if problems:
            run = self.recording.run
            raise AssertionError(f"the replay of run '{run.run_id}' of '{run.agent}' is not as recorded: {problems[0]}")

    def _of_calls(self, events: Sequence[Payload]) -> Iterable[str]:
        yield from (f"the call {call} has no recorded outcome." for call in self.calls.missing)
        for result in events:
            if isinstance(result, ToolResultPayload):
                outcome = _outcome_of(self.recording, result.call_id, result.name)
                if outcome is not None and outcome.outcome != result.outcome:
                    now = f"{result.outcome}: {_short(result.result)}"
                    yield f"the call {result.name} ({result.call_id}) was {outcome.outcome}, and now is {now}"

    def _left_over(self, events: Sequence[Payload]) -> Iterable[str]:
        count = len(self._requests)
        if self._asked < count:
            end = events[-1]
            how = f"{end.status} ({end.reason})" if isinstance(end, EndPayload) and end.reason else "it should"
            yield (
                f"answer {self._asked + 1} of {count} is left over: the model was asked {self._asked} times, and the "
                f"run ended as {how}."
            )
        used = {event.call_id for event in events if isinstance(event, ToolResultPayload)}
        for outcome in self.recording.outcomes:
            if outcome.call_id not in used:
                yield f"the outcome of the call {outcome.name} ({outcome.call_id}) is left over: it was not asked for."

    def _of_end(self, events: Sequence[Payload]) -> Iterable[str]:
        end, run = events[-1], self.recording.run
        if run.status != "succeeded" or not isinstance(end, EndPayload):
            return
        if end.status != run.status:
            yield f"it ended as {end.status} ({end.reason}), and was recorded as {run.status}."
            return
        problem = difference(self.recording.output, without_secrets(end.output))
        if problem is not None:
            yield f"its output differs at {problem}"


def _fields(call: ModelCall) -> dict[str, Any]:
    names = ("messages", "tools", "tool_choice", "params", "response_format")
    return {name: getattr(call, name) for name in names}


def _turn(answer: RecordedAnswer, **more: Any) -> Turn:
    return Turn(
        text=[answer.text] if answer.text else (),
        reasoning=[answer.reasoning] if answer.reasoning else (),
        calls=[Call(name=call.name, arguments=call.arguments_text, id=call.id) for call in answer.calls],
        finish_reason=answer.finish_reason,
        **more,
    )


def _refusing(problem: str, answer: RecordedAnswer | None = None) -> Turn:
    """Return a turn that fails, after the part of an answer that was recorded."""
    if answer is None:
        return Turn(error=MODEL_REFUSED(problem))
    return _turn(answer, error=MODEL_REFUSED(problem), error_after=bool(answer.text) + bool(answer.reasoning))


# --- differences


def difference(recorded: Any, now: Any, place: str = "") -> str | None:
    """Return the first place at which two JSON values differ, with both sides; None where they are equal."""
    if recorded == now and type(recorded) is type(now):
        return None
    if isinstance(recorded, dict) and isinstance(now, dict):
        places = [(f"{place}.{key}" if place else key, recorded.get(key), now.get(key)) for key in {**recorded, **now}]
    elif isinstance(recorded, list) and isinstance(now, list):
        places = [(f"{place}[{n}]", *pair) for n, pair in enumerate(zip(recorded, now, strict=False))]
        if len(recorded) != len(now):
            longer, side = (recorded, "only recorded") if len(recorded) > len(now) else (now, "new")
            extra = f"{place}[{min(len(recorded), len(now))}]"
            return _first(places) or f"`{extra}`, which is {side}: {_short(longer[min(len(recorded), len(now))])}."
    else:
        start = common_length(recorded, now) if isinstance(recorded, str) and isinstance(now, str) else 0
        return f"`{place or 'output'}`: recorded {_short(recorded, start)}, now {_short(now, start)}."
    return _first(places)


def _first(places: Iterable[tuple[str, Any, Any]]) -> str | None:
    return next((problem for place, old, new in places if (problem := difference(old, new, place))), None)


def _short(value: Any, start: int = 0) -> str:
    """Return a value as JSON, of a long text the part around ``start``."""
    if isinstance(value, str):
        first = max(0, start - SHOWN // 2)
        part = value[first : first + SHOWN]
        left, right = "…" if first else "", "…" if first + SHOWN < len(value) else ""
        return f'"{left}{part}{right}"'
    text = orjson.dumps(value).decode()
    return text if len(text) <= 2 * SHOWN else f"{text[: 2 * SHOWN]}…"


# --- what is replayed


OTHER_SYSTEMS = ("mcp:", "celery:", "agent:")
"""The beginnings of lines of ``tools`` whose tools another program has."""
_LEFT_OUT = frozenset("access mcp_server_definition prompt_guard prompts resources router".split())
"""Fields of a definition that ask others, or that nothing of a replay depends on."""


def replayed_fields(
    recording: Recording, definition: AgentDefinition, find: Callable[[str], Tool], stubs: dict[str, Tool]
) -> dict[str, Any]:
    """Return the fields of the recorded agent as a kit defines it; ``find`` returns the tool of a line.

    ``stubs`` gets the tools of other systems, by their lines.

    Raises:
        RECORDING_INVALID: a tool that was offered does not exist now.
    """
    ours = {find(line).name: line for line in definition.tools if not line.startswith(OTHER_SYSTEMS)}
    is_ours_alone = len(ours) == len(definition.tools) and not definition.resources and not definition.prompts
    lines: list[str] = []
    for offer in _offered(recording):
        name = offer["name"]
        if name not in ours and is_ours_alone:
            raise RECORDING_INVALID(
                f"the recording has the tool '{name}', and none of the agent's lines has a tool of this name now "
                f"({', '.join(ours) or 'none'}); rename it back, or export a run with today's tools."
            )
        lines.append(ours.get(name) or _add_stub(recording, offer, stubs))
    lines += [line for line in ours.values() if line not in lines]
    names = {offer["name"] for offer in _offered(recording)} | {*ours}
    overrides = recording.definition.get("tool_overrides") or {}
    kept = {name: value for name, value in recording.definition.items() if name not in _LEFT_OUT}
    return kept | {
        "tools": lines,
        "tool_overrides": {key: override for key, override in overrides.items() if key in names},
        "observers": ["sse"],
        "queue": None,
        "on_unknown": "tell_model",
        "ask_missing_arguments": False,
    }


def tool_of_line(line: str, *, tools: dict[str, Tool], known_lines: Collection[str], settings: Settings) -> Tool:
    """Return the tool of a line: one of the kit's ``tools``, or one that ``known_lines`` of the test name.

    Raises:
        RECORDING_INVALID: the line would be imported because the recording names it.
        ToolUnknown: there is no such tool.
    """
    own = tools.get(line) or tools.get(line.rpartition(":")[2])
    if own is not None:
        tools[line] = own
    elif ":" in line and line not in known_lines:
        raise RECORDING_INVALID(
            f"the recording names the tool '{line}', and a recording imports nothing; give the kit the function, "
            "`AgentKit(tools=[...])`, or the folder of an agent that names it."
        )
    return own or find_tool(line, settings)


def _offered(recording: Recording) -> list[dict[str, Any]]:
    """Return the tools that were offered in any request, each once."""
    tools = [tool["function"] for request in requests_of(recording) for tool in request.get("tools") or ()]
    return list({tool["name"]: tool for tool in tools}.values())


def _add_stub(recording: Recording, offer: Mapping[str, Any], stubs: dict[str, Tool]) -> str:
    line = f"recorded_{len(stubs) + 1}"
    stubs[line] = Tool(
        name=offer["name"],
        description=offer["description"],
        parameters=offer["parameters"],
        function=_never,
        labels=frozenset(recording.labels),
    )
    return line


def _never(**_: object) -> None:
    raise AssertionError(NOT_RECORDED)


def conversation(recording: Recording, guardrails: Guardrails) -> dict[str, Any]:
    """Return what ``import_conversation`` takes of a recording; its texts pass the guardrails of the agent.

    Raises:
        ModelVisible: a guardrail blocks one of them.
    """
    items = [
        HistoryItem(
            id=message.id,
            role=message.role,
            data=guardrails.output("the recording", message.data),
            partial=message.partial,
            turn=message.turn,
            number=message.number,
        )
        for message in recording.before
    ]
    summary = _rebuilt(recording.summary, guardrails) if recording.summary is not None else None
    return {"items": items, "summary": summary, "labels": recording.labels}


def _rebuilt(summary: RecordedSummary, guardrails: Guardrails) -> Summary:
    facts = summary.facts.model_dump(exclude_none=True)
    fields = guardrails.output("the recording", {"text": summary.text, "facts": facts})
    return Summary(
        id=summary.id,
        from_number=summary.from_number,
        upto=summary.upto,
        text=fields["text"],
        facts=fields["facts"],
        chars=len(fields["text"]) + len(orjson.dumps(fields["facts"])),
        is_used=False,
    )
