"""Celery's settings are those the promises were measured with."""

from __future__ import annotations

import base64
from pathlib import Path

import orjson
import pytest
import redis

from bus.celery_app import Publisher, refuse_greenlets
from bus.celery_config import celery_config
from bus.messages import RunAgentMessage
from config.errors import PoolRefused
from config.redis_url import broker_form
from config.settings import Settings
from tests.backends import RedisServer

PROMISED = {
    "task_acks_late": False, "task_ignore_result": True, "task_publish_retry": False,
    "task_create_missing_queues": False, "worker_prefetch_multiplier": 1, "worker_disable_prefetch": True,
    "worker_enable_remote_control": False, "worker_send_task_events": False, "accept_content": ["json"],
    "task_serializer": "json", "broker_connection_retry_on_startup": True, "broker_connection_max_retries": None,
    "result_backend": None, "worker_pool": "threads",
    "worker_cancel_long_running_tasks_on_connection_loss": True,
}  # fmt: skip
PROMISED_TRANSPORT = {
    "ack_emulation": False, "visibility_timeout": 300, "unacked_restore_interval": 5, "unacked_restore_throttle": 1,
    "socket_timeout": 5, "socket_connect_timeout": 2, "socket_keepalive": True, "health_check_interval": 10,
}  # fmt: skip


@pytest.fixture
def on_redis(redis_settings: Settings) -> Settings:
    return redis_settings


def test_the_settings_are_the_promised_ones(on_redis: Settings):
    config = celery_config(on_redis)

    assert {name: config[name] for name in PROMISED} == PROMISED
    prefix = {"global_keyprefix": f"callboard:{on_redis.deployment}:"}
    assert config["broker_transport_options"] == PROMISED_TRANSPORT | prefix


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


def test_importing_the_application_configured_nothing():
    import subprocess
    import sys

    code = "import bus.celery_app as c; assert not c.app.configured; import sys; assert 'litellm' not in sys.modules"
    root = Path(__file__).parents[2]

    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


def test_patched_threads_are_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch):
    import sys
    import types

    patched = types.SimpleNamespace(is_module_patched=lambda name: name == "threading")
    monkeypatch.setitem(sys.modules, "gevent.monkey", patched)

    with pytest.raises(PoolRefused, match="--pool threads"):
        refuse_greenlets()


def test_plain_threads_are_fine():
    refuse_greenlets()
