"""Runs a blueprint's logic over its records: a recorded call returns at once, any other is made and recorded."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import uuid
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NoReturn

import orjson

from agents.errors import BLUEPRINT_REFUSED, NONDETERMINISTIC
from agents.tools.tool import Tool
from agents.workflows.blueprint import BLUEPRINTS, BaseBlueprint, Undoing, arguments_of, current_recorder
from agents.workflows.calls.node_call import DONE, NodeCall, NodeFailed, RunEnds, recorded_error
from agents.workflows.calls.scope import NodeOutput, ScopeState
from agents.workflows.calls.tool_call import called
from agents.workflows.nodes.wait import WaitNode
from agents.workflows.runtime import Runtime, WorkflowEnd
from agents.workflows.saga import SAGA
from bus.journal.approvals import Question
from bus.journal.owner import Commit, NodeStep
from bus.payloads import NodePayload
from config.definitions.workflows import node_configs
from config.definitions.workflows.fields import NodeFields
from config.definitions.workflows.graph import COMPENSATION
from config.errors import CallboardError
from config.ids import canonical_digest, new_id

log = logging.getLogger(__name__)

CALL = "CAPABILITY"  # the type of such nodes in events
_NAME = re.compile(r"\.[^/]*")


@dataclass(slots=True)
class _Place:
    """Where the code is: the number of its last call in this branch of ``gather``."""

    prefix: str = ""
    count: int = 0

    def next(self, name: str) -> str:
        """Return the path of the next call."""
        self.count += 1
        return f"{self.prefix}{self.count}.{name}"


_place: ContextVar[_Place] = ContextVar("place")


class Parked(BaseException):
    """The logic goes no further in this process; it is no error that it could catch."""


AFTER_CONFLICT = ("run_again", "fail")
"""How a person may let a run continue whose code has changed: after other code was deployed, or not at all."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A call that differs from the one that is recorded in its place."""

    step: NodeStep
    calls: Mapping[str, Any]
    """Both calls, ``recorded`` and ``now``."""
    reason: str


@dataclass(kw_only=True, slots=True)
class BlueprintCall(NodeCall):
    """One call of a blueprint's code."""

    place: str = ""

    @property
    def path(self) -> str:
        return self.place

    def event(self, status: str, **more: Any) -> NodePayload:
        return NodePayload(**self.executor.ids_of(self.place), status=status, **more)

    @property
    def labels(self) -> frozenset[str]:
        """The labels of everything that the code may have seen."""
        return frozenset(self.executor.seen)


