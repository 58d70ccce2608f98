"""What the doctor says of observers that tail the log: what is declared, and whether it is fed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.journal.tailing import ObserverCursors
from cli.doctor.observers import check_observers
from config.database.engine import Database
from config.settings import Settings
from tests.cli.doctor.conftest import only, verdicts
from tests.template import upgrade_by_copy

SHOP = "shop: {class: webhooks, tenants: [default], options: {url: 'https://a.example', secret: '${SHOP_SECRET}'}}\n"


@pytest.fixture
def declaring(settings: Settings, database: Database, tmp_path: Path) -> Settings:
    upgrade_by_copy(database)
    path = tmp_path / "observers.yaml"
    path.write_text(SHOP)
    return settings.model_copy(update={"observers_file": str(path)})


def test_an_endpoint_that_no_process_has_ever_fed_is_named(declaring: Settings, database: Database, monkeypatch):
    monkeypatch.setenv("SHOP_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    verdict, text = only(check_observers(declaring))
    assert (verdict, "start `./callboard observe shop`" in text) == ("warn", True)

    ObserverCursors(database).register("shop", "webhooks", "reliable", None, "now")
    assert verdicts(check_observers(declaring)) == ["ok"]


def test_an_agent_that_is_selected_and_not_there_is_named(declaring: Settings, tmp_path: Path):
    (tmp_path / "agents").mkdir(exist_ok=True)
    (tmp_path / "agents" / "assistant.yaml").write_text("name: A\nmodel: demo/assistant\nsystem_prompt: x\n")
    file = Path(declaring.observers_file)
    file.write_text("ledger: {class: logger, agents: [asistant, assistant]}\n")
    settings = declaring.model_copy(update={"agents_dir": str(tmp_path / "agents")})

    texts = [text for _, text in check_observers(settings)]

    assert "'ledger' selects runs of 'asistant', which is no agent. Did you mean 'assistant'?" in texts


def test_a_secret_that_is_missing_is_a_failure(declaring: Settings):
    (verdict, text), _ = check_observers(declaring)

    assert (verdict, "'shop': env:SHOP_SECRET is missing or empty" in text) == ("fail", True)
