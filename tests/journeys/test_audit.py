"""A real installation writes its audit log and the heads beside it, and `audit verify` finds what was done to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from bus.identity.audit.anchors import SECRET_NAME, Anchor, anchors_in
from bus.identity.audit.chain import entries
from config.database.engine import Database, open_database
from config.database.migrate import migrate
from config.database.shared_secret import known_secret
from config.folders import ROOT
from config.settings import Settings
from tests.bus.identity.audit.test_chain import tamper, truncate_to
from tests.fleet import bare_environment
from tests.journeys.up import Up
from tests.web.conftest import eventually

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]


def post(address: str, path: str, body: dict[str, str] | None = None) -> dict[str, str]:
    data = json.dumps(body).encode() if body is not None else b""
    headers = {"Content-Type": "application/json"} if body is not None else {}
    with urllib.request.urlopen(urllib.request.Request(address + path, data=data, headers=headers)) as answer:
        return dict(json.load(answer))


def verify(state: Path) -> tuple[int, str]:
    """Type `audit verify` and return its status and what it printed."""
    environment = bare_environment(PATH=os.environ["PATH"], CALLBOARD_STATE_DIR=str(state))
    command = [sys.executable, "-P", "-m", "cli", "audit", "verify"]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def anchors_of(database: Database, logs: Path) -> list[Anchor]:
    return anchors_in(logs.glob("*.log"), known_secret(database, SECRET_NAME)).signed


def actions(database: Database) -> list[str]:
    return [entry.action for entry in entries(database, "default")]


def test_the_heads_of_a_running_installation_show_a_truncated_log(tmp_path: Path) -> None:
    state = tmp_path / "state"
    migrate(Settings(state_dir=state))
    with (
        closing(open_database(Settings(state_dir=state).database)) as database,
        Up(state, "--port", "0", "--workers", "1", CALLBOARD_REAP_S="0.5") as up,
    ):
        run_id = post(up.address, "/v1/runs", {"agent": "assistant", "input": "Count slowly to 1000"})["run_id"]
        post(up.address, f"/v1/runs/{run_id}/cancel")
        eventually(lambda: {"settings.changed", "agent.configured"} <= set(actions(database)), 60)
        log_entries = list(entries(database, "default"))
        logs = state / "logs"
        eventually(
            lambda: {anchor.place.split(":")[0] for anchor in anchors_of(database, logs)} > {str(logs / "up.log")}, 90
        )
        assert up.stop() == 0
        assert "worker is ready pool=thread" in (logs / "up.log").read_text()  # the first head is logged as early

        anchors = anchors_of(database, logs)
        assert {anchor.digest for anchor in anchors} <= {entry.digest for entry in entries(database, "default")}
        status, output = verify(state)
        assert status == 0, output
        assert f"{len(actions(database))} entries, whole" in output
        newest = max(anchor.number for anchor in anchors)
        before = log_entries[newest - 2].digest if newest > 1 else "0" * 64
        tamper(database, *truncate_to(newest - 1, before))

    status, output = verify(state)

    assert status == 1, output
    assert f"entry {newest} is the first that is broken" in output
