"""Sealed pieces come back byte for byte as they were delivered, from any cursor, in order, page by page."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.journal.log import events as log
from bus.journal.log.events import (
    block_payloads,
    block_row,
    event_row,
    insert_rows,
    last_committed,
    log_page,
    undeclared,
)
from bus.journal.log.line import Line, to_line
from bus.journal.paging import PAGE_BYTES
from bus.payloads import (
    MessagePayload,
    Payload,
    ReasoningPayload,
    ResponsePayload,
    StatusPayload,
    ToolNamePayload,
    WithdrawnPayload,
    encode,
)
from config.clock import stamp
from tests.bus.journal_harness import JournalHarness

BASE_MS = 1_795_000_000_000
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
kinds = st.sampled_from([ResponsePayload, ReasoningPayload, ToolNamePayload])


def piece(kind: type[Payload], seq: int, text: str, at_ms: int, message_id: str = "msg_1") -> tuple[Payload, int]:
    fields: dict = {"call_id": f"call_{seq}", "name": text} if kind is ToolNamePayload else {"content": text}
    fields |= {"seq": seq, "at": stamp(at_ms), "message_id": message_id, "step_id": "stp_1"}
    return kind(**fields), at_ms


@given(st.lists(st.tuples(kinds, texts, st.integers(1, 3), st.integers(-50, 5000)), min_size=1, max_size=20))
def test_a_block_holds_its_pieces_exactly(parts):
    seq, pieces = 0, []
    for kind, text, gap, late_ms in parts:
        seq += gap
        pieces.append(piece(kind, seq, text, BASE_MS + late_ms))

    row = SimpleNamespace(**block_row(pieces, "run_1", 1))

    delivered = [encode(payload, "run_1", "thr_1") for payload, _ in pieces]
    assert [encode(payload, "run_1", "thr_1") for payload in block_payloads(row)] == delivered
    assert (row.first_seq, row.seq) == (pieces[0][0].seq, pieces[-1][0].seq)


def store(harness: JournalHarness, *rows: dict) -> None:
    with harness.database.write() as connection:
        insert_rows(connection, rows)


def read(harness: JournalHarness, run_id: str, cursor: int) -> list[Line]:
    with harness.database.read() as connection:
        return log_page(connection, run_id, "thr_1", cursor)[0]


@pytest.fixture
def run_id(harness: JournalHarness) -> str:
    return harness.accept_inline(thread_id="thr_1").run_id


def test_a_reader_resumes_between_any_two_pieces(harness: JournalHarness, run_id: str):
    pieces = [piece(ResponsePayload, n, f"{n} ", BASE_MS + n) for n in range(2, 10)]
    message = MessagePayload(seq=10, at=stamp(), role="assistant", content="x", message_id="msg_1")
    store(harness, block_row(pieces, run_id, 1), event_row(message, run_id, "thr_1", 1))
    everything = read(harness, run_id, 0)

    assert [line.seq for line in everything] == list(range(1, 11))
    for cursor in range(12):
        assert read(harness, run_id, cursor) == everything[cursor:]


def test_blocks_of_messages_made_at_the_same_time_are_delivered_in_order(harness: JournalHarness, run_id: str):
    odd = [piece(ResponsePayload, n, "odd", BASE_MS, "msg_a") for n in range(3, 40, 2)]
    even = [piece(ReasoningPayload, n, "even", BASE_MS, "msg_b") for n in range(2, 40, 2)]
    store(harness, block_row(odd, run_id, 1), block_row(even, run_id, 1))

    for cursor in (0, 1, 7, 38):
        assert [line.seq for line in read(harness, run_id, cursor)] == list(range(cursor + 1, 40))


def test_pages_join_without_a_seam(harness: JournalHarness, run_id: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log, "PAGE", 3)
    long = [piece(ResponsePayload, n, "long", BASE_MS, "msg_a") for n in range(2, 30, 4)]
    store(harness, block_row(long, run_id, 1))
    store(
        harness, *[event_row(StatusPayload(seq=n, status="x"), run_id, "thr_1", 1) for n in range(3, 30) if n % 4 != 2]
    )

    lines, cursor = [], 0
    while page := read(harness, run_id, cursor):
        lines += page
        cursor = page[-1].seq

    assert [line.seq for line in lines] == list(range(1, 30))


@pytest.mark.parametrize("character", ["x", "漢"], ids=["ascii", "not ascii"])
def test_a_page_ends_at_a_megabyte_and_the_next_continues(harness: JournalHarness, run_id: str, character: str):
    width, sizes = len(character.encode()), [10, 700_000, 700_000, 3_000_000, 10, 10, 500_000]
    big = [
        MessagePayload(seq=n, at=stamp(), role="assistant", content=character * (size // width), message_id=f"msg_{n}")
        for n, size in zip(range(20, 20 + 10 * len(sizes), 10), sizes, strict=True)
    ]
    block = [piece(ResponsePayload, n, "y", BASE_MS) for n in range(21, 90) if n % 10]
    store(harness, *[event_row(event, run_id, "thr_1", 1) for event in big], block_row(block, run_id, 1))

    pages, cursor = [], 0
    while page := read(harness, run_id, cursor):
        pages.append(page)
        cursor = page[-1].seq

    assert [line.seq for page in pages for line in page] == [1, *range(20, 81), *range(81, 90)]
    assert len(pages) == 3
    assert max(sum(len(line.data) for line in page) for page in pages) < PAGE_BYTES + 3_100_000


def test_a_page_before_a_large_block_is_short_and_has_more(harness: JournalHarness, run_id: str):
    block = [piece(ResponsePayload, n, "x" * 500_000, BASE_MS) for n in range(2, 6)]
    store(harness, block_row(block, run_id, 1), event_row(StatusPayload(seq=6, status="x"), run_id, "thr_1", 1))

    with harness.database.read() as connection:
        pages = [log_page(connection, run_id, "thr_1", cursor) for cursor in (0, 2, 5)]

    assert [[line.seq for line in lines] for lines, _ in pages] == [[1, 2], [3, 4, 5], [6]]
    assert [has_more for _, has_more in pages] == [True, True, False]


def test_more_rows_than_a_page_are_all_read(small_harness: JournalHarness):
    run_id = small_harness.accept(thread_id="thr_1").run_id
    many = range(2, 2 * log.PAGE + 50)
    store(small_harness, *[event_row(StatusPayload(seq=n, status="x"), run_id, "thr_1", 1) for n in many])

    assert len(read(small_harness, run_id, 0)) == log.PAGE
    assert [line.seq for line in small_harness.lines(run_id)] == [1, *many]


def missing(harness: JournalHarness, run_id: str, upto: int) -> list[list[int]]:
    with harness.database.read() as connection:
        return undeclared(connection, run_id, 0, upto)


def test_what_sql_does_not_hold_is_undeclared(harness: JournalHarness, run_id: str):
    store(harness, *[event_row(StatusPayload(seq=n, status="x"), run_id, "thr_1", 1) for n in (4, 5, 9)])

    assert missing(harness, run_id, 10) == [[2, 3], [6, 8], [10, 10]]
    assert missing(harness, run_id, 1) == []


def test_sealed_pieces_count_only_with_their_message(harness: JournalHarness, run_id: str):
    whole = [piece(ResponsePayload, n, "x", BASE_MS, "msg_a") for n in (2, 4)]
    half = [piece(ResponsePayload, n, "x", BASE_MS, "msg_b") for n in (3, 5)]
    message = MessagePayload(seq=6, role="assistant", content="xx", message_id="msg_a")
    store(harness, block_row(whole, run_id, 1), block_row(half, run_id, 1), event_row(message, run_id, "thr_1", 1))

    assert missing(harness, run_id, 6) == [[3, 3], [5, 5]]


def test_what_was_withdrawn_is_not_withdrawn_again(harness: JournalHarness, run_id: str):
    store(harness, event_row(WithdrawnPayload(seq=9, ranges=[[2, 4], [6, 10**12]]), run_id, "thr_1", 2))

    assert missing(harness, run_id, 12) == [[5, 5]]


@pytest.mark.parametrize(("numbers", "last", "cursor"), [((), "status", 1), ((2, 7), "status", 7), ((2, 7), "end", 6)])
def test_the_last_cursor_stands_before_the_end(harness: JournalHarness, run_id: str, numbers, last, cursor):
    rows = [event_row(StatusPayload(seq=n, status="x"), run_id, "thr_1", 1) for n in numbers]
    if rows:
        rows[-1]["type"] = last
    store(harness, *rows)

    with harness.database.read() as connection:
        assert last_committed(connection, run_id) == cursor
        assert last_committed(connection, "run_nobody_knows") == 0


def test_a_row_keeps_the_event_as_it_was_delivered(harness: JournalHarness, run_id: str):
    payload = StatusPayload(seq=2, at=stamp(), status="moved", extra={"newer": [1, "Größe"]})
    store(harness, event_row(payload, run_id, "thr_1", 1))

    (line,) = read(harness, run_id, 1)

    assert line == to_line(encode(payload, run_id, "thr_1"))
