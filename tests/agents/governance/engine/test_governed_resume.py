"""Under an engine too, a run survives the loss of its owner at every commit, and no call is made unasked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.catalogue import wrap_tools
from agents.testing import AgentKit
from cli.crashlab import ledger
from cli.crashlab.invariants import differences, not_recovered
from tests.agents.governance.engine.engine_server import EngineServer
from tests.agents.test_resume import Lives
from tests.reference_runs import REFERENCE_RUNS

pytestmark = pytest.mark.parity
CHOSEN = [name for name, run in REFERENCE_RUNS.items() if run.is_alone]


@pytest.fixture
def engine() -> Iterator[EngineServer]:
    with EngineServer() as server:
        yield server


@pytest.fixture
def kit(engine: EngineServer) -> Iterator[AgentKit]:
    wrap_tools(ledger.watched)
    with AgentKit(settings={"governance_url": engine.url}) as agent_kit:
        yield agent_kit
    wrap_tools(None)


@pytest.mark.parametrize("name", CHOSEN)
def test_a_governed_run_survives_the_loss_of_its_owner_at_every_commit(
    name: str, kit: AgentKit, engine: EngineServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = Lives(kit, REFERENCE_RUNS[name], tmp_path, monkeypatch)
    undisturbed = lives.play()
    places, effects = list(lives.passed), lives.effects.counted()

    assert undisturbed.run["status"] == "succeeded"
    for k in range(1, len(places) + 1):
        engine.events.clear()
        played = lives.play(k)
        where = f"owner lost at {places[k - 1]}, place {k} of {len(places)}"
        assert [*not_recovered(played), *lives.effects.breaches()] == [], where
        assert played.run["status"] == undisturbed.run["status"], where
        assert differences(played, undisturbed) == [], where
        assert lives.effects.counted() == effects, where
        engine_ids = {event["call_id"] for event in engine.events if event["event_type"] == "ActivityStarted"}
        call_ids = {entry.call_id for entry in ledger.read(tmp_path / f"ledger-{k}")}
        assert call_ids <= engine_ids, where
