"""What the doctor says about the governance engine and the databases of ``sql_query``."""

from __future__ import annotations

import socket
import sqlite3
from pathlib import Path

import pytest

from cli.doctor.outward import check_governance, check_sql_databases
from config.settings import Settings
from tests.cli.doctor.conftest import only, verdicts
from web.doctor.queues import check_celery

pytestmark = pytest.mark.parity


def test_nothing_is_said_where_there_is_none(settings: Settings) -> None:
    assert [*check_governance(settings), *check_sql_databases(settings)] == []


def test_an_engine_that_accepts_connections_is_ok(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/core"
        verdicts = list(check_governance(settings.model_copy(update={"governance_url": url})))

    assert [verdict for verdict, _ in verdicts] == ["warn", "ok"]
    assert "calls with an effect are not made without it" in verdicts[1][1]


def test_an_engine_that_is_away_fails(settings: Settings) -> None:
    away = settings.model_copy(update={"governance_url": "http://127.0.0.1:9", "governance_policy": "fail_closed"})

    verdict, text = list(check_governance(away))[-1]

    assert verdict == "fail"
    assert "no call is made" in text


def test_each_database_is_asked(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite3.connect(tmp_path / "shop.db").close()
    (tmp_path / "shop.db").touch()
    monkeypatch.setenv("SHOP_URL", f"sqlite:///{tmp_path / 'shop.db'}")

    assert only(check_sql_databases(settings.model_copy(update={"sql_databases": "shop=SHOP_URL"}))) == (
        "ok",
        "shop: answers, and can only be read",
    )


def test_a_database_without_an_address_fails(settings: Settings) -> None:
    verdict, text = only(check_sql_databases(settings.model_copy(update={"sql_databases": "shop=NOT_SET_HERE"})))

    assert verdict == "fail"
    assert "no variable NOT_SET_HERE" in text


def test_our_configuration_is_fine(settings, celery_app):
    assert verdicts(check_celery(settings)) == ["ok"]


def test_what_a_plugin_did_to_the_application_is_found(settings, celery_app):
    celery_app.conf.accept_content = ["json", "pickle"]
    celery_app.conf.worker_send_task_events = True

    assert verdicts(check_celery(settings)) == ["fail", "warn"]


def test_celerys_own_variables_are_read(settings, celery_app, monkeypatch):
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://:hunter2hunter2@elsewhere/0")

    verdict, text = only(check_celery(settings))

    assert verdict == "fail"
    assert "Unset CELERY_BROKER_URL" in text
    assert "hunter2" not in text
