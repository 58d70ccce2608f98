"""Heads of the audit log are written again and again, each by one process, and read back from the files they are in."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import update

from config.database.engine import Database, open_database
from config.database.tables import audit_heads
from config.identity.audit.anchors import AGAIN_MS, EVERY_ENTRIES, EVERY_MS, WORDS, AuditHead, anchors_in, take_due
from config.identity.audit.entry import Action, AuditEntry
from config.identity.audit.recording import record
from config.identity.principal import Principal
from config.logs import acting_for, line_format
from config.settings import Settings
from tests.template import upgrade_by_copy

DIGEST = "a1" * 32
HEAD = AuditHead(tenant="acme", number=7, digest=DIGEST, at="2026-11-22T20:00:00.123Z")


@pytest.fixture
def database(each_database_url: str) -> Iterator[Database]:
    with closing(open_database(each_database_url)) as opened:
        upgrade_by_copy(opened)
        yield opened


def add(database: Database, tenant: str = "acme") -> AuditEntry:
    with database.write() as connection:
        return record(connection, Principal(tenant=tenant), Action.RUN_REMOVED, "run", "run_1")


def let_pass(database: Database, ms: int) -> None:
    with database.write() as connection:
        connection.execute(update(audit_heads).values(anchored_ms=audit_heads.c.anchored_ms - ms))


def test_a_head_is_due_once_and_again_when_it_moved_and_after_an_hour(database: Database) -> None:
    first = add(database)
    at_once = take_due(database)
    second = add(database)
    too_soon = take_due(database)
    let_pass(database, EVERY_MS)
    later = take_due(database)
    let_pass(database, EVERY_MS)
    unmoved = take_due(database)
    let_pass(database, AGAIN_MS)
    again = take_due(database)

    assert [(head.number, head.digest) for head in at_once] == [(1, first.digest)]
    assert too_soon == unmoved == []
    assert [(head.number, head.digest) for head in later] == [(2, second.digest)]
    assert [head.number for head in again] == [2]


def test_many_entries_make_a_head_due_before_its_time(database: Database) -> None:
    add(database)
    take_due(database)
    with database.write() as connection:
        connection.execute(update(audit_heads).values(number=1 + EVERY_ENTRIES))

    assert [head.number for head in take_due(database)] == [1 + EVERY_ENTRIES]


def test_each_tenant_has_its_own(database: Database) -> None:
    add(database, "a")
    add(database, "b")

    assert sorted(head.tenant for head in take_due(database)) == ["a", "b"]
    assert take_due(database) == []


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("child", ["", "worker-1  "])
@pytest.mark.parametrize("tenant", ["acme", "ops+eu@example.org"])
@pytest.mark.parametrize("context", [None, ("zeta", "ann@example.org")], ids=["process", "principal"])
def test_the_applications_log_is_read_back(
    settings: Settings, tmp_path: Path, log_format: str, child: str, tenant: str, context: tuple[str, str] | None
) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(line_format(settings.model_copy(update={"log_format": log_format}), "worker-1"))
    facts = {"tenant": tenant, "number": HEAD.number, "digest": HEAD.digest}
    entry = logging.LogRecord("observers.audit_heads", logging.INFO, "", 0, WORDS, None, None)
    vars(entry).update(facts)
    token = acting_for.set(context)
    handler.emit(entry)
    acting_for.reset(token)
    file = tmp_path / "up.log"
    file.write_text(f"{child}something else\n{child}{stream.getvalue()}")

    (found,) = anchors_in([file])

    assert (found.tenant, found.number, found.digest) == (tenant, 7, DIGEST)
    assert found.place == f"{file}:2"


FORGED = [
    f"2026-11-22T20:00:00.123Z  run_1  3  assistant  message  {HEAD.text_line()}",
    f"2026-11-22T20:00:00.123Z INFO    web gunicorn.access {WORDS} tenant=acme number=9 digest={DIGEST}",
    f"2026-11-22T20:00:00.123Z  run_1 {HEAD.json_line()}",
    f"{WORDS} tenant=acme number=9 digest={DIGEST}",
    '{"type":"message","content":"audit head"}',
    '{"audit head": ',
    '{"type":"audit head"}',
    f'{{"type":"audit head","tenant":"acme","number":"9","digest":"{DIGEST}"}}',
    f'{{"type":"audit head","tenant":["acme"],"number":9,"digest":"{DIGEST}"}}',
    '{"type":"audit head","tenant":"acme","number":9,"digest":"a1"}',
    f"{HEAD.text_line()}{'x' * 3000}",
]


@pytest.mark.parametrize("line", FORGED)
def test_what_a_client_wrote_is_no_anchor(tmp_path: Path, line: str) -> None:
    file = tmp_path / "runs-0.log"
    file.write_text(f"{line}\n")

    assert list(anchors_in([file])) == []


@pytest.mark.parametrize("line", [HEAD.text_line(), HEAD.json_line()], ids=["text", "json"])
def test_the_logger_observers_line_is_read_back(tmp_path: Path, line: str) -> None:
    file = tmp_path / "runs-0.log"
    file.write_text(f"{line}\n")

    assert [(one.tenant, one.number, one.digest) for one in anchors_in([file])] == [("acme", 7, DIGEST)]
