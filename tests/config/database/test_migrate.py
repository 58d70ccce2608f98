"""The migrations make the tables that the code has, keep what is in them, and bear being run at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from config.database.engine import Database, open_database
from config.database.errors import SchemaNew, SchemaOld
from config.database.migrate import FOLDER, HEAD, current_version, migrate, require_current
from config.database.tables import metadata
from config.folders import ROOT
from config.settings import Settings
from tests.fleet import environment

RUN = {
    "thread_key": 1,
    "thread_id": "talk",
    "tenant": "default",
    "principal": "local",
    "kind": "agent",
    "agent_id": "assistant",
    "agent_name": "Assistant",
    "definition_digest": "d" * 64,
    "model": "demo/assistant",
    "title": "Hello",
    "detached": True,
    "crashes": 0,
    "stop_requested": False,
    "observers_told": True,
    "observers_json": "[]",
    "steps": 0,
    "created_ms": 1,
}
EARLIER: dict[str, list[dict[str, Any]]] = {
    "threads": [
        {
            "key": 1,
            "id": "talk",
            "tenant": "default",
            "principal": "local",
            "agent_id": "assistant",
            "title": "Hello",
            "next_message": 4,
            "open_run": "run_on",
            "created_ms": 1,
            "updated_ms": 1,
        },
    ],
    "runs": [
        RUN | {"id": "run_over", "turn": 1, "status": "succeeded", "fence": 1, "reserved_to": 4, "ended_ms": 9},
        RUN
        | {
            "id": "run_on",
            "turn": 2,
            "status": "running",
            "fence": 2,
            "reserved_to": 1002,
            "owner": "own_1",
            "lease_until": 77,
            "lease_boot": "boot",
        },
        RUN | {"id": "run_next", "turn": 3, "status": "queued", "fence": 0, "reserved_to": 1},
    ],
    "messages": [
        {
            "thread_key": 1,
            "number": n,
            "turn": n,
            "run_id": run_id,
            "id": f"msg_{n}",
            "role": "user",
            "data_json": "{}",
            "partial": False,
            "created_ms": 1,
        }
        for n, run_id in enumerate(("run_over", "run_on", "run_next"), 1)
    ],
    "events": [
        {"run_id": run_id, "first_seq": n, "seq": n, "type": kind, "fence": 1, "data_json": "{}"}
        for run_id, kinds in (
            ("run_over", ("status", "status", "message", "end")),
            ("run_on", ("status",)),
            ("run_next", ("status",)),
        )
        for n, kind in enumerate(kinds, 1)
    ],
    "steps": [
        {
            "id": "stp_1",
            "run_id": "run_over",
            "number": 1,
            "kind": "model",
            "name": "demo",
            "status": "done",
            "arguments_digest": "a",
            "idempotency_key": "k",
            "attempt": 1,
            "fence": 1,
            "started_ms": 1,
        },
    ],
    "outbox": [{"run_id": "run_next", "created_ms": 1}],
    "workers": [
        {"id": "w", "host": "h", "pid": 1, "pool": "threads", "slots": 1, "busy": 0, "started_ms": 1, "seen_ms": 1},
    ],
    "approvals": [{"id": "apr_1", "run_id": "run_over", "decisions_json": "[]", "created_ms": 1}],
}
"""What the first schema may hold: a run that ended, one that is on, one that waits for its turn."""


@pytest.fixture
def older(settings: Settings, each_database_url: str) -> Settings:
    return settings.model_copy(update={"database_url": each_database_url})


@pytest.fixture
def database(each_database_url: str) -> Iterator[Database]:
    opened = open_database(each_database_url)
    yield opened
    opened.close()


def upgrade(database: Database, revision: str) -> None:
    """Bring a database to an earlier schema."""
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def differences(database: Database) -> list[Any]:
    """Return what alembic would change to make the database fit the tables."""
    with database.engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def insert_plainly(database: Database, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Insert rows with the columns they name, as earlier code did."""
    with database.write() as connection:
        for table, rows_of_run in rows.items():
            for row in rows_of_run:
                names, values = ", ".join(row), ", ".join(f":{name}" for name in row)
                connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({values})"), row)


def rows_of(database: Database) -> dict[str, list[dict[str, Any]]]:
    """Return what stands in the tables that had rows at first, with all columns they have now."""
    with database.read() as connection:
        return {
            table: [dict(row) for row in connection.execute(text(f"SELECT * FROM {table} ORDER BY 1, 2")).mappings()]
            for table in EARLIER
        }


def test_the_newest_revision_is_the_one_the_code_asks_for() -> None:
    script = ScriptDirectory(str(FOLDER))

    assert script.get_heads() == [HEAD]
    assert [revision.revision for revision in script.walk_revisions()] == sorted(
        (path.name[:4] for path in (FOLDER / "versions").glob("[0-9]*.py")), reverse=True
    )


