from __future__ import annotations

from pathlib import Path

import pytest

from config.errors import SettingInvalid
from config.redis.errors import RedisRefused, RedisUnreachable
from config.redis.server import ask, require_broker, require_usable
from config.redis.url import broker_form, redis_form, socket_url, without_password


def test_a_server_as_up_starts_it_is_usable(redis_url):
    facts = require_usable(redis_url)

    assert facts.policy == "noeviction"
    assert facts.persists


@pytest.mark.parity
def test_a_server_that_evicts_is_refused_with_the_command_that_mends_it(tmp_path):
    import redis

    from tests.backends import RedisServer

    with RedisServer(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")

        with pytest.raises(RedisRefused, match="config set maxmemory-policy noeviction"):
            require_usable(server.url)


@pytest.mark.parity
def test_an_unreachable_server_is_one_sentence_without_the_password(tmp_path):
    with pytest.raises(RedisUnreachable, match=r"does not answer .* CALLBOARD_REDIS_URL") as caught:
        ask("redis://:hunter2hunter2@127.0.0.1:1/0")

    assert "hunter2" not in str(caught.value)
    with pytest.raises(RedisUnreachable):
        ask(socket_url(tmp_path / "none.sock"))


def test_what_is_no_redis_url_says_what_one_looks_like():
    with pytest.raises(SettingInvalid, match="use redis://host"):
        ask("http://localhost:6379")


def test_a_broker_that_does_not_answer_names_its_setting():
    with pytest.raises(RedisUnreachable, match="CALLBOARD_BROKER_URL"):
        require_broker("amqp://guest:guest@127.0.0.1:1//")


def test_a_socket_is_spelt_as_redis_py_reads_it():
    url = socket_url(Path("/run/call board/redis.sock"), db=3)

    assert url == "unix:///run/call%20board/redis.sock?db=3"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("unix:///run/bus.sock?db=0", "redis+socket:///run/bus.sock?virtual_host=0"),
        ("unix:///run/bus.sock", "redis+socket:///run/bus.sock?virtual_host=0"),
        ("redis://:pw@host:6379/2", "redis://:pw@host:6379/2"),
        ("rediss://host/0", "rediss://host/0"),
        ("amqp://guest@host//", "amqp://guest@host//"),
    ],
)
def test_the_broker_form_changes_only_sockets(url, expected):
    assert broker_form(url) == expected


def test_both_clients_reach_the_same_database(redis_url):
    import redis
    from kombu import Connection

    client = redis.Redis.from_url(redis_url)
    with client, Connection(broker_form(redis_url)) as connection:
        queue = connection.SimpleQueue("spelt")
        queue.put({"a": 1})
        waiting = client.llen("spelt")
        queue.clear()
        queue.close()

    assert waiting == 1


def test_a_password_is_not_shown():
    assert without_password("redis://:hunter2hunter2@host:6379/0") == "redis://:***@host:6379/0"
    assert without_password("redis://user:pw@host") == "redis://user:***@host"
    assert without_password("redis://host:6379/0") == "redis://host:6379/0"
    assert without_password("redis://host/0?password=hunter2&db=3") == "redis://host/0?password=***&db=3"
    assert without_password("sentinel://:pw1@a/0;sentinel://u:pw2@b") == "sentinel://:***@a/0;sentinel://u:***@b"


@pytest.mark.parametrize("url", ["unix:///run/bus.sock?db=2", "unix://:pw@/run/bus.sock?db=0"])
def test_a_socket_in_the_brokers_spelling_is_read_back(url):
    assert redis_form(broker_form(url)) == redis_form(url) == url


def test_what_is_no_single_redis_has_no_redis_form():
    assert redis_form("rediss://:pw@host/1") == "rediss://:pw@host/1"
    assert redis_form("amqp://guest@host//") is None
    assert redis_form("redis://a;redis://b") is None
