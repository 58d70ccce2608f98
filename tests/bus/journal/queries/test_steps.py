"""A run's steps in pages: in order, of one node, and the items of a FOR_EACH, those that have failed first."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from bus.journal.errors import RunUnknown
from bus.journal.log.commit import Commit
from bus.journal.paging import PAGE_BYTES
from bus.journal.queries.runs import Runs
from bus.journal.queries.steps import LATEST_STEPS
from bus.journal.records.definition_store import keep_content
from bus.journal.records.steps import StepEnded, StepStarted, restart_steps
from bus.journal.records.threads import HistoryItem
from bus.journal.states.release import DRAINED
from bus.payloads import ToolResultPayload
from config.identity.principal import Principal
from tests.bus.journal_harness import JournalHarness, Owner

ME = Principal()
_numbers = count(1)


def commit(owner: Owner, **change: Any) -> None:
    owner.harness.loop.run(owner.writer.commit(Commit(**change)))


def add(owner: Owner, kind: str, name: str, node: str | None = None, status: str = "done", result: Any = None) -> str:
    """Write a step that has ended, and return its id."""
    step_id = f"step_{next(_numbers)}"
    started = StepStarted(
        id=step_id, kind=kind, name=name, node=node, arguments_digest="", idempotency_key="k", input={"a": 1}
    )
    commit(owner, recorded=[(started, StepEnded(id=step_id, status=status, result=result))])
    return step_id


def nodes_of(harness: JournalHarness, owner: Owner, **which: Any) -> list[str]:
    """Return the nodes of all pages of two steps."""
    nodes, after = [], None
    while True:
        rows, after = Runs(harness.database).steps(ME, owner.lease.run_id, **which, after=after, limit=2)
        nodes += [row["node"] for row in rows]
        if after is None:
            return nodes


def test_steps_have_what_they_were_given_and_returned_or_why_they_failed(harness: JournalHarness) -> None:
    owner = harness.own()
    add(owner, "node", "TRANSFORM", "first", result={"b": 2})
    add(owner, "node", "FOR_EACH", "second", "failed", {"error": {"code": "no_branch", "message": "It has none."}})
    add(owner, "tool", "pay", "third", "failed", "Error: no money.")

    rows, after = Runs(harness.database).steps(ME, owner.lease.run_id)

    assert [(row["number"], row["node"], row["input"]) for row in rows] == [
        *((number, name, {"a": 1}) for number, name in enumerate(("first", "second", "third"), 1)),
    ]
    assert [(row.get("result"), row.get("error")) for row in rows] == [
        ({"b": 2}, None),
        (None, "It has none."),
        (None, "no money."),
    ]
    assert after is None


def test_items_of_a_loop_come_by_their_index_behind_those_that_failed(harness: JournalHarness) -> None:
    owner = harness.own()
    for index in (2, 10, 0, 1):
        add(owner, "item", "all", f"all/{index}", "failed" if index == 10 else "done")
    add(owner, "node", "FOR_EACH", "all")
    add(owner, "tool", "pay", "all/1/pay")
    add(owner, "item", "inner", "all/1/inner/0")
    add(owner, "item", "all_others", "all_others/0")

    assert nodes_of(harness, owner, under="all") == ["all/10", "all/0", "all/1", "all/2"]
    assert nodes_of(harness, owner, under="all/1/inner") == ["all/1/inner/0"]
    assert nodes_of(harness, owner, under="all/1") == []
    assert nodes_of(harness, owner, node="all/1/pay") == ["all/1/pay"]
    assert nodes_of(harness, owner, under="all", node="all/2") == ["all/2"]
    assert len(nodes_of(harness, owner)) == 8


def test_a_page_ends_where_results_are_long(harness: JournalHarness) -> None:
    owner = harness.own()
    add(owner, "node", "TRANSFORM", "first", result="x" * PAGE_BYTES)
    add(owner, "node", "TRANSFORM", "second")

    rows, after = Runs(harness.database).steps(ME, owner.lease.run_id)
    rest, last = Runs(harness.database).steps(ME, owner.lease.run_id, after=after)

    assert [row["node"] for row in (*rows, *rest)] == ["first", "second"]
    assert (len(rows), last) == (1, None)


def test_a_result_that_a_message_has_is_read_from_there(harness: JournalHarness) -> None:
    owner, text = harness.own(), "long " * 1000
    step_id = f"step_{next(_numbers)}"
    started = StepStarted(id=step_id, kind="tool", name="read", arguments_digest="", idempotency_key="k", call_id="c1")
    commit(owner, started=[started])
    event = ToolResultPayload(call_id="c1", name="read", outcome="done", result=text, step_id=step_id)
    held = HistoryItem(id="msg_held", role="tool", data={"call_id": "c1", "name": "read", "result": text})
    commit(owner, events=[event], ended=[StepEnded(id=step_id, status="done", result=text)], history=[held])

    ((row,), _) = Runs(harness.database).steps(ME, owner.lease.run_id)

    assert row["result"] == text


def test_the_steps_and_the_definition_of_a_foreign_run_are_unknown(harness: JournalHarness) -> None:
    owner = harness.own()
    add(owner, "node", "TRANSFORM", "first")
    row = harness.run_row(owner.lease.run_id)

    with harness.database.write() as connection:
        keep_content(connection, row.agent_id, row.definition_digest, "{}")

    runs = Runs(harness.database)
    assert runs.definition(ME, row.agent_id, row.definition_digest) is not None
    assert runs.definition(ME, "another", row.definition_digest) is None
    for stranger in (Principal(tenant="other"), Principal(id="eve", agents=frozenset({"another"}))):
        assert runs.definition(stranger, row.agent_id, row.definition_digest) is None
        with pytest.raises(RunUnknown):
            runs.steps(stranger, owner.lease.run_id)


def test_a_running_run_says_which_of_its_open_steps_is_the_last(harness: JournalHarness) -> None:
    owner = harness.own()
    runs, run_id = Runs(harness.database), owner.lease.run_id
    between = runs.get(ME, run_id)
    begin(owner, "loop", "node", "FOR_EACH", "items")
    looping = runs.get(ME, run_id)
    for index in range(LATEST_STEPS):
        add(owner, "item", "items", f"items/{index}")
    beyond = runs.get(ME, run_id)
    begin(owner, "second", "node", "TRANSFORM", "items/3")
    begin(owner, "first", "tool", "run_tests")

    whole, listed, boarded = runs.get(ME, run_id), runs.newest(ME)[0], runs.board(ME).runs[0]
    page, _ = runs.page(ME)
    commit(owner, ended=[StepEnded(id="first", status="done")])
    later = runs.get(ME, run_id)
    commit(owner, release=DRAINED)

    assert "current_step" not in between
    assert looping["current_step"]["node"] == "items"
    assert "current_step" not in beyond
    (current,) = {
        (step["kind"], step["name"]) for step in (run["current_step"] for run in (whole, listed, boarded, *page))
    }
    assert current == ("tool", "run_tests")
    assert later["current_step"] | {"started_at": ""} == {
        "kind": "node",
        "name": "TRANSFORM",
        "node": "items/3",
        "started_at": "",
    }
    assert "current_step" not in runs.get(ME, run_id)


def test_of_a_step_that_is_begun_again_the_time_is_not_said(harness: JournalHarness) -> None:
    owner = harness.own()
    begin(owner, "asked", "tool", "send_mail", status="planned")
    commit(owner, release=DRAINED)
    again = harness.own(owner.lease.run_id, "own_2")
    with harness.database.write() as connection:
        restart_steps(connection, again.lease.fence, ["asked"])

    run = Runs(harness.database).get(ME, owner.lease.run_id)

    assert run["current_step"] == {"kind": "tool", "name": "send_mail"}, "it may have waited for a person for hours"


def begin(owner: Owner, step_id: str, kind: str, name: str, node: str | None = None, status: str = "started") -> None:
    """Begin a step that stays open."""
    step = StepStarted(
        id=step_id, kind=kind, name=name, node=node, status=status, arguments_digest="", idempotency_key="k"
    )
    commit(owner, started=[step])
