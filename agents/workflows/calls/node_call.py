"""One execution of a node: what its handler is given, and how its results are written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agents.workflows.calls.scope import NodeOutput, ScopeState, written
from bus.journal.owner import Commit, NodeStep, StepEnded, StepStarted
from bus.payloads import NodePayload
from config.definitions.workflows.fields import NodeFields
from config.errors import CallboardError, Permanent
from config.ids import canonical_digest, new_id

NOTHING = Commit()


class NodeFailed(Exception):
    """A node has failed; its error, and the commit that ends its step.

    ``ends_run``: a person, the policy or a fault of Callboard ends the run, whatever its definition says of failures.
    """

    def __init__(
        self,
        error: CallboardError,
        change: Commit = NOTHING,
        *,
        ends_run: bool = False,
        labels: frozenset[str] = frozenset(),
    ) -> None:
        """``labels``: of the error's text."""
        super().__init__(str(error))
        self.error, self.change, self.ends_run, self.labels = error, change, ends_run, labels


class RunEnds(BaseException):
    """A person or the policy ends the run; the code of a blueprint cannot catch that."""

    def __init__(self, error: CallboardError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(kw_only=True, slots=True)
class NodeCall:
    """A node that is carried out, in one scope."""

    executor: Any
    """The walk that it is part of, or the run of a blueprint."""
    node: NodeFields
    state: ScopeState
    prior: NodeStep | None = None
    """Its open step as an earlier owner left it."""
    change: Commit = field(default_factory=Commit)
    """What ends its step, for the commit with the node's event."""
    attempt: int = 1
    labels_got: frozenset[str] = frozenset()
    """Of what a tool or a model has returned to it; its error may quote that."""
    is_halted: bool = False
    """Whether the run was stopped while it computes on a thread."""
    is_recorded: bool = False
    """Whether an earlier owner has written its end."""

    @property
    def path(self) -> str:
        """The node's place in the run: ``items/17/charge``."""
        return written(self.state.path, self.node.id)

    @property
    def settings(self) -> Any:
        """Its ``config``, as its type has read it."""
        return self.node.settings

    def variables(self, **more: Any) -> dict[str, Any]:
        """Return what its templates and conditions may read; only the nodes that they name are among them."""
        executor, outputs = self.executor, dict[str, Any]()
        for node_id in executor.references_of(self.node):
            is_there, value = self.state.output(node_id)
            if is_there:
                outputs[node_id] = value
        names = {"input": executor.input, "variables": executor.definition.variables, "nodes": outputs}
        return names | dict(self.state.local()) | more

    @property
    def labels(self) -> frozenset[str]:
        """The labels of everything that it may have read."""
        above = (self.state.labels_of(node_id) for node_id in self.executor.graph.above[self.node.id])
        state, items = self.state, frozenset[str]()
        while state.around is not None:
            state, items = state.around, items | state.labels_of_item
        return items.union(*above)

    # --- what is written of it

    def event(self, status: str, **more: Any) -> NodePayload:
        """Return the event that its state has changed."""
        ids: dict[str, Any] = {"node_id": self.node.id, "node_type": self.node.type, "path": self.state.path}
        attempt = self.attempt if self.attempt > 1 else None
        return NodePayload(**ids, status=status, attempt=attempt, **more)

    def step(self, kind: str, data: Any = None, **more: Any) -> StepStarted:
        """Return the start of a step of its own, which is no call of a tool or a model."""
        return StepStarted(
            id=new_id("step"),
            kind=kind,
            name=self.node.type,
            node=self.path,
            arguments_digest=canonical_digest(data),
            idempotency_key=new_id("key"),
            **more,
        )

    def computed(self, status: str = "done", result: Any = None) -> Commit:
        """Return the commit of a step that begins and ends with it; ``concluded`` adds a result that is none yet."""
        started = self.step("node")
        return Commit(recorded=[(started, StepEnded(id=started.id, status=status, result=result))])

    def concluded(self, output: NodeOutput) -> Commit:
        """Return the commit with the node's end: that of its step, with the labels of the output, and its event."""
        facts = {"labels": self.labels | output.labels, "result": output.value}
        ended = [replace(end, **facts) for end in self.change.ended]
        recorded = [(started, replace(end, **facts)) for started, end in self.change.recorded]
        step_id = _last(ended, recorded)
        event = self.event("done", branch=output.branch or None, content=output.note, step_id=step_id)
        return replace(self.change, events=[*self.change.events, event], ended=ended, recorded=recorded)

    def failed(self, failure: NodeFailed, branch: str | None, *, is_tried_again: bool = False) -> Commit:
        """Return the commit with the node's failure, which its next owner reads as it is.

        Where the node has failed behind a step that is done, such as a call whose result it cannot use, the failure is
        a step of its own.
        """
        change, text = failure.change, str(failure.error)[:MAX_CONTENT]
        labels, value = failure.labels | self.labels_got, {**error_value(failure.error)}
        if is_tried_again:
            value[ATTEMPT] = self.attempt
        ended = [_as_failed(end, value, labels) for end in change.ended]
        recorded = [(begun, _as_failed(end, value, labels)) for begun, end in change.recorded]
        has_step = failure.ends_run and self.path in self.executor.open  # which ends with the run
        if not has_step and not any(end.status != DONE for end in (*ended, *(end for _, end in recorded))):
            started = self.step("node")
            recorded.append((started, StepEnded(id=started.id, status="failed", result=value, labels=labels)))
        event = self.event("failed", branch=branch, content=text, step_id=_last(ended, recorded))
        return replace(change, events=[*change.events, event], ended=ended, recorded=recorded)


MAX_CONTENT = 1000
"""Characters of an error in a node's event."""


ATTEMPT = "attempt"
"""The field of a failed step's result that says which attempt it was, where the node is tried again."""
DONE = "done"


def _as_failed(end: StepEnded, value: Mapping[str, Any], labels: frozenset[str]) -> StepEnded:
    return replace(end, labels=end.labels | labels, result=end.result if end.status == DONE else value)


def _last(ended: Sequence[StepEnded], recorded: Sequence[tuple[StepStarted, StepEnded]]) -> str | None:
    ids = [step.id for step in (*ended, *(end for _, end in recorded))]
    return ids[-1] if ids else None


def error_value(error: CallboardError) -> Mapping[str, Any]:
    """Return what stands for the output of a node that failed, where the run continues."""
    return {"error": {"code": error.code, "message": str(error)}}


def recorded_error(result: Any) -> CallboardError:
    """Return the error of a node whose failure an earlier owner has recorded with ``error_value``."""
    fields: Any = result.get("error") if isinstance(result, Mapping) else None
    if not isinstance(fields, Mapping):
        fields = {"message": result}
    error = Permanent(str(fields.get("message")))
    error.code = str(fields.get("code", "tool_failed"))
    return error
