"""A tool's result is in SQL once, and readers see each event as it was delivered."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, func, select

from bus.journal.log.commit import Commit
from bus.journal.log.events import event_row, insert_rows, log_page
from bus.journal.log.results import GONE, LONG_BYTES, refer_to_messages
from bus.journal.paging import PAGE_BYTES
from bus.journal.records.steps import StepEnded, StepStarted
from bus.journal.records.threads import HistoryItem, history
from bus.journal.retention.removal import remove_threads
from bus.payloads import Payload, ToolResultPayload, encode
from config.database.tables import events, messages, runs, steps
from config.identity.principal import Principal
from tests.bus.journal_harness import JournalHarness, Owner

LONG = "é" * 3000
ROWS = [[number, 0.1 + number, None, True, "\u2028\x7f"] for number in range(200)]
RESULTS: list[Any] = [LONG, "x" * LONG_BYTES, {"rows": ROWS}, [{"result_in": "msg_1"}] * 100, "y" * 262_144]
SHORT: list[Any] = ["x", None, 7, {"result_in": "msg_0"}, [], "x" * (LONG_BYTES - 1), False]


def result_commit(number: int, result: Any) -> Commit:
    result_event = ToolResultPayload(
        call_id=f"call_{number}",
        name="look",
        outcome="done",
        result=result,
        duration_ms=3,
        message_id="msg_a",
        step_id=f"stp_{number}",
    )
    data = {"call_id": f"call_{number}", "name": "look", "outcome": "done", "result": result}
    return Commit(
        events=[result_event],
        ended=[StepEnded(id=f"stp_{number}", status="done", result=result)],
        history=[HistoryItem(id=f"msg_{number}", role="tool", data=data)],
    )


def played(harness: JournalHarness, results: list[Any], *, ends: bool = True) -> Owner:
    owner = harness.own()
    began = [
        StepStarted(id=f"stp_{number}", kind="tool", name="look", arguments_digest="a", idempotency_key=f"k{number}")
        for number in range(len(results))
    ]

    async def play() -> None:
        await owner.writer.commit(Commit(started=began))
        for number, result in enumerate(results):
            await owner.writer.commit(result_commit(number, result))
        if ends:
            await owner.end()

    harness.do(play())
    return owner


def size(harness: JournalHarness, column: Any) -> int:
    (row,) = harness.rows(select(func.coalesce(func.sum(func.length(column)), 0)))
    return int(row[0])


def test_a_long_result_is_in_one_row(harness: JournalHarness) -> None:
    results = ["z" * 100_000 for _ in range(10)]

    played(harness, results)

    whole = sum(map(len, results))
    assert size(harness, messages.c.data_json) < 1.01 * whole
    assert size(harness, events.c.data_json) + size(harness, steps.c.result_json) < 0.01 * whole


@pytest.mark.parametrize("results", [RESULTS, SHORT])
def test_readers_get_each_event_to_the_byte_as_viewers_did(harness: JournalHarness, results: list[Any]) -> None:
    owner = played(harness, results)

    delivered = [encode(payload, owner.lease.run_id, owner.lease.thread_id) for payload in owner.delivered]
    lines = harness.lines(owner.lease.run_id, owner.delivered[0].seq - 1, owner.lease.thread_id)
    datas = [line.data for line in lines]

    assert datas == delivered
    assert [line.seq for line in lines] == sorted(line.seq for line in lines)


def test_a_page_ends_where_the_results_it_refers_to_make_a_megabyte(harness: JournalHarness) -> None:
    owner = played(harness, ["z" * 262_000 for _ in range(12)])

    with harness.database.read() as connection:
        page, _ = log_page(connection, owner.lease.run_id, owner.lease.thread_id, 0)
    every = harness.lines(owner.lease.run_id, 0, owner.lease.thread_id)

    assert PAGE_BYTES < sum(len(line.data) for line in page) < 2 * PAGE_BYTES
    assert len([line for line in every if line.type == "tool_result"]) == 12


def test_the_model_is_shown_the_result_again(harness: JournalHarness) -> None:
    owner = played(harness, [LONG], ends=False)

    with harness.database.read() as connection:
        past = history(connection, owner.lease.thread_key, owner.lease.turn, 1_000_000)

    assert past.items[-1].data["result"] == LONG


def test_rows_of_an_earlier_release_are_read_as_they_are(harness: JournalHarness) -> None:
    owner = harness.own()
    old = ToolResultPayload(seq=900, at="x", call_id="c", name="look", outcome="done", result=LONG)
    with harness.database.write() as connection:
        insert_rows(connection, [event_row(old, owner.lease.run_id, owner.lease.thread_id, 1)])

    line = harness.lines(owner.lease.run_id, 899, owner.lease.thread_id)[-1]

    assert line.data == encode(old, owner.lease.run_id, owner.lease.thread_id)


def test_a_message_that_is_gone_leaves_an_event_that_says_so(harness: JournalHarness) -> None:
    owner = played(harness, [LONG])
    with harness.database.write() as connection:
        connection.execute(delete(messages).where(messages.c.id == "msg_0"))

    lines = harness.lines(owner.lease.run_id, 0, owner.lease.thread_id)
    (event,) = [orjson.loads(line.data) for line in lines if line.type == "tool_result"]

    assert event["result"] == GONE


def test_removing_the_thread_leaves_no_part_of_a_result(harness: JournalHarness) -> None:
    played(harness, [LONG])
    (row,) = harness.rows(select(runs.c.thread_id, runs.c.tenant, runs.c.principal))

    remove_threads(harness.database, Principal(tenant=row.tenant, id=row.principal), [row.thread_id])

    assert [harness.rows(select(table)) for table in (messages, events, steps)] == [[], [], []]


numbers = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | numbers | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)
)


@pytest.mark.parity
@given(values)
def test_what_is_referred_is_exactly_what_the_message_holds(result: Any) -> None:
    change = result_commit(0, [result, LONG])

    (event,), (ended,) = refer_to_messages(change.events, change.ended, change.history)

    assert isinstance(event, ToolResultPayload)
    size = len(orjson.dumps([result, LONG]))
    assert (event.result, ended.result) == (None, {"result_in": "msg_0"})
    assert event.extra == {"result_in": "msg_0", "result_bytes": size}
    read_back = orjson.loads(orjson.dumps(dict(change.history[0].data)))["result"]
    assert orjson.dumps(read_back) == orjson.dumps([result, LONG])


def test_a_result_that_the_message_does_not_hold_stays_where_it_is() -> None:
    change = result_commit(0, LONG)
    other = ToolResultPayload(call_id="call_0", name="look", outcome="done", result=LONG[:-1] + "!", step_id="stp_0")
    alone: list[Payload] = [other]

    assert refer_to_messages(alone, change.ended, change.history) == (alone, change.ended)
    assert refer_to_messages(change.events, change.ended, ()) == (change.events, change.ended)
