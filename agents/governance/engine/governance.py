"""The engine's part in a run: it gets the run's events, and is asked before and after each call."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import Row

from agents.errors import POLICY_REFUSED
from agents.governance.engine.answer import INPUT, OUTPUT, EngineAnswer, InputType, merged, redact_for_engine
from agents.governance.engine.errors import EngineInputCut, EngineUnavailable, NoUsableAnswer
from agents.tools.results import chars_of, in_thread_if_large
from bus.journal.owner import Lease
from bus.payloads import EndPayload, ErrorPayload, Payload
from config.clock import stamp
from config.effects import Effect
from config.identity.contexts import GoldenContext, SecurityContext
from config.ids import new_id
from config.policy_decision import TOOLS_OWN, PolicyDecision, Verdict
from config.settings import Settings

if TYPE_CHECKING:
    from agents.governance.engine.remote import RemoteEngine

log = logging.getLogger(__name__)

RULE = "governance engine"
"""The rule of a decision by an engine that names none."""
VERSION = "remote"
OutageRule = Literal["by_effect", "fail_open", "fail_closed"]
_NO_OUTPUT = object()
_UNUSABLE = (EngineUnavailable, EngineInputCut)


@dataclass(frozen=True, kw_only=True, slots=True)
class GovernedRun:
    """The run that an event is about."""

    run_id: str
    thread_id: str
    agent_id: str
    tenant: str
    principal: str
    queue: str
    trace_id: str | None = None
    correlation_id: str | None = None
    context: Mapping[str, Any] | None = None
    """Its golden context."""
    security: Mapping[str, Any] | None = None
    """Its security context without the reference to the credential, which is no matter of another system."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GovernedCall:
    """The call that an event is about: a step of the run."""

    step_id: str
    call_id: str
    point: Literal["model", "tool"]
    name: str
    arguments: Mapping[str, Any]
    """Of a model call: ``model``, ``prompt`` (its newest message), ``messages`` (how many) and ``tools`` (names)."""
    identity: str = ""
    """Of an MCP server's tool ``mcp:server/tool``; empty of others."""
    effect: Effect = Effect.PURE
    leaves: bool = False
    """Whether the tool's calls reach another system."""
    attempt: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What the engine, or its silence, means for a call."""

    decision: PolicyDecision
    notes: Sequence[Payload] = ()
    """Events to be committed: the engine gave no answer, and the call is made all the same."""
    error: NoUsableAnswer | None = None
    """Why the engine gave no usable answer, where the call is refused for it."""
    output: Any = field(default=_NO_OUTPUT)

    @property
    def is_output_changed(self) -> bool:
        return self.output is not _NO_OUTPUT


class Governance:
    """Asks one engine about the calls of one run."""

    def __init__(self, engine: RemoteEngine, run: GovernedRun, when_silent: OutageRule) -> None:
        self._engine, self._run, self._when_silent = engine, run, when_silent

    async def before(self, call: GovernedCall) -> Judgement:
        """Return what the engine decides about a call that is about to be made."""
        sent, is_cut = await _redacted(dict(call.arguments))
        is_open = self._opens(call)
        event = self._event("ActivityStarted", **_fields(call), activity_input=[sent], is_cut=is_cut)
        try:
            answer = _usable(await self._engine.evaluate(event, INPUT), is_cut=is_cut, is_open=is_open)
            size = chars_of(answer.redacted) if answer.is_changed else 0
            arguments = await in_thread_if_large(size, _arguments, answer, call.arguments, sent)
        except _UNUSABLE as error:
            return self._silent(error, call, is_open=is_open)
        return Judgement(decision=_decision(answer, arguments))

    async def after(
        self,
        call: GovernedCall,
        *,
        status: str,
        output: Any,
        duration_ms: int | None,
        spans: Sequence[Mapping[str, Any]] = (),
    ) -> Judgement:
        """Return what the engine decides about a call that was made.

        Without an answer its result is kept back only with ``fail_closed``: the call has happened.
        """
        arguments, is_input_cut = await _redacted(dict(call.arguments))
        sent, is_output_cut = await _redacted(output)
        is_cut, is_open = is_input_cut or is_output_cut, self._when_silent != "fail_closed"
        facts = {"activity_output": sent, "status": status, "duration_ms": duration_ms, "is_cut": is_cut}
        facts |= {"activity_input": [arguments], "spans": list(spans), "span_count": len(spans)}
        event = self._event("ActivityCompleted", **_fields(call), **facts)
        try:
            answer = _usable(await self._engine.evaluate(event, OUTPUT), is_cut=is_cut, is_open=is_open)
        except _UNUSABLE as error:
            return self._silent(error, call, is_open=is_open)
        changed = output
        if answer.is_changed:
            changed = await in_thread_if_large(chars_of(answer.redacted), merged, output, sent, answer.redacted)
        judged = Judgement(decision=_decision(answer))
        return judged if changed is output else replace(judged, output=changed)

    async def report(self, event_type: str, **facts: Any) -> EngineAnswer | None:
        """Send an event of the run's life; None where the engine gave no usable answer."""
        parts = {name: await _redacted(value) for name, value in facts.items()}
        is_cut = any(is_part_cut for _, is_part_cut in parts.values())
        event = self._event(event_type, **{name: value for name, (value, _) in parts.items()}, is_cut=is_cut)
        input_type: InputType = INPUT if event_type == "WorkflowStarted" else OUTPUT
        try:
            return await self._engine.evaluate(event, input_type)
        except EngineUnavailable as error:
            log.warning("an event was not evaluated run_id=%s event=%s: %s", self._run.run_id, event_type, error)
            return None

    def _event(self, event_type: str, **facts: Any) -> dict[str, Any]:
        run = self._run
        return {
            "event_id": new_id("evt"),
            "event_type": event_type,
            "source": "workflow-telemetry",
            "timestamp": stamp(),
            "workflow_id": run.run_id,
            "run_id": run.run_id,
            "workflow_type": run.agent_id,
            "task_queue": run.queue,
            "thread_id": run.thread_id,
            "tenant": run.tenant,
            "principal": run.principal,
            "trace_id": run.trace_id,
            "correlation_id": run.correlation_id,
            "context": run.context,
            "security_context": run.security,
            **facts,
        }

    def _opens(self, call: GovernedCall) -> bool:
        """Return whether a call is made without the engine's answer."""
        if self._when_silent == "by_effect":
            return call.effect is Effect.PURE and not call.leaves
        return self._when_silent == "fail_open"

    def _silent(self, error: NoUsableAnswer, call: GovernedCall, *, is_open: bool) -> Judgement:
        text = f"{'passed' if is_open else 'refused'} without an answer: {error.facts['problem']}"
        log.warning("%s run_id=%s step_id=%s: %s", call.name, self._run.run_id, call.step_id, text)
        if not is_open:
            reason = f"The engine gave no usable answer: {error.facts['problem']}."
            decision = PolicyDecision(verdict=Verdict.BLOCK, rule=RULE, reason=reason, version=VERSION, remote=text)
            return Judgement(decision=decision, error=error)
        note = ErrorPayload(code=error.code, message=f"{call.name}: {error} The call is not held back.", retryable=True)
        decision = PolicyDecision(verdict=Verdict.ALLOW, rule=RULE, version=VERSION, remote=text)
        return Judgement(decision=decision, notes=[note])


