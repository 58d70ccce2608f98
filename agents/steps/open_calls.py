"""What becomes of a run's open tool calls: resumed, asked about, given back, or ended with the run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from agents.context import RunContext
from agents.delegation.agent_tool import begun_tool
from agents.errors import HANDOVER_REFUSED, OUTCOME_UNKNOWN, POLICY_REFUSED
from agents.models.streams.tool_calls import ToolCall
from agents.steps.tool_step import ToolStep
from agents.tools.tool import Tool
from bus.journal.owner import DRAINED, Commit, Ending, FirstCommit, OpenStep, Reason, Release, TaskWait
from bus.payloads import Payload, StatusPayload
from config.definitions.agent import AgentDefinition
from config.effects import GATE
from config.ids import canonical_digest
from config.policy_decision import PolicyDecision
from config.text.names import counted_names

MOST_GATES = 5
"""Questions of workflows that the sentence about a waiting run has."""


def resumed(context: RunContext, definition: AgentDefinition, tools: Mapping[str, Tool], step: OpenStep) -> ToolStep:
    """Return the open call of an earlier owner, as it was asked for; a child run that it began needs no tool here."""
    if step.child is not None and step.name not in tools:
        tools = {**tools, step.name: begun_tool(step.name, step.child.agent_id)}
    call = ToolCall(id=step.call_id, name=step.name, arguments_text=step.arguments_text or "")
    return new_step(context, definition, tools, call, step)


def new_step(
    context: RunContext,
    definition: AgentDefinition,
    tools: Mapping[str, Tool],
    call: ToolCall,
    prior: OpenStep | None = None,
) -> ToolStep:
    """Return the step of a call as the definition wants it made; ``prior``: as an earlier owner left it."""
    asks_missing, timeout_s = definition.ask_missing_arguments, definition.timeouts.tool_s
    return ToolStep(context, call, tools, timeout_s, prior=prior, asks_missing=asks_missing)


def waits_for_a_person(call: ToolStep, on_unknown: str) -> bool:
    """Return whether a call gets what it lacks, or its result, from a person's answer."""
    return (
        call.decision.approval_reason is not None
        or call.work.asks is not None
        or (call.is_unknown and on_unknown != "tell_model")
    )


def first_commit(calls: Sequence[ToolStep], steps: Sequence[OpenStep]) -> FirstCommit:
    """Return what has to be committed before an owner resumes the calls of these steps."""
    used = [step.approval_id for step in steps if step.approval_id and step.decision]
    begun = [call for call in calls if call.will_run]
    judged = decided(calls)
    edited = {
        call.id: canonical_digest(call.decision.arguments) for call in begun if call.record.answer.edited is not None
    }
    restarted = [call.id for call in begun]
    waits = {call.id: call.new_wait for call in calls if call.new_wait is not None}
    return FirstCommit(
        restarted=restarted,
        edited=edited,
        decided=judged,
        waits=waits,
        sticky=sticky_of(begun),
        answers_used=used,
    )


def decided(calls: Iterable[ToolStep]) -> dict[str, PolicyDecision]:
    """Return what was decided about calls, by the ids of their steps."""
    judged = {call.id: call.decision.policy_decision for call in calls}
    return {step_id: decision for step_id, decision in judged.items() if decision is not None}


def sticky_of(calls: Iterable[ToolStep]) -> list[str]:
    """Return the ids of the sticky approvals by which calls begin."""
    return [call.sticky_id for call in calls if call.sticky_id is not None]


def require_wanted(calls: Sequence[ToolStep]) -> None:
    """Return unless a person or the policy decided that the run ends for one of the calls.

    Raises:
        OUTCOME_UNKNOWN: a person did.
        POLICY_REFUSED: the policy did.
    """
    if any(call.record.is_answered("fail") for call in calls):
        raise OUTCOME_UNKNOWN("a call was cut off, and a person decided that the run fails for it.")
    halted = (call.decision.policy_decision for call in calls if call.decision.is_halted)
    halting = next(halted, None)
    if halting is not None:
        raise POLICY_REFUSED(rule=halting.rule, reason=halting.reason)


