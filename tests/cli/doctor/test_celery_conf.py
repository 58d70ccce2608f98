import pytest

from cli.doctor.queues import check_celery
from tests.cli.doctor.conftest import only, verdicts

pytestmark = pytest.mark.parity


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
