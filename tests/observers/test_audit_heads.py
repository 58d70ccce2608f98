"""Heads of the audit log come to the log, to the logger observer's file and to the observers that override the hook."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bus.identity.audit.anchors import SECRET_NAME, WORDS, AuditHead, anchors_in
from bus.identity.audit.due_heads import KnownHeads
from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from config.database.engine import Database, open_database
from config.database.shared_secret import shared_secret
from config.identity.principal import LOCAL
from config.settings import Settings
from handlers.worker.maintenance import write_audit_heads
from observers.base import AgentObserver
from observers.discovery import forget, observers_for
from observers.invoker import drain
from tests.template import upgrade_by_copy

got: list[AuditHead] = []


class Keeper(AgentObserver):
    def on_audit_head(self, head: AuditHead) -> None:
        got.append(head)


class Raiser(AgentObserver):
    def on_audit_head(self, head: AuditHead) -> None:
        raise SystemExit("no")


class Deaf(AgentObserver):
    @classmethod
    def from_settings(cls, settings: Settings) -> Deaf:
        raise AssertionError("it does not override the hook")


@pytest.fixture
def chosen(settings: Settings) -> Iterator[Settings]:
    got.clear()
    forget()
    paths = ",".join(f"{__name__}:{observer.__name__}" for observer in (Raiser, Keeper, Deaf))
    yield settings.model_copy(update={"plugins": paths, "tool_modules": ""})
    forget()


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    with closing(open_database(settings.database)) as opened:
        upgrade_by_copy(opened)
        yield opened


def test_a_head_is_logged_and_given_to_the_observers_that_want_it(
    database: Database, chosen: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    with database.write() as connection:
        entry = record(connection, LOCAL, Action.RUN_REMOVED, "run", "run_1")

    known_heads = KnownHeads()
    with caplog.at_level(logging.INFO):
        counts = [write_audit_heads(known_heads, database, chosen), write_audit_heads(known_heads, database, chosen)]
        assert drain(10) == []
    observers_for(["logger"], chosen)[0].close()  # type: ignore[attr-defined]  # the logger's own

    assert counts == [1, 0]
    assert [(head.tenant, head.number, head.digest) for head in got] == [("default", 1, entry.digest)]
    written = [record for record in caplog.records if record.message == WORDS]
    assert [(vars(record)["digest"], record.name) for record in written] == [(entry.digest, "observers.audit_heads")]
    assert [entry.message for entry in caplog.records if "Raiser" in entry.message] == [
        "observer 'Raiser' raised SystemExit for a head of the audit log"
    ]
    anchors = anchors_in((Path(chosen.state) / "logs").glob("runs-*.log"), shared_secret(database, SECRET_NAME))
    assert [anchor.digest for anchor in anchors.signed] == [entry.digest]
    assert anchors.skipped == 0
