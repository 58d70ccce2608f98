"""A backup is one moment of a database that others write to, whole, private, and never half there."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import delete, select, text
from sqlalchemy.engine import make_url

from bus.identity.audit.chain import verify
from bus.loop import ProcessLoop, process_loop
from cli.main import status_of
from config.database.backup import back_up
from config.database.engine import Database, open_database
from config.database.errors import BACKUP_EXISTS, BACKUP_FAILED
from config.database.migrate import migrate, require_current
from config.database.tables import audit, events, runs
from config.settings import Settings
from tests.backends import postgres_tool
from tests.bus.ended_runs import ended
from tests.bus.journal_harness import JournalHarness
from tests.raising import raises


@pytest.fixture
def filled(settings: Settings) -> Iterator[JournalHarness]:
    """A migrated database in which a run ended."""
    migrate(settings)
    database = open_database(settings.database)
    harness = JournalHarness(database, process_loop())
    ended(harness)
    yield harness
    database.close()


class Writer:
    """Writes runs, one after the other, until it is stopped."""

    def __init__(self, harness: JournalHarness) -> None:
        self.harness = harness
        self.written = 0
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()

    def wait_for_more(self, count: int) -> None:
        with self._changed:
            until = self.written + count
            assert self._changed.wait_for(lambda: self.written >= until, 30)

    def _write(self) -> None:
        while not self._is_over:
            self.harness.accept(thread_id="waiting")
            ended(self.harness, f"talk_{self.written}")
            with self._changed:
                self.written += 1
                self._changed.notify_all()


def assert_consistent(database: Database, at_least: int = 1) -> None:
    """Everything in a copy belongs together, and every log that ended has its end."""
    require_current(database)
    with database.read() as connection:
        if database.is_sqlite:
            assert connection.execute(text("PRAGMA integrity_check")).scalars().all() == ["ok"]
            assert connection.execute(text("PRAGMA foreign_key_check")).all() == []
        rows = connection.execute(select(runs.c.id, runs.c.status, runs.c.reserved_to)).all()
        for run in rows:
            last = connection.execute(
                select(events.c.type, events.c.seq).where(events.c.run_id == run.id).order_by(events.c.seq.desc())
            ).first()
            assert last is not None
            if run.status in ("queued", "running"):
                assert last.type != "end"
            else:
                assert (last.type, last.seq) == ("end", run.reserved_to)
    assert sum(run.status == "succeeded" for run in rows) >= at_least
    log = verify(database, "default")
    assert log.entries > 0
    assert log.broken is None
    with pytest.raises(Exception, match="append-only"), database.write() as connection:
        connection.execute(delete(audit))


def opened(file: Path) -> Database:
    return open_database(f"sqlite:///{file}")


@pytest.mark.parity
def test_a_copy_made_while_others_write_is_one_moment_of_it(
    filled: JournalHarness, settings: Settings, tmp_path: Path
) -> None:
    with Writer(filled) as writer:
        for number in range(5):
            writer.wait_for_more(3)
            before = writer.written
            backup = back_up(settings, tmp_path / f"copy-{number}.db")
            copy = opened(backup.file)
            assert_consistent(copy, at_least=before)
            copy.close()


def test_a_copy_is_one_file_for_its_owner_alone(filled: JournalHarness, settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    before = os.umask(0)
    try:
        backup = back_up(settings, folder / "copy.db")
    finally:
        os.umask(before)

    assert [path.name for path in folder.iterdir()] == ["copy.db"]
    assert stat.S_IMODE(backup.file.stat().st_mode) == 0o600
    assert backup.size == backup.file.stat().st_size
    assert backup.kind == "sqlite"


def test_runs_continue_in_what_was_restored(filled: JournalHarness, settings: Settings, tmp_path: Path) -> None:
    open_run = filled.own().lease
    backup = back_up(settings, tmp_path / "copy.db")
    ended(filled, "written later")

    copy = opened(backup.file)
    restored = JournalHarness(copy, filled.loop)
    restored.expire_lease(open_run.run_id)
    owner = restored.own(open_run.run_id, "own_2")
    restored.do(owner.end())

    assert restored.run_row(open_run.run_id).status == "succeeded"
    assert "written later" not in [row.thread_id for row in restored.rows(select(runs.c.thread_id))]
    copy.close()


def test_a_file_that_is_there_is_not_replaced_unasked(
    filled: JournalHarness, settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "copy.db"
    file.write_text("mine")

    with raises(BACKUP_EXISTS, match="--force"):
        back_up(settings, file)
    assert file.read_text() == "mine"

    back_up(settings, file, force=True)
    copy = opened(file)
    assert_consistent(copy)
    copy.close()


def test_the_database_itself_is_never_the_target(filled: JournalHarness, settings: Settings) -> None:
    file = Path(make_url(settings.database).database or "")
    link = file.with_name("link.db")
    link.symlink_to(file)

    for name in (file, link):
        with raises(BACKUP_EXISTS, match="the database itself"):
            back_up(settings, name, force=True)

    assert_consistent(filled.database)


def test_what_cannot_be_copied_leaves_nothing(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "copies" / "copy.db"
    file.parent.mkdir()
    with raises(BACKUP_FAILED, match="no database"):
        back_up(settings, file)
    Path(make_url(settings.database).database or "").write_text("this is no database, and long enough to tell" * 99)
    with raises(BACKUP_FAILED, match="not a database"):
        back_up(settings, file)
    with raises(BACKUP_FAILED, match="cannot be written"):
        back_up(settings, tmp_path / "nowhere" / "copy.db")

    assert list(file.parent.iterdir()) == []


@pytest.mark.parity
def test_a_damaged_database_is_noticed_and_the_earlier_copy_stays(
    filled: JournalHarness, settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "copy.db"
    back_up(settings, file)
    before = file.read_bytes()
    for number in range(50):
        ended(filled, f"talk_{number}")
    filled.database.close()
    damage(Path(make_url(settings.database).database or ""))

    with raises(BACKUP_FAILED):
        back_up(settings, file, force=True)

    assert file.read_bytes() == before
    assert not file.with_name("copy.db.part").exists()


def damage(file: Path) -> None:
    """Overwrite pages in the middle of a database that no process has open."""
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with file.open("r+b") as raw:
        raw.seek(4096 * 8)
        raw.write(b"\x07" * 4096 * 8)


def test_what_an_interrupted_backup_left_is_written_over(
    filled: JournalHarness, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "copy.db.part").write_text("half of something" * 9999)

    backup = back_up(settings, tmp_path / "copy.db")

    copy = opened(backup.file)
    assert_consistent(copy)
    copy.close()


def test_two_backups_to_one_file_do_not_mix(filled: JournalHarness, settings: Settings, tmp_path: Path) -> None:
    part = (tmp_path / "copy.db.part").open("wb")
    fcntl.flock(part, fcntl.LOCK_EX)

    with raises(BACKUP_FAILED, match="another backup is writing"):
        back_up(settings, tmp_path / "copy.db")
    part.close()


# --- Postgres


@pytest.fixture
def postgres_settings(settings: Settings, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a migrated Postgres, with its tools on the PATH."""
    tool = postgres_tool("pg_dump")
    assert tool is not None
    monkeypatch.setenv("PATH", f"{Path(tool).parent}:{os.environ['PATH']}")
    its = settings.model_copy(update={"database_url": postgres_url})
    migrate(its)
    return its


