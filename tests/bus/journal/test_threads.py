"""Conversations: listed, searched, paged, and visible only to their owner."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest
from sqlalchemy import delete, insert, update

from bus.journal.controls import CONTROLS
from bus.journal.errors import ThreadUnknown
from bus.journal.log.commit import close_thread
from bus.journal.mailbox.control import control
from bus.journal.ownership.leases import claim_on
from bus.journal.queries.threads import Threads
from bus.journal.records.threads import Past, history
from config.database.tables import messages, runs, threads
from config.identity.principal import Principal
from tests.bus.journal_harness import JournalHarness, cancel

ME = Principal()
OTHERS = [Principal(id="eve"), Principal(tenant="other")]


@pytest.fixture
def talks(harness: JournalHarness) -> list[str]:
    """Three conversations of mine, and one of another principal with a name of mine."""
    ids = ["thr_a", "thr_b", "thr_c"]
    for thread_id, title in zip(ids, ["Bread recipes", "100%_sure?", "Ships at sea"], strict=True):
        harness.accept(title, thread_id=thread_id)
    for principal in OTHERS:
        harness.accept("Secret bread", thread_id="thr_a", principal=principal)
    return ids


def listed(harness: JournalHarness, principal: Principal = ME, **filters) -> list[str]:
    return [thread["thread_id"] for thread in Threads(harness.database).newest(principal, **filters)]


def test_one_sees_ones_own_threads_the_one_touched_last_first(harness: JournalHarness, talks: list[str]):
    with harness.database.write() as connection:
        for at_ms, thread_id in enumerate(["thr_b", "thr_c", "thr_a"]):
            connection.execute(update(threads).where(threads.c.id == thread_id).values(updated_ms=at_ms))

    assert listed(harness) == ["thr_a", "thr_c", "thr_b"]
    assert listed(harness, OTHERS[0]) == ["thr_a"]


@pytest.mark.parametrize(
    ("search", "titles"),
    [("bread", ["thr_a"]), ("BREAD", ["thr_a"]), ("%_", ["thr_b"]), ("%", ["thr_b"]), ("'; --", []), ("Secret", [])],
)
def test_titles_are_searched_as_they_are_written(
    harness: JournalHarness, talks: list[str], search: str, titles: list[str]
):
    assert listed(harness, search=search) == titles


@pytest.mark.parametrize(
    ("search", "is_match"),
    [
        ("blue paint", True),
        ("BLUE Paint", True),
        ('say "no"', True),
        ("C:\\temp", True),
        ("one\ntwo", True),
        ("größe 漢 🎭", True),
        ("50%_", True),
        ("after nul", True),
        ("the answer of mine", True),
        ("ntwo", False),  # an escape of JSON is no letter
        ("content", False),
        ("tool_calls", False),
        ("50x_", False),
        ("printed by a tool", False),
        ("of another principal", False),
    ],
)
def test_threads_are_searched_for_what_was_written_in_them(harness: JournalHarness, search: str, is_match: bool):
    parts = ['Blue paint; say "no"', "C:\\temp", "one\ntwo", "größe 漢 🎭", "50%_", "\0 after NUL"]
    harness.accept("Title " * 50, thread_id="mine")
    run = harness.accept("\t".join(["Title " * 50, *parts]), thread_id="mine")
    other = harness.accept("Title " * 50 + "of another principal", thread_id="mine", principal=OTHERS[0])
    key = harness.run_row(run.run_id).thread_key
    add = [("assistant", {"content": "The answer of mine"}), ("assistant", {"tool_calls": []})]
    for number, (role, data) in enumerate([*add, ("tool", {"content": "printed by a tool"})], start=10):
        row = {"number": number, "turn": 1, "run_id": other.run_id, "id": f"msg_{number}", "role": role}
        row |= {"thread_key": key, "data_json": orjson.dumps(data).decode(), "partial": False, "created_ms": 0}
        with harness.database.write() as connection:
            connection.execute(insert(messages).values(**row))

    assert listed(harness, search=search) == (["mine"] if is_match else [])


def test_pages_of_a_search_join(harness: JournalHarness):
    for number in range(6):
        harness.accept(f"{'Title ' * 50} {'needle' if number % 2 else 'hay'}", thread_id=f"thr_{number}")
    with harness.database.write() as connection:
        connection.execute(update(threads).values(updated_ms=5))

    first = listed(harness, search="Needle", limit=2)
    second = listed(harness, search="Needle", limit=2, before_ms=5, before_id=first[-1])

    assert first + second == ["thr_5", "thr_3", "thr_1"]


def test_pages_of_threads_join_also_within_one_millisecond(harness: JournalHarness, talks: list[str]):
    with harness.database.write() as connection:
        connection.execute(update(threads).values(updated_ms=5))

    first = listed(harness, limit=2)
    second = listed(harness, limit=2, before_ms=5, before_id=first[-1])

    assert first + second == ["thr_c", "thr_b", "thr_a"]


def test_a_thread_shows_its_runs_in_order(harness: JournalHarness):
    first, second = (harness.accept(thread_id="mine") for _ in range(2))
    owner = harness.own(first.run_id)

    thread = Threads(harness.database).get(ME, "mine")

    assert [run["run_id"] for run in thread["runs"]] == [first.run_id, second.run_id]
    assert [run["status"] for run in thread["runs"]] == ["running", "queued"]
    assert thread["open_run"] == owner.lease.run_id
    assert None not in thread.values()


def test_messages_are_read_turn_by_turn_in_pages(harness: JournalHarness):
    first = harness.own(harness.accept("one", thread_id="mine").run_id)
    harness.accept("two", thread_id="mine")
    harness.do(first.message("answer"))
    messages, after = [], (0, 0)
    while page := Threads(harness.database).message_page(ME, "mine", after=after, limit=2)[0]:
        messages += page
        after = (page[-1]["turn"], page[-1]["number"])

    assert [(m["role"], m["content"]) for m in messages] == [("user", "one"), ("assistant", "answer"), ("user", "two")]
    assert all(None not in message.values() for message in messages)


@pytest.mark.parametrize("character", ["x", "é", "漢", "🎭"], ids=lambda character: f"{len(character.encode())} bytes")
def test_a_page_of_messages_ends_at_a_megabyte_of_bytes_and_the_next_continues(harness: JournalHarness, character: str):
    for _ in range(10):
        harness.accept(character * (190_000 // len(character.encode())), thread_id="mine")
    pages, after, has_more = [], (0, 0), True
    while has_more:
        page, has_more = Threads(harness.database).message_page(ME, "mine", after=after, limit=500)
        pages.append(len(page))
        after = (page[-1]["turn"], page[-1]["number"])
    all_at_once = Threads(harness.database).messages(ME, "mine", limit=9)

    assert pages == [6, 4]
    assert len(all_at_once) == 9


def test_an_empty_thread_waits_for_its_first_run(harness: JournalHarness):
    new = Threads(harness.database).open(ME, "assistant", "First")

    assert Threads(harness.database).get(ME, new)["title"] == "First"
    assert Threads(harness.database).messages(ME, new) == []
    accepted = harness.accept(thread_id=new)
    assert harness.run_row(accepted.run_id).turn == 1


@pytest.mark.parametrize("principal", OTHERS)
@pytest.mark.parametrize("look", [Threads.get, Threads.messages])
def test_another_principals_thread_is_not_visible(
    harness: JournalHarness, talks: list[str], look, principal: Principal
):
    for thread_id in ("thr_b", "thr_nobody_knows"):
        with pytest.raises(ThreadUnknown):
            look(Threads(harness.database), principal, thread_id)


# --- what a run is shown of it ----------------------------------------------------------------------

LONG = 10_000


def fill(harness: JournalHarness, upto: int) -> int:
    """Return the key of a thread of so many messages, in turns of a sentence, a call, its result and an answer."""
    key: int = harness.run_row(harness.accept("first", thread_id=f"long {upto}").run_id).thread_key
    roles = ("user", "assistant", "tool", "assistant")
    rows = [
        {
            "thread_key": key,
            "number": number,
            "turn": number - (number - 1) % 4,
            "run_id": "run_x",
            "id": f"msg_{number}",
            "role": roles[(number - 1) % 4],
            "data_json": orjson.dumps({"content": f"{number:06}"}).decode(),
            "partial": False,
            "created_ms": 0,
        }
        for number in range(2, upto + 1)
    ]
    with harness.database.write() as connection:
        connection.execute(insert(messages), rows)
    return key


@pytest.fixture
def long_thread(harness: JournalHarness) -> int:
    """Return the key of a thread of 10 000 messages."""
    return fill(harness, LONG)


ONE = len('{"content":"000000"}')
"""Characters of each of its messages."""


def past_of(harness: JournalHarness, key: int, turn: int, max_chars: int) -> Past:
    with harness.database.read() as connection:
        return history(connection, key, turn, max_chars)


def numbers(past: Past) -> list[int]:
    return [int(item.id.removeprefix("msg_")) for item in past.items]


def test_a_history_is_its_newest_messages_and_one_more_than_fit(harness: JournalHarness, long_thread: int):
    for count in (1, 31, 32, 33, 96, 97, 700):  # around the pages it is read in, and further
        past = past_of(harness, long_thread, LONG - 3, (count - 1) * ONE)

        assert numbers(past) == list(range(LONG - count + 1, LONG + 1))
        assert not past.is_whole


@pytest.mark.parity
def test_however_long_a_thread_is_the_same_work_reads_its_end(small_harness: JournalHarness):
    """Counted in steps of SQLite's machine, which are the same on any day."""
    work = []
    for length in (LONG // 10, LONG):
        key, steps = fill(small_harness, length), [0]

        def count(steps: list[int] = steps) -> None:
            steps[0] += 1

        with small_harness.database.read() as connection:
            raw: Any = connection.connection.dbapi_connection
            raw.set_progress_handler(count, 1)
            past = history(connection, key, length - 3, 400 * ONE)
            raw.set_progress_handler(None, 0)
        assert len(past.items) == 401
        work.append(steps[0])

    assert work[1] < 1.1 * work[0]


def test_a_history_ends_with_its_turn_and_begins_with_the_thread(harness: JournalHarness, long_thread: int):
    past = past_of(harness, long_thread, 5, 100_000)

    assert [item.role for item in past.items] == ["user", "assistant", "tool", "assistant"] * 2
    assert [item.data["content"] for item in past.items] == ["first", *(f"{number:06}" for number in range(2, 9))]
    assert past.is_whole
    assert past.sentence is None


def test_a_history_that_begins_inside_a_turn_names_its_sentence(harness: JournalHarness, long_thread: int):
    inside, at_its_start = (past_of(harness, long_thread, LONG - 3, count * ONE) for count in (1, 3))

    assert numbers(inside) == [LONG - 1, LONG]
    assert inside.sentence is not None
    assert inside.sentence.id == f"msg_{LONG - 3}"
    assert numbers(at_its_start) == list(range(LONG - 3, LONG + 1))
    assert at_its_start.sentence is None


def test_a_history_that_is_too_long_has_at_least_what_it_can_begin_with(harness: JournalHarness, long_thread: int):
    with harness.database.write() as connection:
        connection.execute(delete(messages).where(messages.c.thread_key == long_thread, messages.c.number == LONG))

    past = past_of(harness, long_thread, LONG - 3, 0)

    assert [item.role for item in past.items] == ["assistant", "tool"]


def test_messages_that_wait_for_their_turn_are_not_in_an_earlier_ones_history(harness: JournalHarness):
    first = harness.own(harness.accept("one", thread_id="mine").run_id)
    for number in range(100):
        harness.accept(f"later {number}", thread_id="mine")
    harness.do(first.message("answer"))

    past = past_of(harness, first.lease.thread_key, first.lease.turn, 10)

    assert [item.data["content"] for item in past.items] == ["answer"]
    assert past.sentence is not None
    assert past.sentence.data["content"] == "one"


@pytest.mark.parametrize("seed", range(5))
def test_any_history_is_the_end_of_the_whole_one(harness: JournalHarness, seed: int):
    dice = random.Random(seed)
    rows, turn = [], 1
    for number in range(2, 400):
        role = dice.choice(["user", "assistant", "assistant", "tool", "error"])
        turn = number if role == "user" else turn
        text = orjson.dumps({"content": "x" * dice.randint(0, 300)}).decode()
        rows.append({"number": number, "turn": turn, "id": f"msg_{number}", "role": role, "data_json": text})
    key = harness.run_row(harness.accept("first", thread_id="mine").run_id).thread_key
    same = {"thread_key": key, "run_id": "run_x", "partial": False, "created_ms": 0}
    dice.shuffle(rows)
    with harness.database.write() as connection:
        connection.execute(insert(messages), [row | same for row in rows])
    whole = past_of(harness, key, 400, 10**9)

    for max_chars in [dice.randint(0, 30_000) for _ in range(20)]:
        past = past_of(harness, key, 400, max_chars)
        assert past.items == whole.items[-len(past.items) :]
        assert past.is_whole == (len(past.items) == len(whole.items))
        assert past.is_whole or sum(item.chars for item in past.items) > max_chars
        shorter = past.items[1:]
        assert sum(item.chars for item in shorter) <= max_chars or not {"user", "assistant"} & {
            item.role for item in shorter
        }


def test_a_thread_of_one_long_sentence_is_whole(harness: JournalHarness):
    its = harness.own(harness.accept("x" * 5000, thread_id="mine").run_id).lease

    past = past_of(harness, its.thread_key, its.turn, 1000)

    assert past.is_whole
    assert len(past.items) == 1


def test_a_run_of_a_thread_with_many_begins_and_ends_with_the_same_work(small_harness: JournalHarness):
    work = []
    for length in (100, 1000):
        new = small_harness.accept("now", thread_id=f"busy {length}")
        row = small_harness.run_row(new.run_id)._asdict()
        over = [
            row | {"id": f"run_{length}_{n}", "turn": n - length, "status": "succeeded", "ended_ms": 1}
            for n in range(length)
        ]
        with small_harness.database.write() as connection:
            connection.execute(insert(runs), over)
        steps = [0]

        def count(steps: list[int] = steps) -> None:
            steps[0] += 1

        with small_harness.database.write() as connection:
            raw: Any = connection.connection.dbapi_connection
            raw.set_progress_handler(count, 1)
            lease = claim_on(connection, small_harness.database, new.run_id, "own_1", 60)
            assert lease is not None
            assert close_thread(connection, lease) is None
            raw.set_progress_handler(None, 0)
        work.append(steps[0])

    assert work[1] < 1.1 * work[0]


def test_the_texts_that_no_model_got_are_those_of_stopped_runs_of_the_thread(harness: JournalHarness):
    stopped, going, other = (harness.accept(thread_id=name).run_id for name in ("mine", "mine", "other"))
    for number, run_id in enumerate((stopped, going, other)):
        control(harness.database, ME, run_id, CONTROLS["steer"], "ann", data={"content": f"Text {number}"})
    for run_id in (stopped, other):
        cancel(harness.database, ME, run_id, by="ann")

    (text,) = Threads(harness.database).undelivered(ME, "mine")

    assert (text["run_id"], text["by"], text["content"]) == (stopped, "ann", "Text 0")
    with pytest.raises(ThreadUnknown):
        Threads(harness.database).undelivered(Principal(id="bob"), "mine")
