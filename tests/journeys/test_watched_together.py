"""One run, many eyes: two feeds over HTTP, `watch` on a terminal and the log file agree on every number."""

from __future__ import annotations

import json
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet import bare_environment
from tests.journeys.up import Up
from tests.processes import run_python

pytestmark = [pytest.mark.journey, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    keys = {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "", "GEMINI_API_KEY": ""}
    with Up(tmp_path_factory.mktemp("together") / "state", "--port", "0", "--workers", "1", **keys) as running:
        running.ask("assistant", "What is 1 + 1?")
        yield running
        running.stop()


def type_(up: Up, *words: str) -> subprocess.CompletedProcess[str]:
    """Type a command beside the running `up`, in a terminal of its own that is closed afterwards."""
    state = ("--state-dir", str(up.state))
    return run_python("-P", "-m", "cli", *words, *state, env=bare_environment(), timeout_s=60)


def start(up: Up, sentence: str) -> str:
    body = json.dumps({"agent": "assistant", "input": sentence}).encode()
    request = urllib.request.Request(f"{up.address}/v1/runs", data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(json.load(answer)["run_id"])


def test_two_feeds_and_a_terminal_see_the_same_numbers_at_once(up: Up) -> None:
    run_id = start(up, "Write 60 words")
    seen: dict[str, list[dict[str, Any]]] = {}

    def feed(name: str) -> None:
        seen[name] = up.events(run_id)

    def terminal() -> None:
        seen["terminal"] = [json.loads(line) for line in type_(up, "watch", run_id, "--json").stdout.splitlines()]

    eyes = [threading.Thread(target=feed, args=(name,)) for name in ("first", "second")]
    eyes.append(threading.Thread(target=terminal))
    for eye in eyes:
        eye.start()
    for eye in eyes:
        eye.join(60)

    numbers = [event["seq"] for event in seen["first"]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert seen["first"] == seen["second"] == seen["terminal"]
    assert seen["first"][-1]["type"] == "end"
    assert sum(event["type"] == "response" for event in seen["first"]) > 50


def test_a_detached_run_continues_after_its_terminal_is_closed(up: Up) -> None:
    started = type_(up, "run", "assistant", "Write 40 words", "--detach")

    run_id = started.stdout.strip()
    events = up.events(run_id)

    assert started.returncode == 0
    assert started.stderr == ""
    assert events[-1]["status"] == "succeeded"


def test_the_log_file_has_the_run_one_record_a_line(up: Up) -> None:
    run_id = start(up, "What is 17 * 23?")
    events = up.events(run_id)

    lines = type_(up, "logs", run_id).stdout.splitlines()

    committed = [event for event in events if event["type"] not in ("response", "reasoning") and event["seq"] > 1]
    calls = [event for event in committed if event["type"] != "tool" or "arguments" in event]
    assert [line.split()[3 + 1] for line in lines] == [event["type"] for event in calls]
    assert "391" in "\n".join(lines)


def test_a_run_stopped_from_the_terminal_ends_for_all_viewers(up: Up) -> None:
    run_id = start(up, "Write 400 words slowly")
    with urllib.request.urlopen(f"{up.address}/v1/runs/{run_id}/events", timeout=60) as feed:
        for line in feed:
            if line.startswith(b"event: response"):
                break
        stopped = type_(up, "cancel", run_id)
        rest = feed.read().decode()

    assert "was asked to stop" in stopped.stdout
    assert '"status":"cancelled"' in rest
    assert type_(up, "watch", run_id).returncode == 130


def test_state_survives_a_restart_of_everything(up: Up, tmp_path: Path) -> None:
    run_id = start(up, "What is 6 * 7?")
    before = up.events(run_id)

    up.stop()
    after = [json.loads(line) for line in type_(up, "watch", run_id, "--json").stdout.splitlines()]

    assert after == before
