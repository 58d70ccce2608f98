"""FOR_EACH: its body for each item of a list, several at once, with the results in the order of the items."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from agents.errors import ITEMS_CHANGED
from agents.tools.tool import Tool
from agents.workflows.calls.handler import Handler, evaluated, items_of
from agents.workflows.calls.node_call import DONE, NodeCall, NodeFailed, error_value, recorded_error
from agents.workflows.calls.scope import NodeOutput, ScopeState, outputs_of, written
from agents.workflows.calls.tool_call import called
from agents.workflows.nodes.wait import OpenNode
from bus.journal.owner import Commit, StepEnded, StepStarted
from bus.payloads import NodePayload
from config.definitions.workflows.fields import WorkflowDefinition
from config.effects import INWARD, TRUSTED, Effect
from config.errors import CallboardError
from config.expressions.templates import require_size
from config.expressions.work import size_of
from config.ids import canonical_digest, new_id

FAILED = "failed"


class ForEachNode(Handler):
    """The list is frozen by its digest when the node begins, and each item that is at its end has a step of its own."""

    async def run(self, call: NodeCall) -> NodeOutput | None:
        items = items_of(call, call.settings.items)
        step_id = await self._begun(call, items)
        call.executor.open[call.path] = OpenNode(step_id)
        if call.executor.graph.is_legacy(call.node.id):
            return self._over(call, step_id, items, frozenset())
        is_spread = call.settings.spread and call.executor.body is None
        items_walk = Spread(call, items) if is_spread else Items(call, items)
        try:
            is_over = await items_walk.run()
        except NodeFailed as failure:
            call.executor.open.pop(call.path)
            ended = StepEnded(id=step_id, status=FAILED, result=error_value(failure.error))
            facts: Any = {"ends_run": failure.ends_run, "labels": items_walk.labels}
            raise NodeFailed(failure.error, Commit(ended=[ended]), **facts) from failure
        return self._over(call, step_id, items_walk.results, items_walk.labels) if is_over else None

    async def _begun(self, call: NodeCall, items: list[Any]) -> str:
        """Return the node's step; its start is committed with the digest of the list.

        Raises:
            ITEMS_CHANGED: the list is another one than when the node began.
        """
        if call.prior is not None:
            if call.prior.step.arguments_digest != canonical_digest(items):
                raise ITEMS_CHANGED(node=call.node.id)
            return call.prior.step.id
        started = call.step("node", items, input={"items": len(items)})
        event = call.event("started", step_id=started.id, content=f"{len(items):,} item{'s' * (len(items) != 1)}")
        call.executor.context.spending.begin(1)
        call.executor.ledger.add(Commit(events=[event], started=[started]))
        return started.id

    def _over(self, call: NodeCall, step_id: str, results: list[Any], labels: frozenset[str]) -> NodeOutput:
        call.executor.open.pop(call.path)
        call.change = Commit(ended=[StepEnded(id=step_id, status=DONE)])
        return NodeOutput(value=results, labels=labels)


class Items:
    """The items of one FOR_EACH, each walked by itself."""

    def __init__(self, call: NodeCall, items: list[Any], indices: Sequence[int] | None = None) -> None:
        """``indices``: of the items in the whole list, where these are a part of it."""
        self._call, self._items = call, items
        self._indices = indices if indices is not None else range(len(items))
        self.results: list[Any] = [None] * len(items)
        self.statuses: list[str | None] = [None] * len(items)
        """``done`` or ``failed``; None of an item that is not at its end."""
        self.labels: frozenset[str] = frozenset()
        self._size = 0
        self._next, self._is_held = 0, False
        self._tasks: set[asyncio.Task[bool]] = set()
        self._failure: NodeFailed | None = None

    @property
    def outcomes(self) -> list[dict[str, Any]]:
        """The ``status`` and the ``result`` of each item, as a batch's child run gives them."""
        pairs = zip(self.statuses, self.results, strict=True)
        return [{"status": status, "result": result} for status, result in pairs]

    async def run(self) -> bool:
        """Walk every item; return whether all are at their end.

        Raises:
            NodeFailed: one has failed, and that fails the node.
        """
        try:
            while True:
                self._begin_some()
                if not self._tasks:
                    break
                await self._await_next()
        except BaseException:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            raise
        if self._failure is not None:
            raise self._failure
        return not self._is_held and self._next == len(self._items)

    def _begin_some(self) -> None:
        """Begin as many items as may be worked on at once; those that are recorded need no work."""
        executor, at_once = self._call.executor, self._call.settings.at_once
        while self._next < len(self._items) and len(self._tasks) < at_once:
            if self._failure is not None or executor.is_leaving:
                return
            index, self._next = self._next, self._next + 1
            if not self._is_recorded(index):
                executor.activity.begin()
                self._tasks.add(asyncio.create_task(self._walk(index), name=f"{self._call.path} {index}"))

    async def _await_next(self) -> None:
        executor = self._call.executor
        await asyncio.sleep(0)
        await executor.ledger.flush()
        executor.activity.end()
        done, self._tasks = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        executor.activity.begin()
        for task in done:
            self._is_held |= not task.result()
        self._begin_some()
        for _ in done:
            executor.activity.end()

    def _count_size(self, value: Any) -> None:
        """Let the node fail once the results of its items are too large all together."""
        self._size += size_of({"": value})[1]
        try:
            evaluated(self._call, require_size, self._size)
        except CallboardError as error:
            self._failure = self._failure or NodeFailed(error)

    def _is_recorded(self, index: int) -> bool:
        """Return whether an earlier owner has written the item's end, and take its result."""
        recorded = self._call.executor.recorded.pop(written(self._path(index)), None)
        if recorded is None or recorded.step.arguments_digest != canonical_digest(self._items[index]):
            return False  # a retry may have been given another list
        self.results[index], self.statuses[index] = recorded.result, recorded.step.status
        self.labels |= recorded.labels
        self._count_size(recorded.result)
        return True

    def _path(self, index: int) -> tuple[str | int, ...]:
        return (*self._call.state.path, self._call.node.id, self._indices[index])

    async def _walk(self, index: int) -> bool:
        """Walk one item; return whether it is at its end."""
        executor, call = self._call.executor, self._call
        state = ScopeState(
            scope_id=call.node.id,
            path=self._path(index),
            item=self._items[index],
            index=self._indices[index],
            around=call.state,
            labels_of_item=call.labels,
        )
        try:
            is_over = await executor.walk(state)
        except NodeFailed as failure:
            if call.settings.on_item_error == "fail" or failure.ends_run:
                self._failure = self._failure or failure
                self.results[index], self.statuses[index] = error_value(failure.error), FAILED
                self.labels |= failure.labels
                return True
            self._keep(index, state, FAILED, error_value(failure.error))
            return True
        if is_over:
            self._keep(index, state, DONE, outputs_of(executor.graph, state))
        return bool(is_over)

    def _keep(self, index: int, state: ScopeState, status: str, value: Any) -> None:
        self.keep(index, status, value, state.labels_of_item.union(*state.labels.values()))

    def keep(self, index: int, status: str, value: Any, labels: frozenset[str]) -> None:
        """Keep an item's result, and add its step to the next commit."""
        self._count_size(value)
        self.results[index], self.statuses[index] = value, status
        self.labels |= labels
        started = StepStarted(
            id=new_id("step"),
            kind="item",
            name=self._call.node.id,
            node=written(self._path(index)),
            arguments_digest=canonical_digest(self._items[index]),
            idempotency_key=new_id("key"),
        )
        ended = StepEnded(id=started.id, status=status, result=value, labels=labels)
        self._call.executor.ledger.add(Commit(recorded=[(started, ended)]))


