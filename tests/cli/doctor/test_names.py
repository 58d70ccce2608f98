"""The doctor says which variables of earlier systems are read, and as what."""

from __future__ import annotations

import re

import pytest

from cli.doctor.settings import check_settings
from config.settings import ROOT, SEED_NAMES, SEED_NAMES_UNREAD, Settings, read_settings


def test_each_name_of_an_earlier_system_is_read_as_the_documents_say() -> None:
    table = re.findall(
        r"^\| `(\w+)` \| `CALLBOARD_(\w+)`", (ROOT / "docs" / "configuration.md").read_text(), re.MULTILINE
    )
    names = {name: setting.lower() for name, setting in table if not name.startswith("CALLBOARD_")}

    assert names == SEED_NAMES


@pytest.mark.parametrize(
    ("name", "value", "setting", "read"),
    [
        ("TEMPORAL_NAMESPACE", "shop", "deployment", "shop"),
        ("TEMPORAL_TASK_QUEUE", "orders", "queue", "orders"),
        ("DATABASE_POOL_SIZE", "7", "database_pool_size", 7),
        ("DATABASE_MAX_OVERFLOW", "9", "database_max_overflow", 9),
    ],
)
def test_a_name_of_an_earlier_system_sets_what_it_set_there(
    name: str, value: str, setting: str, read: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)

    assert read_settings().model_dump(exclude_unset=True, exclude={"no_config"}) == {setting: read}


def test_each_name_of_an_earlier_system_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SEED_NAMES, *SEED_NAMES_UNREAD):
        monkeypatch.setenv(name, "x")

    texts = [text for _, text in check_settings(Settings.model_construct())]

    assert {"MCP_ROLES", "MCP_INITIATOR_ID", "TEMPORAL_UI_URL", "ENABLE_DAGGER_E2E"} < SEED_NAMES.keys()
    for name, setting in SEED_NAMES.items():
        assert f"{name} is read as CALLBOARD_{setting.upper()} unless that is set" in texts
    for name, why in SEED_NAMES_UNREAD.items():
        assert f"{name} is not read: {why}" in texts
