"""The doctor on settings: sections of tenants, periods that contradict each other, plugins that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from bus.identity.credentials import keys
from bus.identity.credentials.key_form import KeyForm
from cli.doctor.settings import check_periods, check_plugins, check_settings, check_tenants
from config.database.engine import Database
from config.database.migrate import migrate
from config.identity.principal import Principal
from config.settings import Settings
from config.settings.limits import Tenants, TenantSettings
from tests.cli.doctor.conftest import only, verdicts
from web.doctor import Judged


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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reap_s": 30.0}, "CALLBOARD_REAP_S (30) is longer than CALLBOARD_LEASE_S (15)"),
        ({"reap_s": 30.0}, "45 s"),
        ({"hot_log_ttl_s": 5}, "CALLBOARD_HOT_LOG_TTL_S (5) is shorter than CALLBOARD_LEASE_S (15)"),
        ({"hot_log_ttl_s": 5}, "at least 60"),
        ({"drain_s": 60.0}, "CALLBOARD_DRAIN_S (60) is not shorter than the 25 s"),
    ],
)
def test_periods_that_contradict_each_other_are_reported_with_their_numbers(settings, changes, words):
    periods = {"lease_s": 15.0, "beat_s": 5.0, "reap_s": 5.0, "hot_log_ttl_s": 3600}

    verdict, text = only(check_periods(settings.model_copy(update=periods | changes)))

    assert verdict == "fail"
    assert words in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"retain_runs_days": 30.0, "retain_threads_days": 7.0}, "runs are removed with their threads"),
        (
            {"retain_events_days": 30.0, "retain_runs_days": 0.5},
            "RETAIN_RUNS_DAYS (0.5), and events are removed with their runs",
        ),
    ],
)
def test_what_shall_be_kept_longer_than_what_it_goes_with_is_reported(settings, changes, words):
    by_verdict = dict(check_periods(settings.model_copy(update=changes)))

    assert words in by_verdict["warn"]


def test_what_is_kept_for_ever_outlives_everything(settings):
    periods = {"retain_runs_days": 30.0, "retain_threads_days": 0.0, "retain_events_days": 30.0}

    assert verdicts(check_periods(settings.model_copy(update=periods))) == ["ok"]


def test_the_defaults_agree(settings):
    periods = {"lease_s": 15.0, "beat_s": 5.0, "reap_s": 5.0, "hot_log_ttl_s": 3600}

    assert only(check_periods(settings.model_copy(update=periods))) == (
        "ok",
        "a run whose worker dies is taken over within about 20 s",
    )


@pytest.mark.parametrize(("workers", "slot_count"), [(1, "1 worker process of 9"), (3, "3 worker processes of 9")])
def test_the_workers_of_the_settings_are_not_taken_for_those_that_run(settings, workers, slot_count):
    verdict, text = only(check_settings(settings.model_copy(update={"workers": workers, "slots": 9})))

    assert verdict == "ok"
    assert f"`up` and `worker` without options start {slot_count} slots" in text


def test_an_unknown_variable_is_reported(settings, monkeypatch):
    assert verdicts(check_settings(settings)) == ["ok"]
    monkeypatch.setenv("CALLBOARD_SLOTTS", "3")

    assert verdicts(check_settings(settings)) == ["warn"]


MODULE = '''\
from observers.base import AgentObserver


class Watcher(AgentObserver):
    """Sees runs."""

    name = "watcher"


class NoObserver:
    """Is nothing."""


def add(a: int, b: int) -> int:
    """Return the sum."""
    return a + b


NUMBER = 3
'''


@pytest.fixture
def plugged(settings, monkeypatch, tmp_path, request):
    """Return settings with these plugins, of a module of this test's own."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    name = f"their_plugins_{abs(hash(request.node.name))}"
    (folder / f"{name}.py").write_text(MODULE)
    (folder / f"{name}_ends.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(folder)
    return lambda plugins: settings.model_copy(update={"plugins": plugins.replace("MODULE", name)})


def test_without_plugins_there_is_nothing_to_say(settings):
    assert list(check_plugins(settings)) == []


def test_observers_tools_and_modules_are_fine(plugged):
    finding = only(check_plugins(plugged("MODULE:Watcher, MODULE:add, MODULE")))

    assert finding == ("ok", "3 can be used")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("not_there_at_all:Thing", "'not_there_at_all:Thing' cannot be imported (ModuleNotFoundError"),
        ("not_there_at_all", "cannot be imported"),
        ("MODULE:Watchr", "Did you mean 'Watcher'?"),
        ("MODULE:NoObserver", "derive a class from observers.base.AgentObserver"),
        ("MODULE:NUMBER", "is no function"),
        ("MODULE_ends:Thing", "cannot be imported: the module itself raised SystemExit"),
    ],
)
def test_a_plugin_that_cannot_be_used_fails_with_its_sentence(plugged, path, words):
    verdict, text = only(check_plugins(plugged(path)))

    assert verdict == "fail"
    assert text.startswith("CALLBOARD_PLUGINS: ")
    assert words in text


def test_one_broken_plugin_hides_no_other(plugged):
    assert verdicts(check_plugins(plugged("gone:A, MODULE:add, gone:B"))) == ["fail", "fail"]