async def ask_engine(context: RunContext, calls: Sequence[ToolStep]) -> list[Payload]:
    """Ask the governance engine about calls before they are begun; return the events to be committed with them."""
    if context.governance is None:
        return []
    notes_of_calls = await asyncio.gather(*(call.ask_engine() for call in calls))
    return [note for notes in notes_of_calls for note in notes]


async def ask_engine_about_begun(context: RunContext, calls: Sequence[ToolStep]) -> None:
    """Ask the governance engine about calls whose start the claim has committed, and commit what is decided."""
    begun = [call for call in calls if call.will_run]
    if context.governance is None or not begun:
        return
    notes = await ask_engine(context, begun)
    judged = decided(begun)
    planned = [call.id for call in begun if call.decision.approval_reason is not None]
    await context.save(Commit(events=notes, decided=judged, planned=planned))


def refuse_handover_beside_others(calls: Sequence[ToolStep]) -> None:
    """Refuse a call that hands over unless it is the only one of its answer: the other agent has not made the rest."""
    for call in calls if len(calls) > 1 else ():
        if call.record.tool is not None and call.record.tool.hands_over and not call.is_settled:
            name = call.record.call.name
            call.refuse(HANDOVER_REFUSED(f"Not done: {name} has to be the only call of an answer; call it by itself."))


def outcomes(calls: Iterable[ToolStep], message_id: str) -> Commit:
    """Return the ends of calls as one commit; ``message_id`` is the message that asked for them."""
    return joined([call.outcome(message_id) for call in calls])


async def take_children(calls: Sequence[ToolStep], message_id: str) -> tuple[Commit | None, list[ToolStep]]:
    """Return the results of child runs as one commit, and the other calls.

    They are those that have ended, in the order of the calls, up to the first one that has not; later ones wait for it.
    """
    ended: list[ToolStep] = []
    is_held = False
    for call in calls:
        if call.work.child is not None:
            is_held = is_held or not call.work.child.is_over
            call.work.child.is_held = is_held
            ended += [] if is_held else [call]
    for call in ended:
        await call.run()
    return outcomes(ended, message_id) if ended else None, [call for call in calls if call not in ended]


async def wait(context: RunContext, calls: Sequence[ToolStep], on_unknown: str) -> None:
    """Release the run until a person has answered what these calls need, and their tasks have ended.

    Raises:
        OUTCOME_UNKNOWN, TOO_MANY_QUESTIONS: see ``waiting``.
    """
    change = await waiting(context, calls, on_unknown)
    await context.save(change)
    if any(task_wait is not None for task_wait in change.waiting.values()):
        context.note_task_waits()


async def waiting(context: RunContext, calls: Sequence[ToolStep], on_unknown: str) -> Commit:
    """Return the commit that releases the run until these calls have what they wait for.

    Raises:
        OUTCOME_UNKNOWN: the outcome of one is unknown, and ``on_unknown`` says that the run fails then.
        TOO_MANY_QUESTIONS: the runs of the principal have asked as many as they may within an hour.
    """
    asking = [call for call in calls if not call.work.is_pending]
    pending = {call.id: call.wait for call in calls if call.work.is_pending}
    if asking:
        return await _asking(context, asking, on_unknown, pending)
    reason = Reason.CHILD if all(call.work.child is not None for call in calls) else Reason.TASK
    release = Release(status="waiting", reason=reason, detail=_awaited(calls))
    waits = StatusPayload(status="waiting", reason=reason)
    return Commit(events=[waits], waiting=pending, release=release)


def _expiry(call: ToolStep, now_ms: int, most_ms: int) -> int:
    """Return until when a person may answer about a call."""
    tool = call.record.tool
    seconds = tool.answer_s if tool is not None else None
    return most_ms if seconds is None else min(most_ms, now_ms + round(seconds * 1000))


