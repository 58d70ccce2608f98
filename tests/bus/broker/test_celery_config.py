"""Celery's configuration: names that it knows, the broker, the queues; test_celery_rules.py has the rules."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
import redis
from celery.app.defaults import NAMESPACES, flatten

from bus.broker.celery_config import celery_config
from bus.celery_app import Publisher, refuse_greenlets
from bus.errors import POOL_REFUSED
from bus.messages.run_agent import RunAgentMessage
from config.folders import ROOT
from config.redis.url import broker_form
from config.settings import Settings
from tests.backends import RedisServer
from tests.fleet import bare_environment
from tests.raising import raises


@pytest.fixture
def on_redis(redis_settings: Settings) -> Settings:
    return redis_settings


def test_celery_knows_every_setting(on_redis: Settings):
    """Celery ignores a name that it does not know; what the values have to be is in ``celery_rules``."""
    names = {name for name, _ in flatten(NAMESPACES)}

    assert set(celery_config(on_redis)) - names == set()


def test_two_deployments_of_one_redis_have_keys_of_their_own(on_redis: Settings):
    prefix = celery_config(on_redis)["broker_transport_options"]["global_keyprefix"]

    assert prefix == f"callboard:{on_redis.deployment}:"


def test_the_broker_is_the_redis_unless_another_is_named(on_redis: Settings):
    other = on_redis.model_copy(update={"broker_url": "amqp://rabbit"})

    assert celery_config(on_redis)["broker_url"] == broker_form(str(on_redis.redis_url))
    assert celery_config(other)["broker_url"] == "amqp://rabbit"
    assert celery_config(other)["worker_disable_prefetch"] is False


def test_a_process_that_is_alone_has_a_queue_in_memory(settings: Settings):
    config = celery_config(settings)

    assert config["broker_url"] == "memory://"
    assert "global_keyprefix" not in config["broker_transport_options"]


def test_as_many_runs_at_once_as_there_are_slots(settings: Settings):
    assert celery_config(settings.model_copy(update={"slots": 7}))["worker_concurrency"] == 7


@pytest.mark.parametrize("database", ["0", "5"])
def test_a_wake_up_goes_through_the_socket_we_name_under_the_name_we_chose(
    on_redis: Settings, redis_client: redis.Redis, database: str
):
    url = str(on_redis.redis_url).replace("db=0", f"db={database}")
    message = RunAgentMessage(run_id="run_1", agent_id="assistant", thread_id="thr_1")
    publish = Publisher(on_redis.model_copy(update={"redis_url": url}))

    publish(message)
    publish(message)
    publish.close()

    redis_client.select(int(database))
    queued = redis_client.lrange(f"callboard:{on_redis.deployment}:{on_redis.queue}", 0, -1)
    bodies = [orjson.loads(base64.b64decode(orjson.loads(each)["body"])) for each in queued]
    assert [body[0] for body in bodies] == [[message.to_wire()]] * 2
    assert orjson.loads(queued[0])["headers"]["task"] == "callboard.run_agent"


def test_a_message_is_published_to_the_queue_it_names(on_redis: Settings, redis_client: redis.Redis):
    publish = Publisher(on_redis)

    publish(RunAgentMessage(run_id="run_1", agent_id="painter", thread_id="thr_1", queue="gpu"))
    publish.close()

    assert redis_client.llen(f"callboard:{on_redis.deployment}:gpu") == 1
    assert redis_client.llen(f"callboard:{on_redis.deployment}:{on_redis.queue}") == 0


def test_a_worker_consumes_the_queues_that_it_serves(settings: Settings):
    served = settings.model_copy(update={"queues": " gpu,mail "})

    assert [queue.alias for queue in celery_config(served)["task_queues"]] == ["gpu", "mail"]


CHOICES = {
    ("-Q", "gpu,mail"): "callboard:default:gpu callboard:default:mail gpu,mail",
    ("-Q", "callboard:default:gpu"): "callboard:default:gpu gpu",
    ("-Q", "gpu,mail", "-X", "mail"): "callboard:default:gpu gpu",
    (): "callboard:default:runs",
}
"""Words of Celery's -> the queues that a worker consumes then, and Callboard's setting of them."""
UNUSABLE = ("-Q", "gpu,a b")
BEGIN = """
import json, os, sys
from celery import signals
from bus.celery_app import app
from config.settings import settings
import handlers.worker.process

def show(sender, **_):
    print(*sorted(app.amqp.queues.consume_from), settings().queues, flush=True)
    os._exit(0)

signals.worker_init.receivers.clear()
signals.worker_init.connect(show)
for options in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        sys.argv[1:] = options
        app.worker_main(["--quiet", "worker", *options])
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(f"status {status}", flush=True)
"""
"""Begins a worker with each of several choices in a fork of one process, and stops each before it connects."""


@pytest.fixture(scope="module")
def begun() -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BEGIN, orjson.dumps([*CHOICES, UNUSABLE]).decode()],
        env=bare_environment(CALLBOARD_BROKER_URL="amqp://guest@127.0.0.1:1//"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parity
def test_celerys_own_words_choose_the_queues(begun: subprocess.CompletedProcess[str]):
    expected = [line for queues in CHOICES.values() for line in (queues, "status 0")]

    assert [line.strip() for line in begun.stdout.splitlines()[: len(expected)]] == expected, begun.stderr


@pytest.mark.parity
def test_a_queue_that_no_broker_would_take_is_refused_with_its_name(begun: subprocess.CompletedProcess[str]):
    *_, status = begun.stdout.splitlines()

    assert status != "status 0"
    assert "CALLBOARD_QUEUES cannot be used ('gpu,a b')" in begun.stderr


def test_a_broker_that_comes_back_is_connected_to_again(own_redis: RedisServer, settings: Settings):
    publish = Publisher(settings.model_copy(update={"redis_url": own_redis.url}))
    message = RunAgentMessage(run_id="run_1", agent_id="assistant", thread_id="thr_1")
    publish(message)
    own_redis._running.stop()

    with pytest.raises(Exception, match=r"No such file|refused|closed|Connection"):
        publish(message)

    with RedisServer(own_redis._settings.state_dir) as again:
        own_redis._running = again._running
        publish(message)
        publish.close()


@pytest.mark.parity
def test_importing_the_application_configured_nothing():
    import subprocess
    import sys

    code = "import bus.celery_app as c; assert not c.app.configured; import sys; assert 'litellm' not in sys.modules"
    root = Path(__file__).parents[3]

    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


def test_patched_threads_are_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch):
    import sys
    import types

    patched = types.SimpleNamespace(is_module_patched=lambda name: name == "threading")
    monkeypatch.setitem(sys.modules, "gevent.monkey", patched)

    with raises(POOL_REFUSED, match="--pool threads"):
        refuse_greenlets()


def test_plain_threads_are_fine():
    refuse_greenlets()


@pytest.mark.parity
def test_plain_celery_finds_the_redis_of_an_up_on_its_state_folder(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bus import celery_app
    from tests.backends import start_redis

    running = start_redis(settings)
    monkeypatch.setattr(celery_app, "settings", lambda: settings)
    try:
        assert celery_app._configuration()["broker_url"] == broker_form(running.url)
    finally:
        running.stop()
    assert celery_app._configuration()["broker_url"].startswith("memory:")
