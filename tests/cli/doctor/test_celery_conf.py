from tests.web.terminal.looks.conftest import only, verdicts
from web.terminal.looks.celery_conf import look_at_celery


def test_our_configuration_is_fine(settings, celery_app):
    assert verdicts(look_at_celery(settings)) == ["ok"]


def test_what_a_plugin_did_to_the_application_is_found(settings, celery_app):
    celery_app.conf.accept_content = ["json", "pickle"]
    celery_app.conf.worker_send_task_events = True

    assert verdicts(look_at_celery(settings)) == ["fail", "warn"]


def test_celerys_own_variables_are_read(settings, celery_app, monkeypatch):
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://:hunter2hunter2@elsewhere/0")

    verdict, text = only(look_at_celery(settings))

    assert verdict == "fail"
    assert "Unset CELERY_BROKER_URL" in text
    assert "hunter2" not in text
