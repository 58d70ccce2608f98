"""The walk through a workflow's graph: nodes that are ready are carried out at once, and their results decide what
follows.

What the journal has of a node is taken from there, so a resumed run continues where the last commit left it. A node
that waits, for a person, a signal, a time, a task or a child run, holds nothing: once all branches wait, so does the
run, without a worker.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from agents.context import RunContext
from agents.errors import POLICY_REFUSED, run_failed
from agents.models.errors import ModelKeyMissing
from agents.models.failures import retry_delay_s
from agents.tools.tool import Tool
from agents.workflows.calls.handler import rendered
from agents.workflows.calls.node_call import ATTEMPT, DONE, NodeCall, NodeFailed, error_value, recorded_error
from agents.workflows.calls.scope import NodeOutput, ScopeState, outputs_of
from agents.workflows.nodes import handler_of
from agents.workflows.nodes.for_each import BatchCall, Items, body_tool
from agents.workflows.runtime import Runtime, WorkflowEnd
from agents.workflows.toolbox import limited, line_of
from agents.workflows.walk import Walk
from bus.journal.errors import StaleOwner
from bus.journal.owner import AcceptedInput, Commit, NodeStep, Totals
from config.definitions.workflows.fields import NodeFields, WorkflowDefinition
from config.definitions.workflows.graph import ERROR, NEXT, PARALLEL, TOP
from config.errors import CallboardError, Retryable

log = logging.getLogger(__name__)

ASKING = ("LLM", "CHOICE_LLM")
"""The types whose nodes ask a model."""
PAUSE_EVERY = 50
"""Nodes that are computed before other runs get their turn."""
LEGACY = "none of its edges has a `source_handle`, so all are followed."
Outcome = NodeOutput | NodeFailed


class DynamicWorkflowExecutor(Runtime):
    """One owner's walk through one run's graph; to be used on the loop's thread."""

    def __init__(
        self,
        context: RunContext,
        definition: WorkflowDefinition,
        toolbox: Mapping[str, Tool],
        handlers: Mapping[str, str],
        accepted: AcceptedInput,
        recorded: Sequence[NodeStep],
    ) -> None:
        """``handlers``: by the names of node types; for the rest see ``Runtime``."""
        super().__init__(context, definition, toolbox, accepted, recorded)
        self.graph = definition.graph
        if context.lease.recorded is not None:
            gone = (path for path in self.recorded if path.rpartition("/")[2] not in self.graph.nodes)
            context.lease.recorded.note_gone(gone)
        types = {node.type: handlers.get(node.type, "") for node in definition.nodes}
        self.handlers: Mapping[str, Any] = {name: handler_of(handler)() for name, handler in types.items()}
        self.repairs = {step.node: step.result["repair"] for step in recorded if _is_repaired(step)}
        """By the paths of their nodes: the answers that a model has to correct."""
        self._references: dict[str, tuple[str, ...]] = {}
        self.bodies: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}
        """By the path of a FOR_EACH whose items are spread: what makes the input of a child run."""

    async def run(self) -> WorkflowEnd | None:
        """Walk the graph; return the run's output, or None where its branches wait or this process is to leave it.

        Raises:
            CallboardError: a node has failed, and so has the run.
        """
        try:
            if self.body is not None:
                return await self._run_body(self.body)
            state = ScopeState(scope_id=TOP)
            is_over = await self.walk(state)
        except NodeFailed as failure:
            raise failure.error from failure
        return WorkflowEnd(outputs_of(self.graph, state)) if is_over else None

    async def _run_body(self, body: Mapping[str, Any]) -> WorkflowEnd | None:
        """Work on the items that this child run was given; its output is the outcome of each."""
        path = tuple(body["path"])
        labels = frozenset(self.context.labels)
        outputs = body["outputs"]
        around = ScopeState(
            scope_id=self.graph.scope_of[body["node"]],
            path=path,
            outputs=outputs,
            labels=dict.fromkeys(outputs, labels),
        )
        call = NodeCall(executor=self, node=self.definition.node(body["node"]), state=around)
        items, is_over = Items(call, body["items"], body["indices"]), True
        try:
            is_over = await items.run()
        except NodeFailed as failure:  # its parent fails once the other batches are at their end
            if failure.ends_run or self.open:
                raise
        return WorkflowEnd(items.outcomes) if is_over else None

    def batches_of(self, path: str) -> dict[str, Sequence[int]]:
        """Return the batches of a FOR_EACH that are under way: the indices of the items of each, by its path."""
        batches = (step for step in self._batches(path) if not step.is_over)
        return {step.node: orjson.loads(step.step.arguments_text or "{}")["indices"] for step in batches}

    def batch_failure(self, path: str) -> NodeFailed | None:
        """Return how a batch of a FOR_EACH has failed; None where none has."""
        failed = (step for step in self._batches(path) if step.is_over and step.step.status != DONE)
        return next((NodeFailed(recorded_error(step.result), labels=step.labels) for step in failed), None)

    def _batches(self, path: str) -> Iterable[NodeStep]:
        return (step for step in self.recorded.values() if step.node.startswith(f"{path}~"))

    def body_of(self, path: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the child run of a batch is given."""
        return self.bodies[path](arguments)

    def changes(self, path: str, effect: str) -> bool:
        """Return whether a call of this effect class, of the node at this path, may change something.

        A batch does where a call of the FOR_EACH's body does.
        """
        if "~" not in path:
            return super().changes(path, effect)
        name, graph = path.rpartition("/")[2].partition("~")[0], self.definition.graph
        inside = [node for node in self.definition.nodes if name in graph.around(graph.scope_of[node.id])]
        return any(self.changes("", str(self.tool_of(node).effect)) for node in inside if line_of(node))

    def is_read_in(self, node_id: str, read: str) -> bool:
        """Return whether a node of a FOR_EACH's body, or of a body in it, reads the output of another."""
        inside = [scope for scope in self.graph.scopes.values() if node_id in self.graph.around(scope.id)]
        return any(read in self.references_of(self.definition.node(name)) for scope in inside for name in scope.nodes)

    def resumed(self, step: NodeStep) -> tuple[NodeCall, Tool]:
        """Return the node's call that an earlier owner left open, and its tool."""
        if "~" in step.node.rpartition("/")[2]:
            call, tool = self.resumed(replace(step, node=step.node.rpartition("~")[0]))
            return BatchCall(executor=self, node=call.node, state=call.state, batch=step.node), tool
        ids = self.ids_of(step.node)
        path = ids["path"]
        state = ScopeState(scope_id=str(path[-2]) if path else TOP, path=path)
        call = NodeCall(executor=self, node=self.definition.node(ids["node_id"]), state=state)
        if call.node.type == "FOR_EACH":
            return call, body_tool(self, call.path)
        return call, self.handlers[call.node.type].tool(call)

    # --- nodes

    def tool_of(self, node: NodeFields) -> Tool:
        """Return the tool that a node calls, with the node's own limits."""
        return limited(self.toolbox[line_of(node)], node)

    def ids_of(self, path: str) -> dict[str, Any]:
        *scope, node_id = path.split("/")
        names = tuple(int(part) if number % 2 else part for number, part in enumerate(scope))
        node = self.graph.nodes.get(node_id)  # None: of an earlier run, whose file had it
        return {"node_id": node_id, "node_type": node.type if node is not None else "", "path": names}

    def references_of(self, node: NodeFields) -> tuple[str, ...]:
        """Return the nodes that a node's templates and conditions read."""
        if node.id not in self._references:
            read = node.references
            self._references[node.id] = tuple(self.graph.above[node.id] | {node.id} if read is None else read)
        return self._references[node.id]

    # --- walking

    async def walk(self, state: ScopeState) -> bool:
        """Walk a scope; return whether it is at its end: otherwise nodes wait, or this process is to leave the run.

        Raises:
            NodeFailed: a node has failed, and the others that were under way have ended or wait.
        """
        scope = _ScopeWalk(self, state)
        try:
            while True:
                await scope.begin_ready()
                if not scope.pending:
                    break
                await scope.await_next()
        except BaseException:
            await scope.cancel()
            raise
        if scope.failure is not None:
            raise scope.failure
        return scope.is_over

    def call(self, state: ScopeState, node_id: str) -> NodeCall:
        """Return the execution of a node in a scope."""
        call = NodeCall(executor=self, node=self.definition.node(node_id), state=state)
        recorded = self.recorded.get(call.path)
        call.prior = recorded if recorded is not None and not recorded.is_over else None
        return call

    def recorded_outcome(self, call: NodeCall) -> Outcome | None:
        """Return what an earlier owner has written of a node that is at its end; None where it is not."""
        step = self.recorded.pop(call.path, None) if call.prior is None else None
        if step is None or _is_repaired(step):
            return None
        handler = self.handlers[call.node.type]
        if step.step.status == "failed" and isinstance(step.result, Mapping) and ATTEMPT in step.result:
            call.attempt = step.result[ATTEMPT] + 1  # which was to be made
            return None
        call.is_recorded = True
        if step.step.status == DONE:
            output = handler.read(call, step.result)
            return NodeOutput(value=output.value, branch=output.branch, labels=step.labels)
        return NodeFailed(recorded_error(step.result), labels=step.labels)

    def computed_outcome(self, call: NodeCall) -> Outcome | None:
        """Return the outcome of a node that only computes; None of any other."""
        handler = self.handlers[call.node.type]
        if not handler.is_computed(call):
            return None
        try:
            output: NodeOutput = handler.compute(call)
        except CallboardError as error:
            return NodeFailed(error, call.computed("failed", error_value(error)))
        self.context.spending.add(Totals(steps=1))
        call.change = call.computed()
        return output

    async def carry_out(self, call: NodeCall) -> Outcome | None:
        """Return the outcome of a node that calls something or waits; None where it still waits.

        A tool's call repeats itself; a node that asks a model is tried again here, as often as the file says.
        """
        tries = 1 + (call.node.retry or 0) * (call.node.type in ASKING)
        while True:
            outcome = await self._tried(call)
            is_temporary = isinstance(outcome, NodeFailed) and isinstance(outcome.error, Retryable)
            if not isinstance(outcome, NodeFailed) or not is_temporary or call.attempt >= tries:
                return outcome
            self.ledger.add(call.failed(outcome, None, is_tried_again=True))
            await asyncio.sleep(retry_delay_s(call.attempt, outcome.error, random.random))  # no secret
            call.attempt, call.prior, call.change = call.attempt + 1, None, Commit()

    async def _tried(self, call: NodeCall) -> Outcome | None:
        try:
            output: NodeOutput | None = await self.handlers[call.node.type].run(call)
        except NodeFailed as failure:
            return failure
        except (StaleOwner, ModelKeyMissing):  # the run may continue with another worker
            raise
        except Exception as error:
            if error is self.ledger.error:
                raise
            if isinstance(error, CallboardError):
                return NodeFailed(error, call.change, ends_run=error.code == POLICY_REFUSED.code)
            log.exception("node failed unexpectedly run_id=%s node=%s", self.context.lease.run_id, call.path)
            return NodeFailed(run_failed(), call.change, ends_run=True)
        return output

    def settle(self, call: NodeCall, outcome: Outcome) -> NodeOutput | NodeFailed:
        """Keep a node's outcome, and add its end to the next commit; return how the walk continues with it."""
        labels = call.labels | call.labels_got | outcome.labels
        if isinstance(outcome, NodeFailed) and call.node.on_error != "fail" and not outcome.ends_run:
            branch = ERROR if call.node.follows_error else None
            output = NodeOutput(value=error_value(outcome.error), branch=branch, labels=outcome.labels)
            change = call.failed(outcome, branch)
        elif isinstance(outcome, NodeFailed):
            call.state.labels[call.node.id] = labels  # of the error, which a FOR_EACH may collect
            if not call.is_recorded:
                self.ledger.add(self._labelled(call.failed(outcome, None), labels))
            return NodeFailed(outcome.error, ends_run=outcome.ends_run, labels=labels)
        else:
            output, change = self._noted(call, outcome), None
        call.state.outputs[call.node.id], call.state.labels[call.node.id] = output.value, labels
        if call.is_recorded:
            return output
        if change is None:
            try:
                change = self._compensable(call, output)
            except CallboardError as error:
                return self.settle(call, NodeFailed(error, call.change))
        self.ledger.add(self._labelled(change, labels))
        return output

    def _compensable(self, call: NodeCall, output: NodeOutput) -> Commit:
        """Return the commit with a node's end, and with the call that undoes it, where one is declared.

        Raises:
            EXPRESSION_FAILED: its arguments cannot be made; the node is not undone, and has failed.
        """
        change, undoing = call.concluded(output), call.node.compensate
        if undoing is None:
            return change
        arguments = rendered(call, undoing.arguments, result=output.value)
        return replace(change, started=[self.saga.registered(call.path, self.toolbox[undoing.tool], arguments)])

    def _noted(self, call: NodeCall, output: NodeOutput) -> NodeOutput:
        if not self.graph.is_legacy(call.node.id):
            return output
        return NodeOutput(value=output.value, branch=NEXT, labels=output.labels, note=LEGACY)

    def _labelled(self, change: Commit, labels: frozenset[str]) -> Commit:
        """Return a change with all labels of the run, where it adds one."""
        added = self.context.add_labels(labels)
        return replace(change, labels=change.labels | added) if added else change

    def handles(self, call: NodeCall, output: NodeOutput) -> frozenset[str]:
        """Return the handles of the edges that are followed after a node."""
        if output.branch is not None:
            return frozenset({output.branch})
        handles = {edge.handle for edge in self.graph.out[call.node.id]}
        return frozenset(handle for handle in handles if handle in (NEXT,) or handle.startswith(PARALLEL))

    def skipped(self, state: ScopeState, node_ids: Iterable[str]) -> None:
        """Add to the next commit that no path leads to these nodes any more."""
        calls = (NodeCall(executor=self, node=self.definition.node(node_id), state=state) for node_id in node_ids)
        events = [call.event("skipped") for call in calls]
        if events:
            self.ledger.add(Commit(events=events))


class _ScopeWalk:
    """The walk through one scope: which of its nodes are ready, and which are under way."""

    def __init__(self, executor: DynamicWorkflowExecutor, state: ScopeState) -> None:
        self._executor, self._state = executor, state
        self._walk = Walk(executor.graph, state.scope_id)
        self._ready = deque(self._walk.begin().ready)
        self._count = 0
        self.pending: dict[asyncio.Task[Outcome | None], NodeCall] = {}
        self.failure: NodeFailed | None = None

    @property
    def is_over(self) -> bool:
        return self._walk.is_over

    async def begin_ready(self) -> None:
        """Begin every node that is ready, and deal with those whose outcome is known at once."""
        executor = self._executor
        while self._ready and self.failure is None and not executor.is_leaving:
            call = executor.call(self._state, self._ready.popleft())
            outcome = executor.recorded_outcome(call) or executor.computed_outcome(call)
            if outcome is not None:
                self._settle(call, outcome)
            else:
                executor.activity.begin()
                task = asyncio.create_task(executor.carry_out(call), name=f"node {call.path}")
                self.pending[task] = call
            self._count += 1
            if self._count % PAUSE_EVERY == 0:
                await asyncio.sleep(0)

    async def await_next(self) -> None:
        """Wait until nodes have an outcome, and deal with it, in the order of the scope."""
        executor = self._executor
        await asyncio.sleep(0)  # what has just begun adds its start to the commit
        await executor.ledger.flush()
        executor.activity.end()
        done, _ = await asyncio.wait(self.pending, return_when=asyncio.FIRST_COMPLETED)
        executor.activity.begin()
        for task in [task for task in self.pending if task in done]:
            call = self.pending.pop(task)
            outcome = task.result()
            if outcome is not None:
                self._settle(call, outcome)
        await self.begin_ready()
        for _ in done:
            executor.activity.end()

    def _settle(self, call: NodeCall, outcome: Outcome) -> None:
        settled = self._executor.settle(call, outcome)
        if isinstance(settled, NodeFailed):
            self.failure = self.failure or settled
            return
        handles = self._executor.handles(call, settled)
        edges = self._executor.graph.out[call.node.id]
        self._state.followed.update(edge.number for edge in edges if edge.handle in handles)
        following = self._walk.settle(call.node.id, handles)
        self._ready.extend(following.ready)
        if not call.is_recorded:
            self._executor.skipped(self._state, following.skipped)

    async def cancel(self) -> None:
        """Cancel what is under way."""
        for task in self.pending:
            task.cancel()
        await asyncio.gather(*self.pending, return_exceptions=True)


def _is_repaired(step: NodeStep) -> bool:
    """Return whether a step is that of an answer which the model was about to correct."""
    return step.kind == "model" and isinstance(step.result, Mapping) and "repair" in step.result
