import pytest
import redis
from kombu import Connection

from bus.celery_app import Publisher
from bus.celery_config import queue_of
from bus.keys import Keys
from bus.messages import RunAgentMessage
from tests.web.conftest import accept
from tests.web.terminal.looks.conftest import only, verdicts
from web.terminal.looks.queues import look_at_queues

WAKE_UP = RunAgentMessage(run_id="run_1", agent_id="assistant", thread_id="thr_1")


def publish(settings, times=1):
    """Publish wake-ups as the relay does."""
    publisher = Publisher(settings)
    for _ in range(times):
        publisher(WAKE_UP)
    publisher.close()


def leave(settings, queue, times=1):
    """Put messages into another queue of the deployment."""
    with redis.Redis.from_url(settings.redis_url) as client:
        client.rpush(f"{Keys(settings.deployment).prefix}{queue}", *["a message"] * times)


def test_a_fresh_checkout_is_only_told_that_no_worker_is_alive(settings, redis_settings):
    for each in (settings, redis_settings):
        verdict, text = only(look_at_queues(each))

        assert verdict == "warn"
        assert "./callboard worker" in text


def test_runs_that_wait_while_no_worker_is_alive_are_a_failure(settings, runner):
    accept(runner)

    verdict, text = only(look_at_queues(settings))

    assert verdict == "fail"
    assert "1 run and 0 wake-ups waiting" in text
    assert "no worker is alive. Start `./callboard worker`" in text


def test_wake_ups_that_wait_in_the_broker_while_no_worker_is_alive_are_a_failure(redis_settings):
    publish(redis_settings, times=2)

    verdict, text = only(look_at_queues(redis_settings))

    assert verdict == "fail"
    assert "2 wake-ups" in text


def test_a_worker_on_our_queue_makes_it_well(settings, runner, alive):
    accept(runner)
    alive()

    assert only(look_at_queues(settings)) == ("ok", "'runs' is consumed; 1 run and 0 wake-ups waiting")


def test_a_worker_of_a_release_that_named_no_queue_is_taken_for_ours(settings, alive):
    alive(queue=None)

    assert verdicts(look_at_queues(settings)) == ["ok"]


def test_workers_on_another_queue_are_named_with_it(redis_settings, alive):
    alive(queue="slow")
    alive("own_2", queue="mail")
    publish(redis_settings)

    verdict, text = only(look_at_queues(redis_settings))

    assert verdict == "fail"
    assert "workers alive consume 'mail', 'slow', this deployment publishes to 'runs'" in text
    assert "CALLBOARD_QUEUE=runs" in text


def test_messages_in_a_list_nobody_consumes_are_a_warning(redis_settings, alive):
    alive()
    leave(redis_settings, "runz", times=3)

    found = dict(look_at_queues(redis_settings))

    assert set(found) == {"ok", "warn"}
    assert "3 messages in 'runz'" in found["warn"]
    assert f"redis-cli del '{Keys(redis_settings.deployment).prefix}runz'" in found["warn"]


def test_neither_a_consumed_queue_nor_another_deployments_is_told(redis_settings, alive):
    alive()
    alive("own_2", queue="second")
    leave(redis_settings, "second")
    leave(redis_settings.model_copy(update={"deployment": f"{redis_settings.deployment}-other"}), "mail")
    leave(redis_settings, "runs\x06\x163")  # the part of low priority of a queue of kombu's

    assert only(look_at_queues(redis_settings)) == ("ok", "'runs' is consumed; 0 runs and 1 wake-up waiting")


def test_a_broker_of_its_own_is_where_the_messages_are_counted(settings, redis_url):
    beside = settings.model_copy(update={"broker_url": redis_url.replace("db=0", "db=4")})
    publish(beside)

    assert verdicts(look_at_queues(beside)) == ["fail"]


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # kombu's own tables
def test_another_kind_of_broker_is_asked_for_our_queue(settings, tmp_path):
    url = f"sqla+sqlite:///{tmp_path / 'broker.db'}"
    ours = settings.model_copy(update={"broker_url": url})
    assert verdicts(look_at_queues(ours)) == ["warn"]

    with Connection(url) as connection:
        queue = connection.SimpleQueue(queue_of(ours).name)
        queue.put("a message")
        queue.close()

    verdict, text = only(look_at_queues(ours))
    assert verdict == "fail"
    assert "1 wake-up " in text


@pytest.mark.parametrize("name", ["redis_url", "broker_url"])
def test_a_broker_that_is_away_hides_nothing_of_what_sql_knows(settings, runner, name):
    accept(runner)

    found = list(look_at_queues(settings.model_copy(update={name: "redis://127.0.0.1:1/0"})))

    assert [verdict for verdict, _ in found] == ["warn", "fail"]
    assert "does not answer" in found[0][1]


def test_a_database_without_a_schema_is_another_looks_business(settings, tmp_path):
    assert list(look_at_queues(settings.model_copy(update={"database_url": f"sqlite:///{tmp_path / 'none.db'}"}))) == []
