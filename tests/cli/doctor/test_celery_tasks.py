"""What the doctor says about Celery applications."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.doctor.outward import check_celery_tasks
from config.settings import Settings
from tests.cli.doctor.conftest import only, verdicts
from tests.scripted_shop import ScriptedShop

Known = Callable[..., Settings]


@pytest.fixture
def known_tasks(settings: Settings, tmp_path: Path, redis_url: str, deployment: str) -> Iterator[Known]:
    """Describes an application and returns the settings that name its folder."""
    shop = ScriptedShop(redis_url, deployment)

    def described(change: tuple[str, str] = ("", ""), *, tracks_starts: bool = True) -> Settings:
        shop.describe(tmp_path / "celery_tasks", tracks_starts=tracks_starts)
        path = tmp_path / "celery_tasks" / "shop.yaml"
        path.write_text(path.read_text().replace(*change))
        return settings.model_copy(update={"celery_tasks_dir": str(tmp_path / "celery_tasks")})

    yield described
    shop.close()


def test_nothing_is_said_without_applications(settings: Settings) -> None:
    assert list(check_celery_tasks(settings)) == []


def test_an_application_that_answers_is_ok(known_tasks: Known) -> None:
    assert only(check_celery_tasks(known_tasks())) == ("ok", "shop: 1 tasks; broker and results answer")


def test_an_application_that_records_no_starts_is_a_warning(known_tasks: Known) -> None:
    findings = list(check_celery_tasks(known_tasks(tracks_starts=False)))

    assert verdicts(iter(findings)) == ["warn", "ok"]
    assert "task_track_started=True" in findings[0][1]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (('"broker"', '"broker_env": "NO_SUCH_VARIABLE", "nothing"'), "there is no such field"),
        (('"tracks_starts"', '"result_backend": "unix:///none.sock", "tracks_starts"'), "does not answer"),
        (('"tracks_starts"', '"result_backend": "db+sqlite:////no/such.db", "tracks_starts"'), "cannot be read"),
        (('"tracks_starts"', '"result_backend": "rpc://", "tracks_starts"'), "no other can read it"),
        ((".sock", ".none"), "its broker does not answer"),
    ],
)
def test_what_does_not_answer_is_a_failure(known_tasks: Known, change: tuple[str, str], problem: str) -> None:
    verdict, text = only(check_celery_tasks(known_tasks(change)))

    assert (verdict, problem in text) == ("fail", True), text
