"""Conversations: listed, searched, paged, and seen by nobody but their owner."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from bus.journal.threads import Who, get_thread, list_messages, list_threads, open_thread
from config.errors import ThreadUnknown
from config.tables import threads
from tests.bus.world import World

ME = Who()
OTHERS = [Who(principal="eve"), Who(tenant="other")]


@pytest.fixture
def talks(world: World) -> list[str]:
    """Three conversations of mine, and one of everybody else's with a name of mine."""
    ids = ["thr_a", "thr_b", "thr_c"]
    for thread_id, title in zip(ids, ["Bread recipes", "100%_sure?", "Ships at sea"], strict=True):
        world.accept(title, thread_id=thread_id)
    for who in OTHERS:
        world.accept("Secret bread", thread_id="thr_a", tenant=who.tenant, principal=who.principal)
    return ids


def listed(world: World, who: Who = ME, **filters) -> list[str]:
    with world.database.read() as connection:
        return [thread["thread_id"] for thread in list_threads(connection, who, **filters)]


def test_one_sees_ones_own_threads_the_one_touched_last_first(world: World, talks: list[str]):
    with world.database.write() as connection:
        for at_ms, thread_id in enumerate(["thr_b", "thr_c", "thr_a"]):
            connection.execute(update(threads).where(threads.c.id == thread_id).values(updated_ms=at_ms))

    assert listed(world) == ["thr_a", "thr_c", "thr_b"]
    assert listed(world, OTHERS[0]) == ["thr_a"]


@pytest.mark.parametrize(
    ("search", "found"),
    [("bread", ["thr_a"]), ("BREAD", ["thr_a"]), ("%_", ["thr_b"]), ("%", ["thr_b"]), ("'; --", []), ("Secret", [])],
)
def test_titles_are_searched_as_they_are_written(world: World, talks: list[str], search: str, found: list[str]):
    assert listed(world, search=search) == found


def test_pages_of_threads_join_also_within_one_millisecond(world: World, talks: list[str]):
    with world.database.write() as connection:
        connection.execute(update(threads).values(updated_ms=5))

    first = listed(world, limit=2)
    second = listed(world, limit=2, before_ms=5, before_id=first[-1])

    assert first + second == ["thr_c", "thr_b", "thr_a"]


def test_a_thread_shows_its_runs_in_order(world: World):
    first, second = (world.accept(thread_id="mine") for _ in range(2))
    owner = world.own(first.run_id)

    with world.database.read() as connection:
        found = get_thread(connection, ME, "mine")

    assert [run["run_id"] for run in found["runs"]] == [first.run_id, second.run_id]
    assert [run["status"] for run in found["runs"]] == ["running", "queued"]
    assert found["open_run"] == owner.lease.run_id
    assert None not in found.values()


def test_messages_are_read_turn_by_turn_in_pages(world: World):
    first = world.own(world.accept("one", thread_id="mine").run_id)
    world.accept("two", thread_id="mine")
    world.do(first.message("answer"))
    found, after = [], (0, 0)
    with world.database.read() as connection:
        while page := list_messages(connection, ME, "mine", after=after, limit=2):
            found += page
            after = (page[-1]["turn"], page[-1]["number"])

    assert [(m["role"], m["content"]) for m in found] == [("user", "one"), ("assistant", "answer"), ("user", "two")]
    assert all(None not in message.values() for message in found)


def test_an_empty_thread_waits_for_its_first_run(world: World):
    with world.database.write() as connection:
        new = open_thread(connection, ME, "assistant", "First")

    with world.database.read() as connection:
        assert get_thread(connection, ME, new)["title"] == "First"
        assert list_messages(connection, ME, new) == []
    accepted = world.accept(thread_id=new)
    assert world.run_row(accepted.run_id).turn == 1


@pytest.mark.parametrize("who", OTHERS)
@pytest.mark.parametrize("look", [get_thread, list_messages])
def test_nobody_sees_somebody_elses_thread(world: World, talks: list[str], look, who: Who):
    for thread_id in ("thr_b", "thr_nobody_knows"):
        with world.database.read() as connection, pytest.raises(ThreadUnknown):
            look(connection, who, thread_id)
