"""The doctor says which variables of earlier systems are read, and as what."""

from __future__ import annotations

import pytest

from cli.doctor.settings import check_settings
from config.settings import SEED_NAMES, SEED_NAMES_UNREAD, Settings


def test_each_name_of_an_earlier_system_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SEED_NAMES, *SEED_NAMES_UNREAD):
        monkeypatch.setenv(name, "x")

    said = [text for _, text in check_settings(Settings.model_construct())]

    assert {"MCP_ROLES", "MCP_INITIATOR_ID", "TEMPORAL_UI_URL", "ENABLE_DAGGER_E2E"} < SEED_NAMES.keys()
    for name, setting in SEED_NAMES.items():
        assert f"{name} is read as CALLBOARD_{setting.upper()} unless that is set" in said
    for name, why in SEED_NAMES_UNREAD.items():
        assert f"{name} is not read: {why}" in said
