"""What one owner of a workflow has in memory, be its logic a graph or a blueprint; and whether any of it can work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.context import RunContext
from agents.errors import BLUEPRINT_REFUSED
from agents.tools.tool import Tool
from agents.workflows.calls.node_call import NodeCall
from agents.workflows.ledger import Ledger
from agents.workflows.saga import Saga
from bus.journal.approvals import Question
from bus.journal.owner import AcceptedInput, ControlRequest, NodeStep
from config.definitions.workflows.fields import WorkflowDefinition
from config.definitions.workflows.node_configs import WaitConfig
from config.effects import Changes, recorded_policy
from config.text.names import did_you_mean


class Activity:
    """Counts what can work; to be used on the loop's thread.

    A coroutine has one share from its beginning until its parent has dealt with its result, apart from the time in
    which it waits for others.
    """

    def __init__(self) -> None:
        self._count = 1
        self._waiters: set[asyncio.Future[bool]] = set()

    def begin(self) -> None:
        """Count one more."""
        self._count += 1

    def end(self) -> None:
        """Count one less; where none is left, what waits is woken."""
        self._count -= 1
        if self._count == 0:
            for waiter in list(self._waiters):
                self.wake(waiter, by_event=False)

    def waiter(self) -> asyncio.Future[bool]:
        """Return what ``wait`` waits for."""
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        return waiter

    def wake(self, waiter: asyncio.Future[bool], *, by_event: bool = True) -> None:
        """Let what waits continue."""
        if waiter in self._waiters:
            self._waiters.discard(waiter)
            self._count += 1
            if not waiter.done():
                waiter.set_result(by_event)

    async def wait(self, waiter: asyncio.Future[bool], timeout_s: float | None = None) -> bool:
        """Return True when it is woken, or its time is over; False once nothing else can work."""
        self.end()
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(waiter)
        except TimeoutError:
            self.wake(waiter)
            return True
        finally:
            if waiter in self._waiters:  # cancelled
                self._waiters.discard(waiter)
                self._count += 1


@dataclass(frozen=True, slots=True)
class WorkflowEnd:
    """The end of a workflow that has succeeded."""

    output: Any


class Runtime:
    """The ledger, the tools, the signals and the saga of one run; to be used on the loop's thread."""

    def __init__(
        self,
        context: RunContext,
        definition: WorkflowDefinition,
        toolbox: Mapping[str, Tool],
        accepted: AcceptedInput,
        recorded: Iterable[NodeStep],
    ) -> None:
        """``toolbox``: the tools by their lines; ``recorded``: the steps of earlier owners, in order."""
        steps = list(recorded)
        self.context, self.definition, self.toolbox = context, definition, toolbox
        self.input, self.message_id = accepted.data, accepted.message_id
        self.body = accepted.body
        """Of a child run that works on items of a FOR_EACH, in place of the whole graph: which; else None."""
        self.ledger, self.activity = Ledger(context), Activity()
        self.recorded = {step.node: step for step in steps}
        """The newest step of each node, by its path."""
        self.open: dict[str, Any] = {}
        """By the paths of their nodes: what is under way or waits, to be ended where the run ends early."""
        self.saga = Saga(self, steps)
        self._taken: set[int] = set()
        self._seen = {request.id for request in context.inbox.unread_at_claim}
        self._waiters: set[asyncio.Future[bool]] = set()
        context.inbox.on_signal = self._note_signal

    async def run(self) -> WorkflowEnd | None:
        """Work until the run is at its end; None where it waits, or this process is to leave it.

        Raises:
            CallboardError: the run has failed.
        """
        raise NotImplementedError

    def resumed(self, step: NodeStep) -> tuple[NodeCall, Tool]:
        """Return the node's call that an earlier owner left open, and its tool."""
        raise NotImplementedError

    def ids_of(self, path: str) -> dict[str, Any]:
        """Return what an event says of the node at this path: its id, its type and its scope."""
        raise NotImplementedError

    def questions(self, expires_ms: int) -> Sequence[Question]:
        """Return what a person is asked besides the run's calls; ``expires_ms``: until when."""
        return ()

    @property
    def is_leaving(self) -> bool:
        """Whether no node is begun any more, since this process is to leave the run."""
        return self.context.inbox.release_as is not None

    def changes(self, path: str, effect: str) -> bool:
        """Return whether a call of this effect class, of the node at this path, may change something."""
        return bool(effect) and recorded_policy(effect).changes is not Changes.NEVER

    def tool_called(self, name: str) -> Tool:
        """Return a tool by its name."""
        return next(tool for tool in self.toolbox.values() if tool.name == name)

    # --- signals

    def declared_signal(self, name: str) -> WaitConfig:
        """Return what waits for a signal of the definition's ``signals``.

        Raises:
            BLUEPRINT_REFUSED: there is no such name, so the signal would be refused.
        """
        names = self.definition.signals
        if name in names:
            return WaitConfig(signal=name)
        listing = ", ".join(f"'{signal}'" for signal in names) or "none"
        problem = f"it waits for '{name[:80]}', which is not among the `signals:` of its definition ({listing})."
        raise BLUEPRINT_REFUSED(problem=problem + did_you_mean(name, names))

    def signal(self, name: str) -> ControlRequest | None:
        """Return the signal of a name that no node has taken, and take it; None where it has not come."""
        self._seen.update(self.context.inbox.unread)
        for request in self.context.inbox.unread.values():
            if request.kind == "signal" and request.id not in self._taken and request.content == name:
                self._taken.add(request.id)
                return request
        return None

    @property
    def untaken_signals(self) -> tuple[int, ...]:
        """The signals that have come and that no node waits for yet, by the ids of their controls.

        One that came after the last node looked is not among them: its node may wait, and has to be woken.
        """
        signals = [request.id for request in self.context.inbox.unread.values() if request.kind == "signal"]
        return tuple(signal for signal in signals if signal in self._seen and signal not in self._taken)

    async def next_signal(self, timeout_s: float | None) -> bool:
        """Return True when a signal has come or the time is over; False once nothing else of the run can work."""
        waiter = self.activity.waiter()
        self._waiters.add(waiter)
        try:
            return await self.activity.wait(waiter, timeout_s)
        finally:
            self._waiters.discard(waiter)

    def _note_signal(self) -> None:
        for waiter in list(self._waiters):
            self.activity.wake(waiter)
