"""A definition is kept once, as it was when a run was accepted with it, whatever becomes of its file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import event, select

from bus.journal.acceptance import accept as accepting
from bus.journal.records import definition_store as pinned
from bus.journal.records.definition_store import RENEW_S, read_pinned
from config.database.tables import definitions
from tests.bus.journal_harness import JournalHarness
from tests.bus.racing import at_once

OLD, NEW = "a" * 64, "b" * 64


@pytest.fixture(autouse=True)
def a_new_process() -> Iterator[None]:
    """Nothing is known of what other tests' databases hold."""
    pinned._known.clear()
    yield
    pinned._known.clear()


@pytest.fixture
def pins(harness: JournalHarness) -> Iterator[list[str]]:
    """The statements that write a definition down."""
    seen: list[str] = []

    def note(_connection, _cursor, statement, *_rest) -> None:
        if "INTO definitions" in statement:
            seen.append(statement)

    event.listen(harness.database.engine, "before_cursor_execute", note)
    yield seen
    event.remove(harness.database.engine, "before_cursor_execute", note)


def kept(harness: JournalHarness, digest: str) -> str | None:
    with harness.database.read() as connection:
        return read_pinned(connection, digest)


def test_a_definition_is_read_as_it_was_accepted(harness: JournalHarness) -> None:
    harness.accept(definition_digest=OLD, definition_json='{"model": "old"}')
    harness.accept(definition_digest=NEW, definition_json='{"model": "new"}')

    assert kept(harness, OLD) == '{"model": "old"}'
    assert kept(harness, NEW) == '{"model": "new"}'
    assert kept(harness, "c" * 64) is None


def test_it_is_written_once_however_many_runs_are_accepted(harness: JournalHarness, pins: list[str]) -> None:
    for _ in range(3):
        harness.accept(definition_digest=OLD)

    assert len(pins) == 1
    assert len(harness.rows(select(definitions))) == 1


def test_what_is_kept_stays_as_it_was(harness: JournalHarness) -> None:
    harness.accept(definition_digest=OLD, definition_json='{"as": "it was"}')
    pinned._known.clear()  # as another process
    harness.accept(definition_digest=OLD, definition_json='{"as": "a client says"}')

    assert kept(harness, OLD) == '{"as": "it was"}'


def test_many_processes_at_once_keep_one(harness: JournalHarness) -> None:
    def accept(_number: int) -> object:
        pinned._known.clear()
        return harness.accept(definition_digest=OLD)

    done = at_once(8, accept)

    assert [outcome for outcome in done if isinstance(outcome, Exception)] == []
    assert len(harness.rows(select(definitions))) == 1


def test_a_start_that_was_undone_leaves_nothing_known(harness: JournalHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(_place: str) -> None:
        raise RuntimeError("before the commit")

    with monkeypatch.context() as patched:
        patched.setattr(accepting, "failpoint", stumble)
        with pytest.raises(RuntimeError):
            harness.accept(definition_digest=OLD)
    assert kept(harness, OLD) is None

    harness.accept(definition_digest=OLD)

    assert kept(harness, OLD) == "{}"


def test_it_is_written_again_in_time_so_that_retention_sees_its_use(harness: JournalHarness, pins: list[str]) -> None:
    harness.accept(definition_digest=OLD)
    for key in pinned._known:
        pinned._known[key] -= RENEW_S + 1

    harness.accept(definition_digest=OLD)

    assert len(pins) == 2
