"""Ctrl-C on a terminal: the first one stops the run, wherever it is, and the run ends for all its viewers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app_harness import write_agent
from tests.fleet import bare_environment
from tests.model_server import ModelServer, Turn
from tests.processes import folder_variables

pytestmark = [pytest.mark.journey, pytest.mark.timeout(90)]


def start(tmp_path: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "cli", "run", "tester", *words, "--json"],
        env=bare_environment(**folder_variables(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(process: subprocess.Popen[str], kind: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["type"] == kind:
            return
    raise AssertionError(f"there was no {kind}")


def rest(process: subprocess.Popen[str]) -> tuple[list[dict[str, object]], str]:
    out, err = process.communicate(timeout=30)
    return [json.loads(line) for line in out.splitlines()], err


def test_while_streaming(tmp_path: Path) -> None:
    with ModelServer() as model:
        write_agent(tmp_path / "agents", model)
        model.script([Turn(text=["one ", "two ", "three"], stall_after=3)])
        run = start(tmp_path, "Count")

        until(run, "response")
        run.send_signal(signal.SIGINT)
        events, output = rest(run)

        assert run.returncode == 130
        assert (events[-1]["type"], events[-1]["status"]) == ("end", "cancelled")
        assert "Traceback" not in output
        assert model.closed_early.wait(10)


def test_while_it_waits_for_its_turn(tmp_path: Path) -> None:
    with ModelServer() as model:
        write_agent(tmp_path / "agents", model)
        model.script([Turn(text=["one ", "two"], stall_after=2)])
        first = start(tmp_path, "First", "--thread", "busy")
        until(first, "response")
        second = start(tmp_path, "Second", "--thread", "busy")

        until(second, "status")
        second.send_signal(signal.SIGINT)
        events, output = rest(second)
        model.resume()
        rest(first)

        assert (second.returncode, first.returncode) == (130, 0)
        assert [event["type"] for event in events] == ["control", "end"]
        assert "Traceback" not in output