async def _asking(
    context: RunContext, calls: Sequence[ToolStep], on_unknown: str, pending: Mapping[str, TaskWait | None]
) -> Commit:
    """Return the commit that asks a person what these calls need, and about unknown ones.

    ``pending``: by their steps, the tasks and child runs (None) that are under way meanwhile.

    Raises:
        OUTCOME_UNKNOWN: the outcome of one is unknown, and ``on_unknown`` says that the run fails then.
        TOO_MANY_QUESTIONS: the runs of the principal have asked as many as they may within an hour.
    """
    unknown = [call for call in calls if call.is_unknown]
    if unknown and on_unknown == "fail":
        raise OUTCOME_UNKNOWN(
            f"it is not known whether {_names(unknown)} took effect, and the agent is configured to fail then; "
            "look at the other side before you start a new run."
        )
    expires_ms = await context.wait_expiry_ms()
    now_ms = expires_ms - context.settings.approval_ttl_s * 1000
    questions = [call.question(_expiry(call, now_ms, expires_ms)) for call in calls if not call.record.is_asked]
    await context.require_may_ask(sum(question.kind != "unknown" for question in questions))
    release = Release(status="waiting", reason=Reason.APPROVAL, questions=tuple(questions), detail=_asked_of(calls))
    waits = StatusPayload(status="waiting", reason="approval")
    return Commit(
        events=[*(question.payload() for question in questions), waits],
        unknown=[call.id for call in unknown],
        planned=[call.id for call in calls if call.work.asks is not None],
        waiting=pending,
        release=release,
    )


def given_back(calls: Sequence[ToolStep], message_id: str) -> Commit:
    """Return the commit that releases a run in the middle of its calls; results of completed calls are in it."""
    # A hand-over is committed with its result alone; without it, the next owner makes the call again.
    done = [call for call in calls if call.is_settled and not call.is_unknown and call.work.handover is None]
    unbegun = [call.id for call in calls if call.is_unbegun]
    waiting = {call.id: call.wait for call in calls if call.is_waiting}
    results = outcomes(done, message_id)
    events = [*results.events, *moved(DRAINED)]
    return replace(results, events=events, planned=unbegun, waiting=waiting, release=DRAINED)


def cut_off(calls: Sequence[ToolStep], message_id: str, ending: Ending) -> Commit:
    """Return the ends of calls that are open when the run ends early; each gets a result."""
    for call in calls:
        call.cut_off(ending)
    return outcomes(calls, message_id)


def moved(release: Release | None) -> list[Payload]:
    """Return the event that says that another worker takes the run over, or that the run waits."""
    if release is None:
        return []
    return [StatusPayload(status="moved" if release.status == "queued" else release.status, reason=release.reason)]


def joined(parts: Sequence[Commit]) -> Commit:
    """Return the ends of several steps as one commit."""
    return Commit(
        events=[event for part in parts for event in part.events],
        ended=[ended for part in parts for ended in part.ended],
        history=[item for part in parts for item in part.history],
        labels=frozenset().union(*(part.labels for part in parts)),
    )


def _names(calls: Iterable[ToolStep]) -> str:
    return ", ".join(counted_names(call.record.call.name for call in calls))


def _awaited(calls: Sequence[ToolStep]) -> str:
    """Return which tasks and agents a run waits for, as a sentence for lists of runs."""
    tasks = ", ".join(call.wait.task for call in calls if call.wait is not None)
    agents = ", ".join(counted_names(call.record.call.name for call in calls if call.work.child is not None))
    what = [f"the result of {tasks}, of a Celery application"] if tasks else []
    return f"Waits for {' and '.join([*what, f'the answer of {agents}'] if agents else what)}."


def _asked_of(calls: Sequence[ToolStep]) -> str:
    """Return what a person is asked, as a sentence for lists of runs."""
    unknown, forms = [call for call in calls if call.is_unknown], [call for call in calls if call.needs_form]
    gates = [call for call in calls if call.record.call.name == GATE and call not in unknown]
    before = [call for call in calls if call not in unknown and call not in forms and call not in gates]
    sentences = [f"A person has to answer: {call.decision.arguments.get('message')}" for call in gates[:MOST_GATES]]
    if forms:
        sentences.append(f"A person has to answer what {_names(forms)} {'asks' if len(forms) == 1 else 'ask'}.")
    if before:
        when = "it is called" if len(before) == 1 else "they are made"
        sentences.append(f"A person has to approve {_names(before)} before {when}.")
    if unknown:
        sentences.append(f"It is not known whether {_names(unknown)} took effect; a person has to say how to continue.")
    return " ".join(sentences)
