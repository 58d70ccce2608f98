"""The log in SQL: committed events one by one, sealed pieces in blocks, and pages of both in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, insert, select

from bus.journal.line import Line, to_line, withdrawn_ranges
from bus.journal.pages import Pages
from bus.journal.results import with_references, with_results
from bus.payloads import (
    ErrorPayload,
    Payload,
    ReasoningPayload,
    ResponsePayload,
    ToolNamePayload,
    decode,
    encode,
    ranges_of,
)
from config.clock import stamp
from config.errors import RunUnknown
from config.tables import events, runs

PAGE = 500
"""Rows of SQL read at a time."""


def event_row(payload: Payload, run_id: str, thread_id: str, fence: int) -> dict[str, Any]:
    """Return the row of one committed event."""
    return {
        "run_id": run_id,
        "first_seq": payload.seq,
        "seq": payload.seq,
        "type": payload.event_type,
        "fence": fence,
        "message_id": getattr(payload, "message_id", None) or None,
        "step_id": getattr(payload, "step_id", None) or None,
        "data_json": encode(payload, run_id, thread_id).decode(),
    }


def insert_rows(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Add rows of events and blocks."""
    if rows:
        connection.execute(_INSERT, list(rows))


_INSERT = insert(events).inline()


# --- blocks: a message's pieces as text and cut points ---------------------------------------------


def block_row(pieces: Sequence[tuple[Payload, int]], run_id: str, fence: int) -> dict[str, Any]:
    """Return the row that holds these pieces of one message, each with its time in ms since 1970.

    The pieces stand in segments: pieces of one kind with consecutive numbers. A segment has the text of
    all of them and the length of each, so that a reader can resume between any two.
    """
    first, last = pieces[0][0], pieces[-1][0]
    segments: list[dict[str, Any]] = []
    base_ms = pieces[0][1]
    for payload, at_ms in pieces:
        segment = segments[-1] if segments else None
        text = getattr(payload, "content", None) or ""
        kind = payload.event_type
        if segment is None or segment["type"] != kind or kind == "tool" or segment["next"] != payload.seq:
            segment = {"type": kind, "seq": payload.seq, "text": "", "cuts": [], "ms": [], "next": payload.seq}
            if isinstance(payload, ToolNamePayload):
                segment |= {"call_id": payload.call_id, "name": payload.name}
            segments.append(segment)
        segment["text"] += text
        segment["cuts"].append(len(text))
        segment["ms"].append(at_ms - base_ms)
        segment["next"] = payload.seq + 1
    for segment in segments:
        del segment["next"]
    message_id, step_id = getattr(first, "message_id", ""), getattr(first, "step_id", "")
    return {
        "run_id": run_id,
        "first_seq": first.seq,
        "seq": last.seq,
        "type": "block",
        "fence": fence,
        "message_id": message_id or None,
        "step_id": step_id or None,
        "data_json": orjson.dumps({"base_ms": base_ms, "segments": segments}).decode(),
    }


def block_payloads(row: Any) -> Iterator[Payload]:
    """Yield the pieces of a block's row, as they were."""
    block = orjson.loads(row.data_json)
    ids: dict[str, Any] = {"message_id": row.message_id or "", "step_id": row.step_id or ""}
    for segment in block["segments"]:
        at = 0
        for offset, (length, ms) in enumerate(zip(segment["cuts"], segment["ms"], strict=True)):
            when: dict[str, Any] = {"seq": segment["seq"] + offset, "at": stamp(block["base_ms"] + ms)}
            text = segment["text"][at : at + length]
            at += length
            if segment["type"] == "response":
                yield ResponsePayload(content=text, **when, **ids)
            elif segment["type"] == "reasoning":
                yield ReasoningPayload(content=text, **when, **ids)
            else:
                yield ToolNamePayload(call_id=segment["call_id"], name=segment["name"], **when, **ids)


# --- reading --------------------------------------------------------------------------------------

_AFTER = Pages(
    query=select(
        events.c.first_seq, events.c.seq, events.c.type, events.c.message_id, events.c.step_id, events.c.data_json
    )
    .where(events.c.run_id == bindparam("run_id"), events.c.seq > bindparam("cursor"))
    .order_by(events.c.first_seq)
    .limit(PAGE),
    text=events.c.data_json,
    order=(events.c.first_seq,),
)


