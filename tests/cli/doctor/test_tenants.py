"""The sections of tenants: what they set, what contradicts itself, and names that nothing in the database has."""

from __future__ import annotations

from typing import Any

import pytest

from bus.identity.credentials import keys
from bus.identity.credentials.key_form import KeyForm
from cli.doctor import Judged
from cli.doctor.settings import check_tenants
from config.database.engine import Database
from config.database.migrate import migrate
from config.identity.principal import Principal
from config.settings import Settings
from config.settings.tenants import Tenants, TenantSettings
from tests.cli.doctor.conftest import verdicts


def with_section(settings: Settings, name: str = "acme", **section: Any) -> Settings:
    return settings.model_copy(update={"tenants": Tenants({name: TenantSettings(**section)})})


def without_notes(settings: Settings) -> list[Judged]:
    """Return the findings about the sections themselves."""
    return [tenant for tenant in check_tenants(settings) if "nothing in the database" not in tenant[1]]


def test_without_sections_there_is_nothing_to_say(settings: Settings) -> None:
    assert list(check_tenants(settings)) == []


def test_it_shows_what_a_section_sets(settings: Settings) -> None:
    chosen = with_section(settings, tenant_open_runs=2_000_000, principal_viewers=0, retain_runs_days=0.5)

    assert without_notes(chosen) == [
        ("ok", "acme: tenant_open_runs 2000000, principal_viewers 0, retain_runs_days 0.5")
    ]


def test_an_empty_section_is_a_warning(settings: Settings) -> None:
    assert without_notes(with_section(settings))[0][0] == "warn"


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"principal_viewers": 9, "tenant_viewers": 8}, "principal_viewers (9) is above tenant_viewers (8)"),
        ({"retain_runs_days": 9, "retain_threads_days": 8}, "runs are removed with their threads"),
        ({"retain_threads_days": 3}, "retain_runs_days (30) is longer than retain_threads_days (3)"),
    ],
)
def test_settings_that_contradict_each_other_are_a_warning(settings: Settings, section: Any, words: str) -> None:
    findings = without_notes(with_section(settings.model_copy(update={"retain_runs_days": 30.0}), **section))

    assert verdicts(iter(findings)) == ["ok", "warn"]
    assert words in findings[1][1]


@pytest.mark.parametrize(
    "section",
    [
        {"principal_viewers": 0, "tenant_viewers": 8},
        {"principal_viewers": 9, "tenant_viewers": 0},
        {"principal_viewers": 8, "tenant_viewers": 8},
        {"tenant_viewers": 1},
        {"retain_runs_days": 9, "retain_threads_days": 0},
    ],
)
def test_settings_that_agree_are_fine(settings: Settings, section: Any) -> None:
    assert verdicts(iter(without_notes(with_section(settings, **section)))) == ["ok"]


def test_a_name_that_nothing_has_is_a_note_with_the_nearest(settings: Settings, database: Database) -> None:
    migrate(settings)
    with database.write() as connection:
        keys.create(connection, KeyForm(lambda: "5e" * 32), Principal(tenant="acme", id="ci"), by="root")

    assert verdicts(check_tenants(with_section(settings, "acme", tenant_viewers=8))) == ["ok"]
    _, note = check_tenants(with_section(settings, "amce", tenant_viewers=8))
    assert note == ("ok", "amce: nothing in the database is of this tenant yet. Did you mean 'acme'?")