class Spread(Items):
    """The items of one FOR_EACH in batches, each the child run of another worker, or of this one.

    A child gives the outcome of each of its items, so that what is done is kept although another item fails.
    """

    async def run(self) -> bool:
        executor, call = self._call.executor, self._call
        executor.bodies[call.path] = self._body
        missing = [index for index in range(len(self._items)) if not self._is_recorded(index)]
        under_way = executor.batches_of(call.path)
        taken = {index for indices in under_way.values() for index in indices}
        waiting = deque(self._parts([index for index in missing if index not in taken]))
        self._failure = self._failure or executor.batch_failure(call.path) or self._item_failure
        room = max(1, executor.context.settings.child_runs - len(under_way)) if self._failure is None else 0
        begun = {f"{call.path}~{part[0]}": part for part in (waiting.popleft() for _ in range(min(room, len(waiting))))}
        is_over = True
        for path, indices in {**under_way, **begun}.items():
            is_over &= await self._batch(path, indices)
        self._failure = self._failure or self._item_failure
        if is_over and self._failure is not None:
            raise self._failure
        return is_over and not waiting

    def _parts(self, indices: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield the indices of the items of each batch; in a retry, of items of one earlier batch.

        So its child run continues from that of the earlier one.
        """
        path, size, recorded = self._call.path, self._call.settings.spread, self._call.executor.context.lease.recorded
        for _, group in groupby(indices, lambda index: recorded and recorded.child_of(f"{path}~{index}")):
            part = list(group)
            yield from (part[first : first + size] for first in range(0, len(part), size))

    @property
    def _item_failure(self) -> NodeFailed | None:
        """The failure of the first item that fails the node; None where none does."""
        if self._call.settings.on_item_error == "collect" or FAILED not in self.statuses:
            return None
        return NodeFailed(recorded_error(self.results[self.statuses.index(FAILED)]))

    async def _batch(self, path: str, indices: Sequence[int]) -> bool:
        """Begin a batch, or take its results; return whether it is at its end.

        Raises:
            NodeFailed: a person or the policy ends the run.
        """
        call = self._call
        batch = BatchCall(executor=call.executor, node=call.node, state=call.state, batch=path)
        arguments = {"node": call.node.id, "path": call.state.path, "indices": list(indices)}
        try:
            output = await called(batch, body_tool(call.executor, call.path), arguments)
        except NodeFailed as failure:
            if failure.ends_run:
                raise
            call.executor.ledger.add(batch.failed(failure, None))
            self.labels |= failure.labels
            self._failure = self._failure or failure
            return True
        if output is None:
            return False
        call.executor.ledger.add(batch.change)
        for index, outcome in zip(indices, output.value, strict=True):
            if outcome["status"] is not None:
                self.keep(index, outcome["status"], outcome["result"], call.labels | output.labels)
        counts = Counter(status for status in self.statuses if status is not None)
        call.executor.ledger.add(Commit(events=[call.event("started", counts=dict(counts))]))
        return True

    def _body(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a child run is given: the items, and what their nodes may read of the walk around."""
        call = self._call
        outputs: dict[str, Any] = {}
        for node_id in call.executor.graph.above[call.node.id] | {call.node.id}:
            is_there, value = call.state.output(node_id)
            outputs |= {node_id: value} if is_there and call.executor.is_read_in(call.node.id, node_id) else {}
        items = [self._items[index] for index in arguments["indices"]]
        return {**arguments, "items": items, "outputs": outputs, "input": call.executor.input}


@dataclass(kw_only=True, slots=True)
class BatchCall(NodeCall):
    """The child run of a batch; what is under way has the batch's own path."""

    batch: str = ""

    @property
    def path(self) -> str:
        return self.batch

    def event(self, status: str, **more: Any) -> NodePayload:
        content = f"batch {self.batch.rpartition('~')[2]}"
        return NodeCall.event(self, status, **more | {"content": content})  # a class with slots is made twice


def body_tool(executor: Any, path: str) -> Tool:
    """Return the tool whose calls are child runs that work on items of the FOR_EACH at this path."""
    definition: WorkflowDefinition = executor.definition
    return Tool(
        name="for_each",
        description="Works on items of a FOR_EACH.",
        parameters={"type": "object"},
        function=_never_called,
        effect=Effect.KEYED,
        labels=frozenset({INWARD, TRUSTED}),
        implementation=definition.digest,
        child=definition.id,
        body=partial(executor.body_of, path),
    )


def _never_called(**_arguments: Any) -> Any:
    raise AssertionError("a batch is a child run")
