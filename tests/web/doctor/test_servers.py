import pytest
import redis

from tests.backends import RedisServer
from tests.web.doctor.conftest import only, verdicts
from web.doctor.servers import check_addresses, check_broker, check_redis

OPEN = "requires no password"
PLAIN = "plain text"


@pytest.fixture
def own_redis(tmp_path):
    with RedisServer(tmp_path / "own_redis") as server:
        yield server


def test_a_redis_that_evicts_is_refused_and_one_that_does_not_passes(settings, own_redis):
    ours = settings.model_copy(update={"redis_url": own_redis.url})
    assert verdicts(check_redis(ours)) == ["ok"]

    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")

    by_verdict = dict(check_redis(ours))
    assert "config set maxmemory-policy noeviction" in by_verdict["fail"]
    assert "ok" not in by_verdict


def test_a_redis_that_forgets_at_its_restart_is_a_warning(settings, own_redis):
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("appendonly", "no")

    by_verdict = dict(check_redis(settings.model_copy(update={"redis_url": own_redis.url})))

    assert set(by_verdict) == {"ok", "warn"}
    assert "appendonly yes" in by_verdict["warn"]


def test_a_redis_as_the_broker_may_not_evict_either(settings, own_redis):
    spelt_as_kombu_does = own_redis.url.replace("unix://", "redis+socket://").replace("db=", "virtual_host=")
    for url in (own_redis.url, spelt_as_kombu_does):
        ours = settings.model_copy(update={"broker_url": url})
        assert only(check_broker(ours)) == ("ok", "answers")

    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("maxmemory-policy", "volatile-ttl")

    assert only(check_broker(ours))[0] == "fail"


@pytest.mark.parametrize(
    "url",
    """
    redis://127.0.0.1:6379/0 redis://localhost/0 redis://[::1]:6379/0 redis://127.8.9.1 redis://
    unix:///run/redis.sock?db=0 redis+socket:///run/redis.sock rediss://cache.example.org/0
    rediss://:pw@10.0.0.5/0?ssl_cert_reqs=required amqps://user:pw@rabbit// amqp://user:pw@localhost//
    amqp://user:pw@rabbit//?ssl=true memory://localhost/
    """.split(),
)
def test_servers_that_are_local_or_encrypted_are_fine(settings, url):
    for name in ("redis_url", "broker_url"):
        assert verdicts(check_addresses(settings.model_copy(update={name: url}))) == ["ok"]


@pytest.mark.parametrize(
    ("url", "verdict", "words"),
    [
        ("redis://10.0.0.5:6379/0", "fail", OPEN),
        ("redis://redis/0", "fail", OPEN),
        ("redis://user@cache.example.org", "fail", OPEN),
        ("redis://[2001:db8::1]:6379", "fail", OPEN),
        ("redis://localhost.example.org", "fail", OPEN),
        ("redis://:hunter2hunter2@10.0.0.5", "fail", PLAIN),
        ("redis://10.0.0.5/0?password=hunter2hunter2", "fail", PLAIN),
        ("amqp://user:hunter2hunter2@rabbit//", "fail", "amqps://"),
        ("amqp://guest:guest@rabbit//", "fail", OPEN),
        ("pyamqp://rabbit//", "fail", OPEN),
        ("sentinel://:hunter2hunter2@localhost;sentinel://:hunter2hunter2@10.0.0.6", "fail", PLAIN),
        ("rediss://:hunter2hunter2@10.0.0.5?ssl_cert_reqs=none", "warn", "certificate"),
    ],
)
def test_a_server_others_could_use_or_listen_to_is_reported_without_the_password(settings, url, verdict, words):
    outcome, text = only(check_addresses(settings.model_copy(update={"broker_url": url})))

    assert outcome == verdict
    assert text.startswith("CALLBOARD_BROKER_URL is ")
    assert words in text
    assert "hunter2" not in text


def test_redis_and_broker_are_both_looked_at(settings):
    both = settings.model_copy(update={"redis_url": "redis://10.0.0.5", "broker_url": "amqp://a:b@10.0.0.6"})

    assert verdicts(check_addresses(both)) == ["fail", "fail"]


@pytest.mark.parametrize("url", ["redis://redis:6379/0", "redis://:hunter2hunter2@redis:6379/0"])
def test_plain_text_on_a_private_network_is_a_warning(settings, url):
    trusted = settings.model_copy(update={"redis_url": url, "trusted_network": True})

    verdict, text = only(check_addresses(trusted))

    assert verdict == "warn"
    assert "hunter2" not in text


@pytest.mark.parity
def test_a_broker_that_is_the_redis_above_is_not_called_well_when_that_does_not_answer(settings):
    away = settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})

    assert list(check_broker(away)) == [("warn", "could not be checked: it is the Redis above, which does not answer")]


@pytest.mark.parity
@pytest.mark.parametrize(
    ("program", "verdict"),
    [
        ("/usr/bin/redis-server", ("ok", "is the Redis that `up` starts")),
        (None, ("warn", "none; no wake-up is published, and workers poll the database")),
    ],
)
def test_without_a_redis_the_broker_is_not_called_one_above(settings, monkeypatch, program, verdict):
    monkeypatch.setattr("web.doctor.servers.program_of", lambda choice: program)

    assert list(check_broker(settings)) == [verdict]


@pytest.mark.parity
def test_a_broker_that_is_the_redis_above_is_said_so(settings, redis_url):
    assert list(check_broker(settings.model_copy(update={"redis_url": redis_url}))) == [("ok", "is the Redis above")]


@pytest.mark.parametrize(
    ("max_mib", "budget_mib", "is_warned"), [(0, 0, False), (64, 0, True), (64, 128, True), (64, 16, False)]
)
def test_live_events_that_could_fill_the_brokers_redis_are_a_warning(
    settings, own_redis, max_mib, budget_mib, is_warned
):
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("maxmemory", max_mib * 1024**2)
    shared = settings.model_copy(update={"redis_url": own_redis.url, "tenant_hot_log_max_bytes": budget_mib * 1024**2})

    for ours in (shared, shared.model_copy(update={"broker_url": own_redis.url})):
        assert verdicts(check_broker(ours)) == ["ok", "warn"][: 1 + is_warned]


def test_a_broker_of_its_own_is_not_filled_by_live_events(settings, own_redis, redis_url):
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("maxmemory", 64 * 1024**2)

    ours = settings.model_copy(update={"redis_url": redis_url, "broker_url": own_redis.url})

    assert verdicts(check_broker(ours)) == ["ok"]
