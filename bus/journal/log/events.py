"""The log in SQL: one row per committed event, one row (a block) per message's sealed deltas, read in pages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, func, insert, select

from bus.journal.errors import RunUnknown
from bus.journal.log.line import Line, to_line
from bus.journal.log.results import with_references, with_results
from bus.journal.paging import Pages
from bus.payloads import DELTA_TYPES, ErrorPayload, Payload, TextPayload, WithdrawnPayload, decode, encode, ranges_of
from config.clock import stamp
from config.database.tables import events, runs, steps

PAGE = 500
"""Rows of SQL read at a time."""


def event_row(payload: Payload, run_id: str, thread_id: str, fence: int) -> dict[str, Any]:
    """Return the row of a committed event."""
    return _row(run_id, fence, payload, payload, payload.event_type, encode(payload, run_id, thread_id))


def _row(run_id: str, fence: int, first: Payload, last: Payload, type_: str, data: bytes) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "first_seq": first.seq,
        "seq": last.seq,
        "type": type_,
        "fence": fence,
        "message_id": getattr(first, "message_id", None) or None,
        "step_id": getattr(first, "step_id", None) or None,
        "data_json": data.decode(),
    }


def insert_rows(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Add rows of events and blocks."""
    if rows:
        connection.execute(_INSERT, list(rows))


_INSERT = insert(events).inline()


# --- blocks: a message's deltas as one text with their lengths -------------------------------------


def block_row(pieces: Sequence[tuple[Payload, int]], run_id: str, fence: int) -> dict[str, Any]:
    """Return the row that holds these deltas of one message, each given with its time in ms since 1970.

    A row has segments of deltas of one type with consecutive numbers. A segment has their joined text and the length
    of each, so that a reader can resume between any two.
    """
    (first, base_ms), (last, _) = pieces[0], pieces[-1]
    segments: list[dict[str, Any]] = []
    following = None  # the type and number with which a delta continues the segment
    for payload, at_ms in pieces:
        kind, text = payload.event_type, getattr(payload, "content", None)
        if text is None or (kind, payload.seq) != following:
            other = {name: getattr(payload, name) for name in payload.required} if text is None else {}
            segments.append({"type": kind, "seq": payload.seq, "text": "", "cuts": [], "ms": [], **other})
        segments[-1]["text"] += text or ""
        segments[-1]["cuts"].append(len(text or ""))
        segments[-1]["ms"].append(at_ms - base_ms)
        following = (kind, payload.seq + 1)
    return _row(run_id, fence, first, last, "block", orjson.dumps({"base_ms": base_ms, "segments": segments}))


def block_payloads(row: Any) -> Iterator[Payload]:
    """Yield the deltas of a block's row, as they were numbered."""
    block = orjson.loads(row.data_json)
    ids: dict[str, Any] = {"message_id": row.message_id or "", "step_id": row.step_id or ""}
    for segment in block["segments"]:
        kind, at = DELTA_TYPES[segment["type"]], 0
        for offset, (length, ms) in enumerate(zip(segment["cuts"], segment["ms"], strict=True)):
            when: dict[str, Any] = {"seq": segment["seq"] + offset, "at": stamp(block["base_ms"] + ms)}
            if issubclass(kind, TextPayload):
                yield kind(content=segment["text"][at : at + length], **when, **ids)
            else:
                yield kind(**{name: segment[name] for name in kind.required}, **when, **ids)
            at += length


# --- reading --------------------------------------------------------------------------------------

_LATER = select(*events.c["first_seq", "seq", "type", "message_id", "step_id", "data_json"]).where(
    events.c.run_id == bindparam("run_id"), events.c.seq > bindparam("cursor")
)
_AFTER = Pages(
    query=_LATER.order_by(events.c.first_seq).limit(bindparam("rows")),
    text=events.c.data_json,
    order=(events.c.first_seq,),
)


def log_page(connection: Connection, run_id: str, thread_id: str, cursor: int) -> tuple[list[Line], bool]:
    """Return a page of SQL's events above ``cursor``, in order of number, and whether there may be more.

    A page has at most 500 rows or 1 MB. A page with a successor may be shorter: a block that overlaps with rows
    beyond the page is left to the next one.

    Each event is byte for byte as viewers first got it, with the result it refers to. Blocks of messages that were
    streamed at the same time may overlap, so deltas are sorted; a page ends before the first number that a row of the
    next page could precede.
    """
    rows, is_cut = _AFTER.read(connection, {"run_id": run_id, "cursor": cursor, "rows": PAGE})
    fitting, referring = with_references(rows)
    if len(fitting) < len(rows):
        rows, is_cut = fitting, True
    payloads = with_results(connection, run_id, referring.values())
    lines: list[Line] = []
    for row in rows:
        if row.type == "block":
            payloads += [payload for payload in block_payloads(row) if payload.seq > cursor]
        elif row.seq not in referring:
            lines.append(Line(row.seq, row.type, row.data_json.encode()))
    lines += [to_line(encode(payload, run_id, thread_id)) for payload in payloads]
    lines.sort(key=lambda line: line.seq)
    has_more = is_cut or len(rows) == PAGE
    if has_more:
        cut = rows[-1].first_seq
        lines = [line for line in lines if line.seq <= cut] or lines  # a block larger than a page is one page
    return lines, has_more


def require_run(connection: Connection, run_id: str) -> None:
    """Check that the run whose log is read exists.

    Raises:
        RunUnknown: it was removed.
    """
    if connection.execute(_EXISTS, {"run_id": run_id}).first() is None:
        raise RunUnknown(run_id=run_id)