@pytest.fixture
def wide_loop() -> ProcessLoop:
    wide = ProcessLoop()
    wide.widen_writes(8)
    return wide


@pytest.mark.postgres
def test_an_archive_of_postgres_made_while_others_write_restores(
    postgres_settings: Settings, postgres_cluster: Any, wide_loop: ProcessLoop, tmp_path: Path
) -> None:
    database = open_database(postgres_settings.database)
    harness = JournalHarness(database, wide_loop)
    with Writer(harness) as writer:
        writer.wait_for_more(3)
        with_password = postgres_settings.database.replace("callboard@", "callboard:secret@")
        backup = back_up(postgres_settings.model_copy(update={"database_url": with_password}), tmp_path / "copy.dump")
    database.close()

    url = postgres_cluster.new_database()
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    subprocess.run(["pg_restore", f"--dbname={plain}", str(backup.file)], check=True, capture_output=True)
    copy = open_database(url)
    assert_consistent(copy, at_least=3)
    copy.close()
    assert stat.S_IMODE(backup.file.stat().st_mode) == 0o600
    assert backup.kind == "postgres"


@pytest.mark.postgres
@pytest.mark.parametrize("says", [None, "pg_dump (PostgreSQL) 9.6.1"])
def test_without_a_tool_that_is_new_enough_the_command_is_shown(
    postgres_settings: Settings, tmp_path: Path, says: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    if says is not None:
        (tools / "pg_dump").write_text(f"#!/bin/sh\necho '{says}'\n")
        (tools / "pg_dump").chmod(0o755)
        shutil.copy(shutil.which("sh") or "/bin/sh", tools / "sh")
    monkeypatch.setenv("PATH", str(tools))
    url = postgres_settings.database.replace("callboard@", "callboard:hunter2@") + "&password=hunter2"

    with raises(BACKUP_FAILED) as caught:
        back_up(postgres_settings.model_copy(update={"database_url": url}), tmp_path / "copy.dump")

    assert "pg_dump --format=custom --file=copy.dump 'postgresql://callboard@" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.glob("copy*")) == []


@pytest.mark.postgres
def test_what_pg_dump_says_is_reported(postgres_settings: Settings, tmp_path: Path) -> None:
    database = open_database(postgres_settings.database)
    with database.write() as connection:
        connection.execute(text("CREATE ROLE guest LOGIN"))
    database.close()
    url = postgres_settings.database.replace("callboard@", "guest@")

    with raises(BACKUP_FAILED, match=r"pg_dump: error: .*permission denied"):
        back_up(postgres_settings.model_copy(update={"database_url": url}), tmp_path / "copy.dump")

    assert sorted(path.name for path in tmp_path.glob("copy*")) == []


def test_the_command_prints_what_it_wrote(
    filled: JournalHarness,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CALLBOARD_DATABASE_URL", settings.database)
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(settings.state))
    monkeypatch.chdir(tmp_path)

    assert status_of(["backup", str(tmp_path / "copy.db"), "--json"]) == 0
    result = orjson.loads(capsys.readouterr().out)
    again = status_of(["backup", str(tmp_path / "copy.db")])

    assert result == {"file": str(tmp_path / "copy.db"), "bytes": result["bytes"], "kind": "sqlite"}
    assert result["bytes"] == (tmp_path / "copy.db").stat().st_size
    assert again == 2
    assert "--force" in capsys.readouterr().err