async def _redacted(value: Any) -> tuple[Any, bool]:
    return await in_thread_if_large(chars_of(value), redact_for_engine, value)


def _fields(call: GovernedCall) -> dict[str, Any]:
    return {
        "activity_id": call.step_id,
        "activity_type": call.name if call.point == "tool" else "model",
        "activity_identity": call.identity or None,
        "call_id": call.call_id,
        "effect": str(call.effect),
        "attempt": call.attempt,
    }


def _usable(answer: EngineAnswer, *, is_cut: bool, is_open: bool) -> EngineAnswer:
    """Return the answer, about a cut event as a refusal alone; ``is_open``: silence would permit the call.

    Raises:
        EngineInputCut: the event was cut, and the answer is no stricter than silence.
    """
    if not is_cut:
        return answer
    order, least = tuple(Verdict).index, Verdict.REQUIRE_APPROVAL if is_open else Verdict.BLOCK
    if order(_decision(answer).verdict) < order(least):
        raise EngineInputCut
    return answer.unchanged()


def _arguments(answer: EngineAnswer, original: Mapping[str, Any], sent: Any) -> Mapping[str, Any] | None:
    """Return the arguments that the engine gives in place of the call's own; None where it changed none.

    Raises:
        EngineUnavailable: they are no arguments.
    """
    if not answer.is_changed:
        return None
    replacement = answer.redacted
    if isinstance(replacement, list) and len(replacement) == 1:  # events have a list of one
        replacement = replacement[0]
    if not isinstance(replacement, dict) and replacement != sent:
        raise EngineUnavailable(problem="its redacted_input is not the input's object")
    changed = merged(dict(original), sent, replacement)
    return None if changed == original else changed