_EXISTS = select(runs.c.id).where(runs.c.id == bindparam("run_id"))


def undelivered(connection: Connection, run_id: str, last_owner: int, below: int) -> list[Payload]:
    """Return the events that were written without an owner, with fences above ``last_owner`` and below ``below``.

    They are in order, and no observer has got them. The first event of a run (``queued``) is never delivered to
    observers, so it is left out. The caller has to prevent other writes to the run.
    """
    if last_owner == below - 1:
        return []
    # A worker of a release without the column `owned_fence` did not set it, but started a step under its fence.
    started = connection.execute(_LAST_STEP, {"run_": run_id, "below": below}).scalar() or 0
    parameters = {"run_": run_id, "last_owner": max(last_owner, started), "below": below}
    return with_results(
        connection, run_id, [decode(line) for line in connection.execute(_WITHOUT_OWNER, parameters).scalars()]
    )


_LAST_STEP = select(func.max(steps.c.fence)).where(
    steps.c.run_id == bindparam("run_"), steps.c.fence < bindparam("below")
)
_WITHOUT_OWNER = (
    select(events.c.data_json)
    .where(events.c.run_id == bindparam("run_"), events.c.type != "block")
    .where(events.c.fence > bindparam("last_owner"), events.c.fence < bindparam("below"))
    .order_by(events.c.seq)
)


def last_committed(connection: Connection, run_id: str) -> int:
    """Return the number of the last committed event, or of the one before it where that is the end."""
    query = select(events.c.seq, events.c.type).where(events.c.run_id == run_id).order_by(events.c.seq.desc()).limit(1)
    row = connection.execute(query).first()
    return 0 if row is None else row.seq - 1 if row.type == "end" else row.seq


def last_error(connection: Connection, run_id: str) -> ErrorPayload | None:
    """Return the last error event of a run, or None; for a failed run it is the reason."""
    query = (
        select(events.c.data_json)
        .where(events.c.run_id == run_id, events.c.type == "error")
        .order_by(events.c.seq.desc())
        .limit(1)
    )
    payload_json = connection.execute(query).scalar()
    payload = decode(payload_json) if payload_json is not None else None
    return payload if isinstance(payload, ErrorPayload) else None


def undeclared(connection: Connection, run_id: str, after: int, upto: int) -> list[list[int]]:
    """Return the ranges above ``after`` and up to ``upto`` that a ``withdrawn`` event still has to declare.

    These are the numbers that are not in SQL, and the sealed deltas of messages that were not finished, except those
    that an earlier ``withdrawn`` declared. Earlier owners declared everything up to ``after``, so that a run with
    many owners is not read from its beginning each time.
    """
    rows = connection.execute(_LATER, {"run_id": run_id, "cursor": after}).all()
    final = {row.message_id for row in rows if row.type == "message"}
    numbers: set[int] = set()
    for row in rows:
        if row.type != "block":
            numbers.add(row.seq)
        elif row.message_id in final:
            numbers.update(payload.seq for payload in block_payloads(row))
        if row.type == "withdrawn":
            for first, last in Line(row.seq, row.type, row.data_json.encode()).withdrawn_ranges:
                numbers.update(range(first, min(last, upto) + 1))
    return ranges_of(number for number in range(after + 1, upto + 1) if number not in numbers)


# --- the deltas of messages that are not finished: in memory, or sealed in SQL until they are withdrawn or final


Piece = tuple[Payload, int]
"""A delta, and when it came, in ms since 1970."""


class UnfinishedDeltas:
    """Those of one owner of a run, by the ids of their messages."""

    def __init__(self) -> None:
        self.held: dict[str, list[Piece]] = {}
        """In memory alone."""
        self._sealed: dict[str, list[int]] = {}

    @property
    def first_held(self) -> int | None:
        """The lowest number that is in memory alone."""
        return min((pieces[0][0].seq for pieces in self.held.values() if pieces), default=None)

    def pieces(self) -> dict[str, list[Piece]]:
        """Return a copy of what is in memory."""
        return {message_id: list(pieces) for message_id, pieces in self.held.items() if pieces}

    def messages_beside(self, message_ids: Collection[str]) -> list[str]:
        """Return the ids of all messages but these."""
        return [message_id for message_id in {**self.held, **self._sealed} if message_id not in message_ids]

    def blocks(self, message_ids: Iterable[str], run_id: str, fence: int) -> list[dict[str, Any]]:
        """Return the rows that seal what is held of these messages."""
        held = [pieces for message_id in message_ids if (pieces := self.held.get(message_id))]
        return [block_row(pieces, run_id, fence) for pieces in held]

    def withdrawal(self, message_ids: Sequence[str]) -> list[Payload]:
        """Return the event that withdraws these messages' deltas, if any were delivered."""
        held = [payload.seq for message_id in message_ids for payload, _ in self.held.get(message_id, ())]
        sealed = [number for message_id in message_ids for number in self._sealed.get(message_id, ())]
        return [WithdrawnPayload(ranges=ranges_of(held + sealed))] if held or sealed else []

    def note_sealed(self, pieces: Mapping[str, Sequence[Piece]]) -> None:
        """Keep of these pieces, the first ones of their messages, the numbers alone: SQL has them."""
        for message_id, sealed in pieces.items():
            del self.held[message_id][: len(sealed)]
            self._sealed.setdefault(message_id, []).extend(payload.seq for payload, _ in sealed)

    def forget(self, message_ids: Iterable[str]) -> None:
        """Forget messages that are finished or withdrawn."""
        for message_id in message_ids:
            self.held.pop(message_id, None)
            self._sealed.pop(message_id, None)
