"""The events about a run's thread, its family and its nodes: controls, hand-overs, child runs, changes of history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bus.payloads.log_lines import given
from bus.payloads.payload import Payload, Record, event


@event("child")
class ChildPayload(Payload):
    """A child run's state changed."""

    child_run_id: str
    agent: str
    status: str
    call_id: str | None = None
    """Of the call by which the parent delegated."""

    @staticmethod
    def log_line(record: Record) -> str:
        return f"{record['agent']} {record['child_run_id']} {record['status']}"


@event("node")
class NodePayload(Payload):
    """The state of a workflow's node changed; its input and output are in its step."""

    node_id: str
    node_type: str
    status: str
    """started, waiting, done, failed, skipped or compensated."""
    path: Sequence[str | int] = ()
    """The scope in which it is walked: a FOR_EACH and the index of its item, ``["items", 17]``; none: the graph."""
    branch: str | None = None
    """The handle of the edges that are followed, where the node has chosen."""
    attempt: int | None = None
    """From the second one on."""
    duration_ms: int | None = None
    step_id: str | None = None
    content: str | None = None
    """Why it failed, what it waits for, or what is unusual about it, as a sentence."""
    counts: Mapping[str, int] | None = None
    """Of a FOR_EACH whose items child runs work on: how many of these are at their end by now, by status."""

    @staticmethod
    def log_line(record: Record) -> str:
        where = "/".join(str(part) for part in (*record.get("path", ()), record["node_id"]))
        return f"{where} {record['status']}{given(record, 'branch', ' {}')}{given(record, 'content', ': {}')}"


@event("control")
class ControlPayload(Payload):
    """What a client requested of the run, and what became of it."""

    control_id: str
    verb: str
    """stop, steer, pause, resume, set or signal."""
    state: str
    """accepted, consumed, refused or undelivered."""
    by: str | None = None
    content: str | None = None
    """Of a steer: its text. Of a set: the limits."""
    reason: str | None = None
    """Why it was refused or not delivered, as a code."""
    consumed_at: int | None = None
    """The number of the event by which it was consumed."""

    def numbered(self, seq: int, at: str) -> ControlPayload:
        """Return the event with its number, which is the place at which a control is consumed."""
        return replace(self, seq=seq, at=at, consumed_at=seq if self.state == "consumed" else None)

    @staticmethod
    def log_line(record: Record) -> str:
        why = f"{given(record, 'by', ' by {}')}{given(record, 'reason', ', {}')}"
        return f"{record['verb']} {record['state']}{why}{given(record, 'content', ': {}')}"


@event("handover")
class HandoverPayload(Payload):
    """Another agent continues the run."""

    from_agent: str
    to_agent: str
    reason: str | None = None
    """What the agent said about it, as a sentence."""

    @staticmethod
    def log_line(record: Record) -> str:
        return f"{record['from_agent']} -> {record['to_agent']}{given(record, 'reason', ': {}')}"


@event("history")
class HistoryPayload(Payload):
    """What the thread says about its past changed."""

    kind: str
    """compacted, rolled_back, forked or edited."""
    from_seq: int | None = None
    """The first message that it is about, by its number in the thread."""
    to_seq: int | None = None
    """The last one."""
    summary: str | None = None
    """With ``compacted``: what the model is given in their place; with ``edited``: the new text."""

    @staticmethod
    def log_line(record: Record) -> str:
        return f"{record['kind']}{given(record, 'from_seq', ' {}')}{given(record, 'to_seq', '-{}')}"