def _decision(answer: EngineAnswer, arguments: Mapping[str, Any] | None = None) -> PolicyDecision:
    """Return the engine's decision; guardrails that do not pass block the call."""
    verdict = answer.verdict
    order = tuple(Verdict).index
    if not answer.is_valid:
        verdict = max(verdict, Verdict.BLOCK, key=order)
    elif arguments is not None:
        verdict = max(verdict, Verdict.CONSTRAIN, key=order)
    return PolicyDecision(
        verdict=verdict,
        rule=answer.rule or RULE,
        reason=answer.reason,
        version=VERSION,
        arguments=arguments,
        remote=str(verdict),
    )


def combined(local: PolicyDecision | None, remote: PolicyDecision) -> PolicyDecision:
    """Return the stricter of two decisions, with the changes of both; of equal ones the local one.

    What the local policy has noted besides, such as the labels of the result, stays in any case.
    """
    if local is None:
        return remote
    order = tuple(Verdict).index
    arguments = remote.arguments if remote.arguments is not None else local.arguments
    both = replace(local, arguments=arguments, remote=remote.remote)
    if (
        local.rule == TOOLS_OWN
        and Verdict.ALLOW is not remote.verdict
        and order(remote.verdict) <= order(local.verdict)
    ):
        return replace(both, rule=remote.rule, reason=remote.reason)
    if order(remote.verdict) <= order(local.verdict):
        return both
    return replace(both, verdict=remote.verdict, rule=remote.rule, reason=remote.reason)


# --- the engine of a run


def governance_of(
    settings: Settings,
    run: Lease | Row[Any],
    run_id: str,
    golden: GoldenContext | None,
    security: SecurityContext | None = None,
) -> Governance | None:
    """Return what asks the engine about a run, from its lease or its row; None where the settings name no engine."""
    if settings.governance_url is None:
        return None
    from agents.governance.engine.remote import engine_of  # with the HTTP client of requests to given addresses

    governed = GovernedRun(
        run_id=run_id,
        thread_id=run.thread_id,
        agent_id=run.agent_id,
        tenant=run.tenant,
        principal=run.principal,
        queue=run.queue or settings.queue,
        trace_id=run.trace_id,
        correlation_id=run.correlation_id or run.trace_id,
        context=golden.as_json() if golden is not None else None,
        security=security.as_json() if security is not None else None,
    )
    return Governance(engine_of(settings), governed, settings.governance_policy)


async def report_start(governance: Governance | None, workflow_input: Any) -> None:
    """Send that the run begins; without an answer it does, as each call of it is asked about.

    Raises:
        POLICY_REFUSED: the engine stops it.
    """
    answer = (
        await governance.report("WorkflowStarted", workflow_input=workflow_input) if governance is not None else None
    )
    if answer is not None and (answer.verdict in (Verdict.BLOCK, Verdict.HALT) or not answer.is_valid):
        raise POLICY_REFUSED(rule=answer.rule or RULE, reason=answer.reason)


async def report_end(governance: Governance | None, end: EndPayload | None) -> None:
    """Send how the run ended, where it has; the answer has no effect."""
    if governance is None or end is None:
        return
    if end.status == "succeeded":
        await governance.report("WorkflowCompleted", workflow_output=end.output, status=end.status)
    else:
        await governance.report("WorkflowFailed", status=end.status, error=end.reason)
