import pytest

from cli.doctor.settings import check_periods, check_settings
from tests.cli.doctor.conftest import only, verdicts


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
