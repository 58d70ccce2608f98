"""`audit`, `audit verify` and `audit export`, as an auditor types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from bus.identity.audit.anchors import SECRET_NAME, AuditHead, signature_of
from bus.identity.audit.entry import Action, AuditEntry
from bus.identity.audit.recording import record
from cli.main import status_of
from config.database.engine import open_database
from config.database.migrate import migrate
from config.database.shared_secret import shared_secret
from config.identity.principal import Principal
from config.settings import read_settings
from tests.bus.identity.audit.test_chain import tamper, truncate_to

Add = Callable[..., AuditEntry]


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Add:
    """Record a removal in an installation of this test's own, and return its entry."""
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path))
    migrate(read_settings())

    def adding(run_id: str = "run_1", tenant: str = "default") -> AuditEntry:
        with closing(open_database(read_settings().database)) as database, database.write() as connection:
            return record(connection, Principal(tenant=tenant, id="ann"), Action.RUN_REMOVED, "run", run_id)

    return adding


def line_of(entry: AuditEntry) -> str:
    """Return the line that a worker writes about the entry."""
    with closing(open_database(read_settings().database)) as database:
        secret = shared_secret(database, SECRET_NAME)
    tenant, number, digest = entry.tenant, entry.number, entry.digest
    signature = signature_of(secret, tenant, number, digest)
    head = AuditHead(tenant=tenant, number=number, digest=digest, signature=signature, at="2026-11-22T20:00:00.123Z")
    return f"worker-1  {head.text_line()}\n"


def write_anchor(folder: Path, entry: AuditEntry, name: str = "up.log") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(line_of(entry))
    return folder / name


def forged(entry: AuditEntry) -> str:
    """Return what a tool prints to have a whole chain reported as broken."""
    return line_of(replace(entry, digest="ab" * 32)).rpartition(" ")[0] + f" signature={'cd' * 32}\n"


def test_a_whole_log_is_verified_with_the_heads_of_the_log_files(
    add: Add, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_anchor(tmp_path / "logs", add())
    last = add("run_2")

    status = status_of(["audit", "verify"])

    output = capsys.readouterr()
    assert (status, output.err) == (0, "")
    assert "tenant default: 2 entries, whole; compared with 1 head in log files" in output.out
    assert status_of(["audit", "verify", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"tenant": "default", "entries": 2, "digest": last.digest, "anchors": 1}
    ]


def test_without_a_head_the_limits_of_the_answer_are_said(add: Add, capsys: pytest.CaptureFixture[str]) -> None:
    add()

    assert status_of(["audit", "verify"]) == 0
    assert "no log file has a head" in capsys.readouterr().err


def test_a_truncated_log_is_found_by_a_rotated_file_or_one_that_is_named(
    add: Add, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry, gone = add(), add("run_2")
    with closing(open_database(read_settings().database)) as database:
        tamper(database, *truncate_to(entry.number, entry.digest))
    elsewhere = write_anchor(tmp_path / "collected", gone)

    assert status_of(["audit", "verify", "--tenant", "default"]) == 0
    assert status_of(["audit", "verify", "--anchors", str(elsewhere)]) == 1
    write_anchor(tmp_path / "logs", gone, "worker-7.log.2")
    capsys.readouterr()
    assert status_of(["audit", "verify"]) == 1
    output = capsys.readouterr().out
    assert "entry 2 is the first that is broken" in output
    assert "worker-7.log.2:1 has entry 2" in output


def test_a_named_file_without_a_head_is_pointed_out(
    add: Add, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = write_anchor(tmp_path / "logs", add())
    collected = tmp_path / "journal.log"
    collected.write_text(f"Nov 22 20:00:00 host callboard[7]: {written.read_text()}")

    assert status_of(["audit", "verify", "--anchors", str(collected)]) == 1

    output = capsys.readouterr()
    assert f"{collected}: no line with a head that this installation signed" in output.err
    assert "compared with 1 head in log files" in output.out


def test_a_printed_line_is_skipped_and_the_chain_is_whole(
    add: Add, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = add()
    written = write_anchor(tmp_path / "logs", entry)
    written.write_text(forged(entry) + written.read_text())

    assert status_of(["audit", "verify"]) == 0

    output = capsys.readouterr()
    assert "compared with 1 head in log files" in output.out
    assert "warning: the log files: 1 line with the form of a head" in output.err


def test_a_named_file_with_printed_lines_alone_proves_nothing(
    add: Add, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = add()
    write_anchor(tmp_path / "logs", entry)
    collected = tmp_path / "collected.log"
    collected.write_text(2 * forged(entry))

    assert status_of(["audit", "verify", "--anchors", str(collected)]) == 1

    output = capsys.readouterr()
    assert f"{collected}: 2 lines with the form of a head" in output.err
    assert f"{collected}: no line with a head that this installation signed" in output.err
    assert "1 entries, whole" in output.out


def test_log_files_whose_heads_the_secret_does_not_fit_any_more_prove_nothing(
    add: Add, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_anchor(tmp_path / "logs", add())
    with closing(open_database(read_settings().database)) as database, database.write() as connection:
        connection.exec_driver_sql("DELETE FROM secrets")

    assert status_of(["audit", "verify"]) == 1
    assert "the log files: no line with a head that this installation signed" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["logs", "collected"])
@pytest.mark.parametrize("only", [[], ["--tenant", "acme"]])
def test_a_tenant_that_only_a_log_file_knows_is_verified_too(
    add: Add, tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str, only: list[str]
) -> None:
    add()
    anchor = write_anchor(tmp_path / folder, add(tenant="acme"))
    named = [] if folder == "logs" else ["--anchors", str(anchor)]
    with closing(open_database(read_settings().database)) as database:
        tamper(database)
        with database.write() as connection:
            connection.exec_driver_sql("DELETE FROM audit WHERE tenant = 'acme'")
            connection.exec_driver_sql("DELETE FROM audit_heads WHERE tenant = 'acme'")

    assert status_of(["audit", "verify", *only, *named]) == 1
    assert "tenant acme: entry 1 is the first that is broken: it is missing" in capsys.readouterr().out


def test_an_export_has_the_entries_behind_a_number_as_lines(add: Add, capsys: pytest.CaptureFixture[str]) -> None:
    add()
    last = add("run_2")
    add("run_3", "acme")

    assert status_of(["audit", "export", "--after", "1"]) == 0

    assert capsys.readouterr().out == f"{last.line()}\n"


def test_the_list_is_for_people(add: Add, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["audit"]) == 0
    assert "has no entries" in capsys.readouterr().err
    add("run_\u202e1")
    add("run_2")

    assert status_of(["audit", "--limit", "2"]) == 0

    newest, first = capsys.readouterr().out.splitlines()
    assert newest.startswith("2\t20")
    assert "\tann (process)\trun.removed run\trun_2\tdone" in newest
    assert "⟨U+202E⟩" in first


def test_a_log_without_entries_is_whole(add: Add, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["audit", "verify"]) == 0
    assert "no entries" in capsys.readouterr().out
