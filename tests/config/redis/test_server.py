import pytest

from config.errors import SettingInvalid
from config.redis.errors import RedisRefused, RedisUnreachable
from config.redis.server import ask, require_broker, require_usable
from config.redis.url import socket_url


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
