"""Each way in which Celery's configuration can be spoilt is noticed, on a real application."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from celery import Celery

from bus.broker.celery_config import celery_config
from bus.broker.celery_rules import broken_rules
from config.folders import ROOT
from config.settings import Settings


def application(settings: Settings, **changes: Any) -> Celery:
    """Return an application set up as ours, and then changed as a user's code or command line does."""
    app = Celery("changed", set_as_current=False)
    app.add_defaults(lambda: celery_config(settings))
    app.conf.update(changes)
    return app


def verdicts(settings: Settings, environment: dict[str, str] | None = None, **changes: Any) -> list[tuple[str, str]]:
    conf = application(settings, **changes).conf
    return list(broken_rules(conf, settings, environment or {}))


def test_our_own_configuration_breaks_no_rule(settings: Settings, redis_settings: Settings):
    assert verdicts(settings) == []
    assert verdicts(redis_settings) == []
    assert verdicts(settings.model_copy(update={"broker_url": "amqp://user:pw@rabbit//"})) == []


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({"accept_content": ["json", "pickle"]}, "fail", "run code in the workers"),
        ({"accept_content": ["json", "application/x-python-serialize"]}, "fail", "run code in the workers"),
        ({"accept_content": ["json", "yaml", "msgpack"]}, "warn", "has yaml, msgpack"),
        ({"task_serializer": "pickle"}, "fail", "refuse every message"),
        ({"worker_enable_remote_control": True}, "fail", "can stop the workers"),
        ({"task_acks_late": True}, "fail", "ends itself"),
        ({"worker_send_task_events": True}, "warn", "no process reads"),
        ({"worker_prefetch_multiplier": 4}, "warn", "while others are free"),
        ({"worker_disable_prefetch": False}, "warn", "while others are free"),
        ({"task_create_missing_queues": True}, "warn", "without a consumer"),
        ({"broker_connection_max_retries": 100}, "warn", "away for long"),
        ({"worker_consumer": "celery.worker.consumer:Consumer"}, "fail", "malformed message"),
        ({"worker_pool": "gevent"}, "fail", "threads, prefork or solo"),
        ({"task_queues": ["other"]}, "fail", "CALLBOARD_QUEUE"),
        ({"task_routes": {"callboard.*": "other"}}, "fail", "task_routes"),
        ({"include": ["foreign.tasks"]}, "fail", "handlers.run_agent"),
        ({"task_time_limit": 30.0}, "warn", "30 s"),
        ({"result_backend": "redis://:hunter2hunter2@results/1"}, "warn", "redis://:***@results/1"),
        ({"broker_url": "redis://:hunter2hunter2@elsewhere/0"}, "fail", "redis://:***@elsewhere/0"),
        ({"broker_read_url": "redis://elsewhere/0"}, "fail", "redis://elsewhere/0"),
    ],
    ids=str,
)
def test_a_changed_setting_is_found(redis_settings: Settings, changes: dict[str, Any], verdict: str, words: str):
    ((outcome, text),) = verdicts(redis_settings, **changes)

    assert outcome == verdict
    assert words in text
    assert "hunter2" not in text


def test_workers_that_do_not_accept_json_get_no_message(settings: Settings):
    findings = verdicts(settings, accept_content=["yaml"])

    assert [verdict for verdict, _ in findings] == ["fail", "warn"]
    assert "refuse every message" in findings[0][1]


def test_any_pool_agents_can_work_in_is_fine(settings: Settings):
    for pool in ("threads", "prefork", "solo", "celery.concurrency.prefork:TaskPool"):
        assert verdicts(settings, worker_pool=pool) == []


@pytest.mark.parametrize(
    ("change", "verdict", "words"),
    [
        ({"visibility_timeout": 30}, "warn", "visibility_timeout is 30 s and a lease 60 s"),
        ({"global_keyprefix": ""}, "fail", "global_keyprefix ''"),
        ({"socket_timeout": None}, "warn", "blocks a publisher for ever"),
    ],
)
def test_a_changed_option_of_the_transport_is_found(
    redis_settings: Settings, change: dict[str, Any], verdict: str, words: str
):
    patient = redis_settings.model_copy(update={"lease_s": 60.0})
    options = celery_config(patient)["broker_transport_options"] | change

    ((outcome, text),) = verdicts(patient, broker_transport_options=options)

    assert outcome == verdict
    assert words in text


@pytest.mark.parametrize(
    ("environment", "verdict", "words"),
    [
        ({"CELERY_BROKER_URL": "redis://:hunter2hunter2@elsewhere/0"}, "fail", "Unset CELERY_BROKER_URL"),
        ({"CELERY_BROKER_READ_URL": "redis://elsewhere/0"}, "fail", "Unset CELERY_BROKER_READ_URL"),
        ({"BROKER_URL": "redis://elsewhere/0"}, "fail", "Unset BROKER_URL"),
        ({"CELERY_WORKER_PURGE": "1"}, "fail", "deletes the waiting messages"),
        ({"CELERY_WORKER_POOL": "eventlet"}, "fail", "CELERY_WORKER_POOL is 'eventlet'"),
        ({"CELERY_WORKER_QUEUES": "mail,slow"}, "fail", "CELERY_WORKER_QUEUES"),
        ({"CELERY_WORKER_EXCLUDE_QUEUES": "mail,runs"}, "fail", "CELERY_WORKER_EXCLUDE_QUEUES"),
        ({"CELERY_WORKER_TASK_EVENTS": "true"}, "warn", "no process reads"),
        ({"CELERY_WORKER_PREFETCH_MULTIPLIER": "9"}, "warn", "full"),
    ],
    ids=str,
)
def test_a_variable_of_celerys_is_found(
    redis_settings: Settings, environment: dict[str, str], verdict: str, words: str
):
    ((outcome, text),) = verdicts(redis_settings, environment)

    assert outcome == verdict
    assert words in text
    assert "hunter2" not in text


def test_a_variable_that_says_what_we_say_is_fine(redis_settings: Settings):
    harmless = {
        "BROKER_URL": str(redis_settings.redis_url),
        "CELERY_WORKER_PURGE": "0",
        "CELERY_WORKER_POOL": "solo",
        "CELERY_WORKER_QUEUES": redis_settings.queue,
        "CELERY_WORKER_TASK_EVENTS": "false",
    }

    assert verdicts(redis_settings, harmless) == []


def test_a_worker_of_named_queues_breaks_no_rule(redis_settings: Settings):
    assert verdicts(redis_settings.model_copy(update={"queues": "gpu, mail"})) == []


def test_what_words_behind_the_workers_command_change_is_found(redis_settings: Settings):
    app = application(redis_settings)

    app.config_from_cmdline(["worker.enable_remote_control=1", "task.acks_late=1"], namespace="worker")

    option_names = [text.partition(" ")[0] for _, text in broken_rules(app.conf, redis_settings, {})]
    assert option_names == ["task_acks_late", "worker_enable_remote_control"]


@pytest.mark.parity
def test_a_module_of_celerys_own_can_set_only_what_we_do_not(tmp_path):
    (tmp_path / "theirs.py").write_text(
        "accept_content = ['pickle']\nworker_enable_remote_control = True\ntask_time_limit = 30\n"
    )
    code = (
        "import os\nfrom bus.celery_app import app\nfrom bus.broker.celery_rules import broken_rules\n"
        "from config.settings import settings\n"
        "print(*(text.split()[0] for _, text in broken_rules(app.conf, settings(), os.environ)))"
    )
    environment = os.environ | {"CELERY_CONFIG_MODULE": "theirs", "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}

    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert ran.stdout.split() == ["task_time_limit"], ran.stderr
