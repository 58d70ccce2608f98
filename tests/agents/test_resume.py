"""Whichever commit a run's owner is lost at, the run ends as if nothing had happened, and its effects happen once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from bus.journal.who import Who
from tests.bus.world import assert_whole
from tests.house import House
from tests.model_server import Turn
from tests.reference_runs import REFERENCE_RUNS, call, results_in
from tests.survival import TOOLS, Lives

pytestmark = pytest.mark.journey

SCENARIOS = [name for name, run in REFERENCE_RUNS.items() if run.stop_at is None]


@pytest.fixture
def lives(house: House, monkeypatch: pytest.MonkeyPatch) -> Lives:
    return Lives(house, monkeypatch)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_survives_the_loss_of_its_owner_at_every_commit(name: str, house: House, lives: Lives) -> None:
    house.agent(REFERENCE_RUNS[name].definition("tests.survival"))
    house.model.respond = REFERENCE_RUNS[name].respond
    undisturbed = lives.play(None)
    places = list(lives.passed)

    assert undisturbed.run["status"] == "succeeded"
    for k in range(1, len(places) + 1):
        played = lives.play(k)
        where = f"owner lost at {places[k - 1]} {k} of {len(places)}"
        assert played.end == undisturbed.end, where
        assert played.story == undisturbed.story, where
        assert played.effects == undisturbed.effects, where
        assert all(step["ended_ms"] is not None for step in played.steps), where
        assert len({step["idempotency_key"] for step in played.steps}) == len(played.steps), where
        assert_whole(played.lines)
        assert text_of(played.lines) == final_text(played.lines), where


def test_a_stop_survives_the_loss_of_the_owner_at_every_commit(house: House, lives: Lives) -> None:
    house.agent(TOOLS)
    handles: list[Any] = []

    def respond(body: Mapping[str, Any]) -> Turn:
        if results_in(body):
            house.runner.journal.cancel(Who(), handles[-1].run_id, by="ann")
            return Turn(text=["never", " whole"], stall_after=1)
        return Turn(calls=[call("send", "a")])

    def start() -> str:
        handles.append(house.run())
        return str(handles[-1].run_id)

    house.model.respond = respond
    undisturbed = lives.play(None, start)
    places = list(lives.passed)

    assert undisturbed.run["status"] == "cancelled"
    for k in range(1, len(places) + 1):
        played = lives.play(k, start)
        where = f"owner lost at {places[k - 1]} {k} of {len(places)}"
        assert played.run["status"] == "cancelled", where
        assert played.effects == undisturbed.effects, where
        calls = [c["call_id"] for m in played.messages for c in m.get("tool_calls", ())]
        assert calls == [m["call_id"] for m in played.messages if m["role"] == "tool"], where
        assert_whole(played.lines)


def text_of(lines: list[Any]) -> str:
    """Piece the answer together as a viewer does."""
    events = [orjson.loads(line.data) for line in lines]
    gone = {
        n for e in events if e["type"] == "withdrawn" for first, last in e["ranges"] for n in range(first, last + 1)
    }
    return "".join(e["content"] for e in events if e["type"] == "response" and e["seq"] not in gone)


def final_text(lines: list[Any]) -> str:
    events = [orjson.loads(line.data) for line in lines]
    return "".join(e.get("content", "") for e in events if e["type"] == "message" and e["role"] == "assistant")