def read_after(connection: Connection, run_id: str, thread_id: str, cursor: int) -> list[Line]:
    """Return up to a page of what SQL holds above ``cursor``, in order of number: 500 rows or a megabyte.

    Each event is as viewers were told it first, with the result it refers to. Blocks of messages that were made at
    the same time may overlap, so pieces are sorted; a page ends before numbers that a row of the next page could
    still precede.
    """
    rows, is_cut = _AFTER.read(connection, {"run_id": run_id, "cursor": cursor})
    fitting, referring = with_references(rows)
    if len(fitting) < len(rows):
        rows, is_cut = fitting, True
    lines: list[Line] = []
    for row in rows:
        if row.type == "block":
            lines += [
                to_line(encode(payload, run_id, thread_id)) for payload in block_payloads(row) if payload.seq > cursor
            ]
        elif row.seq not in referring:
            lines.append(Line(row.seq, row.type, row.data_json.encode()))
    lines += [
        to_line(encode(payload, run_id, thread_id)) for payload in with_results(connection, run_id, referring.values())
    ]
    lines.sort(key=lambda line: line.seq)
    if is_cut or len(rows) == PAGE:
        cut = rows[-1].first_seq
        lines = [line for line in lines if line.seq <= cut] or lines  # a block larger than a page is one page
    return lines


def require_run(connection: Connection, run_id: str) -> None:
    """The run whose log is read exists.

    Raises:
        RunUnknown: it was removed.
    """
    if connection.execute(_EXISTS, {"run_id": run_id}).first() is None:
        raise RunUnknown(run_id)


_EXISTS = select(runs.c.id).where(runs.c.id == bindparam("run_id"))


def unheard(connection: Connection, run_id: str, below: int) -> list[Payload]:
    """Return what was written without an owner since the run's last owner, under fences below ``below``, in order.

    Every owner begins with ``status running``, and nobody else writes that: what has a higher fence than the last
    of these had no owner, and nobody there to tell the observers. Of a run nobody ever owned, its first event is left
    out: no observer is told of that. To be asked where nobody else can write to the run.
    """
    its = {"its_run": run_id, "below": below}
    last = connection.execute(_LAST_OWNER, its).first()
    fence, began = (last.fence, last.seq) if last is not None else (0, 0)
    if fence == below - 1:
        return []
    lines = connection.execute(_WITHOUT_OWNER, its | {"its_fence": fence, "began": began}).scalars()
    return [decode(line) for line in lines]


_LAST_OWNER = (
    select(events.c.fence, events.c.seq)
    .where(events.c.run_id == bindparam("its_run"), events.c.fence < bindparam("below"))
    # In the text of a field every quote has a backslash before it, so nothing else looks like this.
    .where(events.c.type == "status", events.c.data_json.like('%"status":"running"%'))
    .order_by(events.c.seq.desc())
    .limit(1)
)
_WITHOUT_OWNER = (
    select(events.c.data_json)
    .where(events.c.run_id == bindparam("its_run"), events.c.seq > bindparam("began"))
    .where(events.c.fence > bindparam("its_fence"), events.c.fence < bindparam("below"))
    .order_by(events.c.seq)
)


def last_committed(connection: Connection, run_id: str) -> int:
    """Return the cursor behind everything SQL holds, or before the end where that is the last."""
    query = select(events.c.seq, events.c.type).where(events.c.run_id == run_id).order_by(events.c.seq.desc()).limit(1)
    row = connection.execute(query).first()
    return 0 if row is None else row.seq - 1 if row.type == "end" else row.seq


def last_error(connection: Connection, run_id: str) -> ErrorPayload | None:
    """Return the last error a run told, or None; of a failed run that is why it failed."""
    query = (
        select(events.c.data_json)
        .where(events.c.run_id == run_id, events.c.type == "error")
        .order_by(events.c.seq.desc())
        .limit(1)
    )
    found = connection.execute(query).scalar()
    payload = decode(found) if found is not None else None
    return payload if isinstance(payload, ErrorPayload) else None


def undeclared(connection: Connection, run_id: str, after: int, upto: int) -> list[list[int]]:
    """Return the ranges above ``after`` and up to ``upto`` that a ``withdrawn`` event still has to name.

    These are the numbers SQL does not hold, and the sealed pieces of messages that never became final;
    without those an earlier ``withdrawn`` named. Up to ``after`` that was settled before, so that a run
    with many owners is not read from its beginning each time.
    """
    query = select(
        events.c.first_seq, events.c.seq, events.c.type, events.c.message_id, events.c.step_id, events.c.data_json
    ).where(events.c.run_id == run_id, events.c.seq > after)
    rows = connection.execute(query).all()
    final = {row.message_id for row in rows if row.type == "message"}
    kept: set[int] = set()
    for row in rows:
        if row.type != "block":
            kept.add(row.seq)
        elif row.message_id in final:
            kept.update(payload.seq for payload in block_payloads(row))
        if row.type == "withdrawn":
            for first, last in withdrawn_ranges(Line(row.seq, row.type, row.data_json.encode())):
                kept.update(range(first, min(last, upto) + 1))
    return ranges_of(number for number in range(after + 1, upto + 1) if number not in kept)