@pytest.mark.parity
def test_the_migrated_schema_is_that_of_the_tables(older: Settings, database: Database) -> None:
    changed = migrate(older)

    assert changed
    assert differences(database) == []
    require_current(database)


@pytest.mark.parity
def test_a_difference_would_be_noticed(older: Settings, database: Database) -> None:
    migrate(older)
    with database.write() as connection:
        connection.execute(text("DROP INDEX ix_runs_status_lease_until"))
        connection.execute(text("ALTER TABLE workers ADD COLUMN colour TEXT"))

    assert {difference[0] for difference in differences(database)} == {"add_index", "remove_column"}


@pytest.mark.parity
def test_an_upgrade_keeps_every_row(older: Settings, database: Database) -> None:
    upgrade(database, "0001")
    insert_plainly(database, EARLIER)

    before = rows_of(database)

    changed = migrate(older)

    assert changed
    assert differences(database) == []
    after = rows_of(database)
    for table, rows in before.items():
        assert len(rows) == len(EARLIER[table])
        assert [{name: row[name] for name in rows[0]} for row in after[table]] == rows, table
    if database.is_sqlite:
        with database.read() as connection:
            assert connection.execute(text("PRAGMA foreign_key_check")).all() == []


def test_the_last_owner_of_an_open_run_is_read_from_its_events_once(older: Settings, database: Database) -> None:
    upgrade(database, "0003")
    insert_plainly(database, EARLIER)
    data_of = {"status": '{"type":"status","status":"running"}', "error": '{"message":"\\"status\\":\\"running\\""}'}
    with database.write() as connection:
        (run_id,) = connection.execute(text("SELECT id FROM runs ORDER BY id LIMIT 1")).one()
        connection.execute(text("UPDATE runs SET ended_ms = NULL WHERE id = :id"), {"id": run_id})
        connection.execute(text("DELETE FROM events WHERE run_id = :id"), {"id": run_id})
        for seq, (kind, fence) in enumerate((("status", 1), ("status", 3), ("error", 4)), 1):
            row = {"id": run_id, "seq": seq, "type": kind, "fence": fence, "data": data_of[kind]}
            connection.execute(
                text(
                    "INSERT INTO events (run_id, first_seq, seq, type, fence, data_json)"
                    " VALUES (:id, :seq, :seq, :type, :fence, :data)"
                ),
                row,
            )

    migrate(older)

    with database.read() as connection:
        value = connection.execute(text("SELECT owned_fence FROM runs WHERE id = :id"), {"id": run_id}).scalar_one()
    assert value == 3


def test_a_database_that_is_current_is_left_alone(older: Settings) -> None:
    migrate(older)

    assert not migrate(older)


@pytest.mark.parity
def test_old_empty_and_newer_schemas_are_named(older: Settings, database: Database) -> None:
    with pytest.raises(SchemaOld, match="migrate"):
        require_current(database)
    upgrade(database, "0001")
    with pytest.raises(SchemaOld, match="0001"):
        require_current(database)
    migrate(older)
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(SchemaNew, match="9999"):
        require_current(database)
    with pytest.raises(SchemaNew, match="9999"):
        migrate(older)


@pytest.mark.journey
@pytest.mark.parametrize("start", [None, "0001"])
def test_processes_that_migrate_at_once_wait_for_each_other(
    older: Settings, database: Database, start: str | None
) -> None:
    if start is not None:
        upgrade(database, start)
    # Each says that it is ready and then waits for a line, so that all begin at the same moment.
    code = (
        "import sys\nfrom config.database.migrate import migrate\nfrom config.settings import read_settings\n"
        "import alembic.command\nprint('ready', flush=True)\nsys.stdin.readline()\n"
        "print(migrate(read_settings()), flush=True)"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment(older) | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()

    outputs = [process.communicate(timeout=50) for process in processes]

    assert [process.returncode for process in processes] == [0, 0, 0], [err for _, err in outputs]
    assert "True\n" in [out for out, _ in outputs]
    assert current_version(database) == HEAD
    assert differences(database) == []


def test_the_agents_that_joined_a_thread_are_found_in_its_runs(older: Settings, database: Database) -> None:
    upgrade(database, "0010")
    runs = [RUN | {"id": f"run_{n}", "agent_id": agent} for n, agent in enumerate(("assistant", "other", "other"))]
    more = {"turn": 1, "status": "succeeded", "fence": 1, "reserved_to": 4, "ended_ms": 9}
    insert_plainly(database, {"threads": EARLIER["threads"], "runs": [run | more for run in runs]})

    migrate(older)

    with database.read() as connection:
        assert connection.execute(text("SELECT * FROM thread_agents")).all() == [(1, "other")]
