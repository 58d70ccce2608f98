"""The export of a run: its recording, with each request of a model made again from the journal.

The journal has a digest of each request and none of its text, which would grow with the square of the conversation. A
request that is made again from the definition, the conversation and the tools is exact where it has that digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from agents.compatibility import load_agent
from agents.process import current_process
from agents.prompt import Window
from agents.recording.recording import (
    RecordedAnswer,
    RecordedCall,
    RecordedFacts,
    RecordedMessage,
    RecordedResult,
    RecordedSummary,
    Recording,
    Source,
    as_compared,
    changes_of,
)
from agents.runner import Runner
from agents.steps.model_request import model_request, repair_messages
from agents.tools.tool import Tool
from bus.journal.forks.errors import RUN_NOT_EXPORTABLE
from bus.journal.owner import HistoryItem, Past
from bus.journal.readers import RecordedRun, conversation_before, recorded_run
from config.definitions.agent import AgentDefinition
from config.identity.principal import Principal, Role
from config.ids import canonical_digest
from config.settings import Settings


def export_run(runner: Runner, principal: Principal, run_id: str) -> Recording:
    """Return the recording of a run that has ended.

    Raises:
        RunUnknown, FORBIDDEN, RUN_NOT_EXPORTABLE: see ``bus.journal.forks.recordings``.
        CallboardError: this code cannot use the definition that the run had; see ``load_agent``.
    """
    database = runner.journal.database
    run = recorded_run(database, principal, run_id)
    row = run.row
    definition, tools = load_agent(current_process(runner.settings), row.agent_id, row.definition_digest)
    past = conversation_before(database, run, definition.history_chars, with_summary=definition.compaction.enabled)
    answers = list(_Answers(run, definition, tools, runner.settings).made(past))
    if not answers:
        raise RUN_NOT_EXPORTABLE(f"run '{run_id}' asked no model; export a run that did.", run_id=run_id)
    before = [*([past.sentence] if past.sentence is not None else []), *past.items]
    return Recording(
        run=Source(run_id=row.id, agent=row.agent_id, model=row.model, status=row.status, reason=row.reason),
        definition=_content(run, definition),
        roles=sorted(orjson.loads(row.roles_json or "[]")),
        labels=run.labels,
        input=run.messages[0].data["content"],
        before=[_recorded(item) for item in before],
        summary=_summary(past),
        answers=answers,
        outcomes=[_outcome(item) for item in run.messages if item.role == "tool"],
        output=orjson.loads(row.output_json) if row.output_json else None,
    )


def _content(run: RecordedRun, definition: AgentDefinition) -> dict[str, Any]:
    """Return the definition as it was accepted; the order of its output schema stays, which is sent as text."""
    content: dict[str, Any] = orjson.loads(run.definition_json)
    return content | ({"output_schema": definition.output_schema} if "output_schema" in content else {})


def _recorded(item: HistoryItem) -> RecordedMessage:
    data = {name: value for name, value in item.data.items() if name != "thinking_blocks"}
    return RecordedMessage(
        id=item.id, role=item.role, turn=item.turn, number=item.number, partial=item.partial, data=data
    )


def _summary(past: Past) -> RecordedSummary | None:
    summary = past.summary
    if summary is None:
        return None
    return RecordedSummary(
        id=summary.id,
        from_number=summary.from_number,
        upto=summary.upto,
        text=summary.text,
        facts=RecordedFacts.model_validate(summary.facts),
    )


def _outcome(item: HistoryItem) -> RecordedResult:
    data = item.data
    return RecordedResult(
        call_id=data["call_id"],
        name=data.get("name", ""),
        outcome=data.get("outcome", "done"),
        result=data.get("result"),
        edited=data.get("edited"),
    )


class _Answers:
    """The answers of a run's models, each with the request that it answers."""

    def __init__(
        self, run: RecordedRun, definition: AgentDefinition, tools: Mapping[str, Tool], settings: Settings
    ) -> None:
        self._run, self._definition, self._tools, self._settings = run, definition, tools, settings
        self._roles = frozenset(Role(name) for name in orjson.loads(run.row.roles_json or "[]") if name in set(Role))
        self._repair: list[dict[str, Any]] = []
        self._rounds = 0

    def made(self, past: Past) -> Iterator[RecordedAnswer]:
        """Yield the answers in order."""
        definition, own = self._definition, list(self._run.messages)
        items = [*past.items, own[0]]
        begun = Past(items=items, is_whole=past.is_whole, sentence=past.sentence, summary=past.summary)
        window = Window(begun, definition.history_chars)
        before: dict[str, Any] = {}
        for step in self._run.steps:
            result = orjson.loads(step["result_json"]) if step["result_json"] is not None else {}
            if step["kind"] != "model" or "validationResult" in result:
                continue
            request = self._request(window)
            compared = as_compared(request)
            following = self._following(own, result.get("message_id") or self._run.answer_ids.get(step["id"]))
            changes, before = changes_of(compared, before), compared
            yield self._answer(step, result, changes, following, is_exact=self._is_exact(step, request))
            for item in following:
                window.add(item)
            if repair := result.get("repair"):
                self._repair = repair_messages(repair["text"], repair["problem"])
            self._rounds += bool(following and following[0].data.get("tool_calls"))

    def _request(self, window: Window) -> dict[str, Any]:
        return model_request(
            self._definition,
            window,
            self._tools,
            self._roles,
            max_result_chars=self._settings.max_result_chars,
            repair=self._repair,
            is_last=self._rounds >= self._definition.max_iterations,
        )

    def _is_exact(self, step: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
        """Return whether the journal has this digest of the request; one that another model answered began as the first
        one's."""
        models = {step["name"], self._run.row.model, *(fallback.model for fallback in self._definition.fallbacks)}
        shape = {name: request[name] for name in ("messages", "tools")}
        return any(canonical_digest({"model": model, **shape}) == step["arguments_digest"] for model in models)

    @staticmethod
    def _following(own: Sequence[HistoryItem], message_id: str | None) -> list[HistoryItem]:
        """Return an answer's message and the results of its calls."""
        first = next((index for index, item in enumerate(own) if item.id == message_id), None)
        if first is None:
            return []
        rest = own[first + 1 :]
        end = next((index for index, item in enumerate(rest) if item.role != "tool"), len(rest))
        return [own[first], *rest[:end]]

    @staticmethod
    def _answer(
        step: Mapping[str, Any],
        result: Mapping[str, Any],
        request: dict[str, Any],
        following: Sequence[HistoryItem],
        *,
        is_exact: bool,
    ) -> RecordedAnswer:
        data: Mapping[str, Any] = following[0].data if following else {}
        repair = result.get("repair") or {}
        calls = [
            RecordedCall.model_validate(
                {name: call[name] for name in ("name", "arguments_text")} | {"id": call["call_id"]}
            )
            for call in data.get("tool_calls") or ()
        ]
        is_partial = not repair and (not following or following[0].partial)
        return RecordedAnswer(
            request=request,
            exact=is_exact,
            text=repair.get("text") or data.get("content") or "",
            reasoning=data.get("reasoning") or "",
            calls=calls,
            finish_reason=result.get("finish_reason"),
            is_whole=not is_partial,
        )