class BlueprintExecutor(Runtime):
    """One owner's run of a blueprint's logic."""

    def __init__(self, *parts: Any) -> None:
        """The arguments are those of ``Runtime``."""
        super().__init__(*parts)
        self.seen: set[str] = set()
        """The labels of what the calls have returned so far."""
        self.golden, self.security = self.context.golden, self.context.security
        calls = ((path, step) for path, step in self.recorded.items() if not path.endswith((COMPENSATION, SAGA)))
        self._by_place = {_NAME.sub("", path): step for path, step in calls}
        self._signals: set[str] = set()  # those that a call waits for, or has taken
        self._is_parked = asyncio.Event()
        self._stop: BaseException | None = None  # what ends the logic, which makes no call any more
        self.conflict: Conflict | None = None
        """The call that differs from its record, because of which the logic was stopped."""

    async def run(self) -> WorkflowEnd | None:
        blueprint_class = BLUEPRINTS.find(self.definition.blueprint or "", self.context.settings)
        logic = asyncio.create_task(self._logic(blueprint_class), name=f"blueprint {self.context.lease.run_id}")
        parked = asyncio.create_task(self._is_parked.wait())
        try:
            await asyncio.wait({logic, parked}, return_when=asyncio.FIRST_COMPLETED)
            if isinstance(self._stop, RunEnds):  # also where a branch beside it waits
                raise self._stop.error from self._stop
            return WorkflowEnd(logic.result()) if logic.done() else None
        except Parked:
            return None
        finally:
            parked.cancel()
            self._stop = self._stop or Parked()
            logic.cancel()
            await asyncio.gather(logic, return_exceptions=True)

    async def _logic(self, blueprint_class: type[BaseBlueprint]) -> Any:
        current_recorder.set(self)
        _place.set(_Place())
        try:
            return await blueprint_class(self, self.definition.config).main(self.input)
        except NodeFailed as failure:
            raise failure.error from failure
        except RunEnds as end:
            raise end.error from end
        except CallboardError:
            raise
        except Exception as error:
            log.exception("blueprint failed run_id=%s", self.context.lease.run_id)
            raise BLUEPRINT_REFUSED(problem=f"its logic failed: {type(error).__name__}: {error}") from error

    def resumed(self, step: NodeStep) -> tuple[NodeCall, Tool]:
        return self._call(step.node), self.tool_called(step.step.name)

    def ids_of(self, path: str) -> dict[str, Any]:
        return {"node_id": path, "node_type": CALL}

    # --- what the logic calls

    async def call(self, cap_id: str, data: Mapping[str, Any], run_as: str | None, undone_by: Undoing | None) -> Any:
        """Return the result of a capability's call; see ``BaseBlueprint.execute_by_id``."""
        self._require_self(run_as)
        tool = self._tool(cap_id)
        call = self._begin(tool.name, data)
        outcome = self._recorded(call)
        if outcome is None:
            outcome = await self._made(call, tool, data, undone_by and (self._tool(undone_by[0]), undone_by[1]))
        elif undone_by is not None:  # fails as it did before
            self._tool(undone_by[0])
            arguments_of(undone_by[1], outcome.value)
        self.seen.update(outcome.labels)
        return outcome.value

    async def _made(self, call: BlueprintCall, tool: Tool, data: Any, undoing: tuple[Tool, Any] | None) -> NodeOutput:
        try:
            output = await called(call, tool, data)
        except NodeFailed as failure:
            self.seen.update(failure.labels | call.labels_got)
            self._keep(call.failed(failure, None))
            if failure.ends_run:
                self._stop = RunEnds(failure.error)
                raise self._stop from failure
            raise failure.error from failure
        if output is None:
            return await self._park()
        self.seen.update(output.labels)
        change = call.concluded(output)
        fault = None
        if undoing is not None:
            try:
                arguments = arguments_of(undoing[1], output.value)
                change = replace(change, started=[self.saga.registered(call.path, undoing[0], arguments)])
            except Exception as error:  # of the blueprint's code: the call was made all the same
                fault = error
        self._keep(change)
        await self.ledger.flush()
        if fault is not None:
            raise fault
        return output

    def value(self, name: str) -> Any:
        """Return a value that is the same each time: the time, a UUID or a random number."""
        call = self._begin(name)
        outcome = self._recorded(call)
        if outcome is not None:
            return outcome.value
        seed = f"{self.context.lease.run_id}/{call.path}"
        makers: dict[str, Callable[[], Any]] = {
            "now": lambda: datetime.now(UTC).isoformat(),
            "uuid": lambda: str(uuid.uuid5(uuid.NAMESPACE_URL, seed)),
            "random": lambda: random.Random(seed).random(),  # no secret
        }
        value = makers[name]()
        call.change = call.computed()
        change = call.concluded(NodeOutput(value=value))
        self.ledger.add(replace(change, events=()))
        return value

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        await self._waited("sleep", node_configs.WaitConfig(seconds=seconds))

    async def wait_for(self, signal: str, timeout_s: float | None) -> Any:
        """Return the data of a signal, which one call takes; where it has not come in time, another may wait for it."""
        settings = self.declared_signal(signal)
        if signal in self._signals:
            problem = f"it waits for '{signal}' again, and a signal is given once; name another one in `signals:`."
            raise BLUEPRINT_REFUSED(problem=problem)
        self._signals.add(signal)
        try:
            return await self._waited("wait_for", settings, timeout_s)
        except CallboardError:
            self._signals.discard(signal)
            raise

    async def _waited(self, name: str, settings: node_configs.WaitConfig, timeout_s: float | None = None) -> Any:
        call = self._begin(name, {"signal": settings.signal, "seconds": settings.seconds or timeout_s})
        call.node = call.node.model_copy(update={"timeout_s": timeout_s})
        call.node.set_settings(settings)
        outcome = self._recorded(call)
        if outcome is not None:
            return outcome.value
        try:
            output = await WaitNode().run(call)
        except NodeFailed as failure:
            self._keep(call.failed(failure, None))
            raise failure.error from failure
        if output is None:
            output = await self._park()
        self.seen.update(output.labels)
        self._keep(call.concluded(output))
        await self.ledger.flush()
        return output.value

    async def gather(self, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
        """Make calls at once; each branch numbers its own."""
        prefix = _place.get().next("gather")
        for _ in calls[1:]:  # this call's own share is that of the last branch that works
            self.activity.begin()
        left = [len(calls)]
        branches = (self._branch(f"{prefix}/{number}/", call, left) for number, call in enumerate(calls))
        tasks = [asyncio.create_task(branch) for branch in branches]
        try:
            results = await asyncio.gather(*tasks, return_exceptions=True)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        errors = [result for result in results if isinstance(result, BaseException)]
        for error in sorted(errors, key=lambda error: isinstance(error, Exception)):  # what the code cannot catch first
            raise error
        return results

    async def _branch(self, prefix: str, call: Coroutine[Any, Any, Any], left: list[int]) -> Any:
        """``left``: how many branches work or wait, in its one place."""
        _place.set(_Place(prefix))
        try:
            return await call
        finally:
            left[0] -= 1
            if left[0]:
                self.activity.end()

    # --- records

    def _call(self, path: str) -> BlueprintCall:
        _, _, name = path.rpartition("/")
        node = NodeFields(id=_identifier(name.partition(".")[2]), type=CALL)
        return BlueprintCall(executor=self, node=node, state=ScopeState(scope_id=""), place=path)

    def _begin(self, name: str, data: Mapping[str, Any] | None = None) -> BlueprintCall:
        """Return the next call of the code.

        Raises:
            NONDETERMINISTIC: the code made another call here before.
        """
        if self._stop is not None:  # the code's `finally:` and the like
            raise self._stop
        path = _place.get().next(name)
        call = self._call(path)
        before = self._by_place.get(_NAME.sub("", path))
        if before is None:
            return call
        digest = canonical_digest(dict(data)) if data is not None else None
        answer = before.step.answer.decision
        is_given_up = before.is_over and answer is not None and answer.decision == "fail"  # also by the old code again
        differs = before.node != path or (before.kind == "tool" and digest not in (None, before.step.arguments_digest))
        if differs or is_given_up:
            self._refuse(before, path, data)
        call.prior = before if not before.is_over else None
        call.is_recorded = before.is_over
        return call

    def _refuse(self, before: NodeStep, path: str, data: Mapping[str, Any] | None) -> NoReturn:
        """Stop the logic, which has made another call than is recorded: a person decides how to continue.

        Raises:
            NONDETERMINISTIC: a person has decided that the run fails for it.
        """
        arguments = orjson.loads(before.step.arguments_text) if before.step.arguments_text is not None else None
        recorded = {"call": _shown(before.node), "arguments": arguments}
        now = {"call": _shown(path), "arguments": dict(data) if data is not None else None}
        error = NONDETERMINISTIC(place=_NAME.sub("", path), recorded=_line(recorded), now=_line(now))
        answer = before.step.answer.decision
        if answer is not None and answer.decision == "fail":
            raise error
        self.conflict = Conflict(before, {"recorded": recorded, "now": now}, str(error))
        self._stop = Parked()
        raise self._stop

    def questions(self, expires_ms: int) -> list[Question]:
        conflict = self.conflict
        if conflict is None or conflict.step.step.is_asked:
            return []
        step = conflict.step.step
        return [
            Question(
                id=new_id("apr"),
                step_id=step.id,
                call_id=step.call_id or conflict.step.node,
                name=NONDETERMINISTIC.code,
                arguments=conflict.calls,
                digest=canonical_digest(dict(conflict.calls)),
                decisions=AFTER_CONFLICT,
                reason=conflict.reason,
                expires_ms=expires_ms,
            )
        ]

    def _recorded(self, call: BlueprintCall) -> NodeOutput | None:
        """Return what a call has returned before; None where it is not at its end.

        Raises:
            CallboardError: it had failed.
        """
        if not call.is_recorded:
            return None
        step = self.recorded[call.path]
        if step.step.status != DONE:
            raise recorded_error(step.result)
        return NodeOutput(value=step.result, labels=step.labels)

    def _keep(self, change: Commit) -> None:
        added = self.context.add_labels(self.seen)
        self.ledger.add(replace(change, labels=change.labels | added) if added else change)

    async def _park(self) -> NodeOutput:
        """Wait without end; once nothing else of the code can work, the run is released."""
        waiter = self.activity.waiter()
        await self.activity.wait(waiter)
        self._is_parked.set()
        await asyncio.Event().wait()
        raise AssertionError("a parked call is cancelled")

    # --- the definition's

    def _tool(self, cap_id: str) -> Tool:
        for line, tool in self.toolbox.items():
            if cap_id in (line, tool.name):
                return tool
        listing = ", ".join(f"'{tool.name}'" for tool in self.toolbox.values()) or "none"
        raise BLUEPRINT_REFUSED(
            problem=f"'{cap_id[:80]}' is not among its tools ({listing}); list it under `tools:` of its definition."
        )

    def _require_self(self, run_as: str | None) -> None:
        if run_as not in (None, self.context.lease.principal):
            raise BLUEPRINT_REFUSED(problem=f"its calls are made as '{self.context.lease.principal}', who started it.")


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)[:64] or "call"


def _shown(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[2]


def _line(call: Mapping[str, Any]) -> str:
    return f"{call['call']}({orjson.dumps(call['arguments']).decode()[:200] if call['arguments'] else ''})"
