import pytest
import redis
from kombu import Connection
from sqlalchemy import update

from bus.broker.celery_config import queue_of
from bus.celery_app import Publisher
from bus.keys import Keys
from bus.messages.run_agent import RunAgentMessage
from config.database.tables import runs
from tests.web.conftest import accept
from tests.web.doctor.conftest import only, verdicts
from web.doctor.queues import check_queues

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


def test_a_fresh_checkout_only_reports_that_no_worker_is_alive(settings, redis_settings):
    for each in (settings, redis_settings):
        verdict, text = only(check_queues(each))

        assert verdict == "warn"
        assert "./callboard worker" in text
        assert "`/ready` is 503" in text


@pytest.mark.parity
def test_runs_that_wait_while_no_worker_is_alive_are_a_failure(settings, runner):
    accept(runner)

    verdict, text = only(check_queues(settings))

    assert verdict == "fail"
    assert "1 run and 0 messages waiting" in text
    assert "no worker is alive. Start `./callboard worker`" in text


def test_wake_ups_that_wait_in_the_broker_while_no_worker_is_alive_are_a_failure(redis_settings):
    publish(redis_settings, times=2)

    verdict, text = only(check_queues(redis_settings))

    assert verdict == "fail"
    assert "2 messages" in text


@pytest.mark.parity
def test_a_worker_on_our_queue_makes_it_well(settings, runner, alive):
    accept(runner)
    alive()

    assert only(check_queues(settings)) == ("ok", "'runs' is consumed; 1 run and 0 messages waiting")


@pytest.mark.parity
def test_a_worker_of_a_release_that_named_no_queue_is_taken_for_ours(settings, alive):
    alive(queue=None, queues=())

    assert verdicts(check_queues(settings)) == ["ok"]


def test_workers_on_another_queue_are_named_with_it(redis_settings, alive):
    alive(queue="slow", queues=())  # of a release that served one
    alive("own_2", queues=("mail",))
    publish(redis_settings)

    verdict, text = only(check_queues(redis_settings))

    assert verdict == "fail"
    assert "workers alive consume 'mail', 'slow', this deployment publishes to 'runs'" in text
    assert "CALLBOARD_QUEUE=runs" in text


def test_messages_in_a_list_without_a_consumer_are_a_warning(redis_settings, alive):
    alive()
    leave(redis_settings, "runz", times=3)

    by_verdict = dict(check_queues(redis_settings))

    assert set(by_verdict) == {"ok", "warn"}
    assert "3 messages in 'runz'" in by_verdict["warn"]
    assert f"redis-cli del '{Keys(redis_settings.deployment).prefix}runz'" in by_verdict["warn"]


def test_neither_a_consumed_queue_nor_another_deployments_is_reported(redis_settings, alive):
    alive()
    alive("own_2", queues=("runs", "second"))
    leave(redis_settings, "second")
    leave(redis_settings.model_copy(update={"deployment": f"{redis_settings.deployment}-other"}), "mail")
    leave(redis_settings, "runs\x06\x163")  # the part of low priority of a queue of kombu's

    assert only(check_queues(redis_settings)) == ("ok", "'runs' is consumed; 0 runs and 1 message waiting")


def write(settings, queue):
    (settings.agent_folders[0]).mkdir(parents=True, exist_ok=True)
    (settings.agent_folders[0] / "painter.yaml").write_text(
        f"name: Painter\nmodel: demo/assistant\nsystem_prompt: Paint.\nqueue: {queue}\n"
    )


@pytest.mark.parity
def test_a_queue_that_an_agent_names_and_no_worker_serves_is_a_warning(settings, alive, tmp_path):
    ours = settings.model_copy(update={"agents_dir": str(tmp_path / "painters")})
    alive()
    write(ours, "gpu")

    by_verdict = dict(check_queues(ours))

    assert "agent 'painter' names queue 'gpu'" in by_verdict["warn"]
    assert "`./callboard worker --queues gpu`" in by_verdict["warn"]
    alive("own_2", queues=("gpu",))
    assert verdicts(check_queues(ours)) == ["ok"]


@pytest.mark.parity
def test_runs_in_a_queue_that_no_worker_serves_are_a_failure(settings, runner, alive, database):
    run_id = accept(runner)
    alive()
    with database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(queue="gpu"))

    by_verdict = dict(check_queues(settings))

    assert by_verdict["ok"] == "'runs' is consumed; 0 runs and 0 messages waiting"
    assert "1 run and 0 messages waiting in 'gpu', which no living worker serves" in by_verdict["fail"]


def test_a_broker_of_its_own_is_where_the_messages_are_counted(settings, redis_url):
    beside = settings.model_copy(update={"broker_url": redis_url.replace("db=0", "db=4")})
    publish(beside)

    assert verdicts(check_queues(beside)) == ["fail"]


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # kombu's own tables
def test_another_kind_of_broker_is_asked_for_our_queue(settings, tmp_path):
    url = f"sqla+sqlite:///{tmp_path / 'broker.db'}"
    ours = settings.model_copy(update={"broker_url": url})
    assert verdicts(check_queues(ours)) == ["warn"]

    with Connection(url) as connection:
        queue = connection.SimpleQueue(queue_of(ours, ours.queue).name)
        queue.put("a message")
        queue.close()

    verdict, text = only(check_queues(ours))
    assert verdict == "fail"
    assert "1 message " in text


@pytest.mark.parity
@pytest.mark.parametrize("name", ["redis_url", "broker_url"])
def test_a_broker_that_is_away_hides_nothing_of_what_sql_knows(settings, runner, name):
    accept(runner)

    findings = list(check_queues(settings.model_copy(update={name: "redis://127.0.0.1:1/0"})))

    assert [verdict for verdict, _ in findings] == ["warn", "fail"]
    assert "does not answer" in findings[0][1]


def test_a_database_without_a_schema_is_another_looks_business(settings, tmp_path):
    assert list(check_queues(settings.model_copy(update={"database_url": f"sqlite:///{tmp_path / 'none.db'}"}))) == []


@pytest.mark.parity
def test_a_queue_whose_broker_is_away_is_not_called_well(settings, alive):
    alive()

    findings = list(check_queues(settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})))

    assert [verdict for verdict, _ in findings] == ["warn"]
    assert "could not be counted" in findings[0][1]


def test_a_database_that_cannot_be_used_is_said_to_be_in_the_way(settings):
    away = settings.model_copy(update={"database_url": "postgresql://127.0.0.1:1/none"})

    text = "could not be checked, because the database above cannot be used"
    assert only(check_queues(away)) == ("warn", text)
