"""Whatever lies on the queue, a worker sees a command of ours with nothing around it, or nothing at all."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from kombu.transport.virtual import Channel, Message
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads

from bus.broker.consumer import sanitize
from bus.broker.envelope import MAX_BYTES, RedisProducer, plain_redis, rewrite_item
from bus.celery_app import CeleryProducer, Publisher, app
from bus.messages.message import MessageInvalid
from bus.messages.registry import messages
from bus.messages.run_agent import RunAgentMessage
from config.settings import Settings
from tests.backends import RedisServer
from tests.bus import garbage


class BareChannel(Channel):  # type: ignore[misc]  # kombu has no types
    """What a message needs of its channel to read its body."""

    def __init__(self) -> None:
        pass


def message_of(item: bytes) -> Message:
    """Return the message kombu makes of an item."""
    return Message(loads(bytes_to_str(item)), channel=BareChannel())


def test_what_our_publisher_sends_comes_through():
    message = message_of(rewrite_item(garbage.item(), "runs"))

    sanitize(message)

    assert orjson.loads(message.body) == [[garbage.WIRE], {}, {}]
    assert message.headers["id"] == "1"
    assert message.payload == [[garbage.WIRE], {}, {}], "Celery reads it too"


@pytest.mark.parametrize("name", garbage.unreadable())
def test_what_is_no_message_is_refused_before_kombu_looks(name: str):
    with pytest.raises(MessageInvalid):
        rewrite_item(garbage.unreadable()[name], "runs")


@pytest.mark.parametrize("name", garbage.not_ours())
def test_what_is_no_command_of_ours_is_refused_before_celery_looks(name: str):
    message = message_of(rewrite_item(garbage.not_ours()[name], "runs"))

    with pytest.raises(MessageInvalid):
        sanitize(message)


def test_nothing_is_unpickled(tmp_path: Path):
    for name, item in garbage.traps(tmp_path / "sprung").items():
        with pytest.raises(MessageInvalid):
            sanitize(message_of(rewrite_item(item, "runs")))
        assert not (tmp_path / "sprung").exists(), name


@pytest.mark.parametrize("name", garbage.asking_for_more())
def test_nothing_is_obeyed_that_we_do_not_send(name: str):
    message = message_of(rewrite_item(garbage.asking_for_more()[name], "runs"))

    sanitize(message)

    assert set(message.headers) == {"lang", "task", "id", "root_id", "retries", "ignore_result"}
    assert orjson.loads(message.body) == [[garbage.WIRE], {}, {}]
    assert (message.content_type, message.content_encoding) == ("application/json", "utf-8")


ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACE = {"traceparent": f"00-{ID}-00f067aa0ba902b7-01", "x-correlation-id": "order 4711"}


def with_headers(**headers: Any) -> bytes:
    envelope = garbage.envelope()
    envelope["headers"] |= headers
    return orjson.dumps(envelope)


def test_valid_headers_of_a_trace_come_through():
    message = message_of(rewrite_item(with_headers(**TRACE), "runs"))

    sanitize(message)

    assert message.headers.items() >= TRACE.items()


FORGED_TRACES: tuple[object, ...] = ("", 5, None, ["a"], {"a": "b"}, ID, "00-" + "f" * 50_000, "a\0b" * 50)


@pytest.mark.parametrize("name", TRACE)
@pytest.mark.parametrize("forged", FORGED_TRACES, ids=lambda forged: ascii(forged)[:12])
def test_a_forged_header_of_a_trace_is_left_out_and_the_message_is_taken(name: str, forged: object):
    is_a_text = name == "x-correlation-id" and forged == ID
    message = message_of(rewrite_item(with_headers(**TRACE | {name: forged}), "runs"))

    sanitize(message)

    assert (name in message.headers) == is_a_text
    assert orjson.loads(message.body) == [[garbage.WIRE], {}, {}]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("__type__"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("__type__"), inner, max_size=3),
    max_leaves=8,
)
FIELDS = """
    body content_type content_encoding headers headers__id headers__task headers__compression properties
    properties__delivery_tag properties__body_encoding properties__delivery_info
""".split()


@given(field=st.sampled_from(FIELDS), value=JSON)
def test_what_passes_never_makes_kombu_raise(field: str, value: Any):
    try:
        item = rewrite_item(garbage.item(**{field: value}), "runs")
    except MessageInvalid:
        return

    message = message_of(item)

    hash(message.delivery_tag)
    assert not message.errors


@given(item=st.binary(max_size=200) | JSON.map(lambda value: repr(value).encode()))
def test_bytes_of_any_kind_are_refused_with_one_error(item: bytes):
    with pytest.raises(MessageInvalid):
        rewrite_item(item, "runs")


@pytest.mark.parity
def test_an_item_is_not_read_at_all_when_it_is_too_long():
    for item in (garbage.item() + b" " * MAX_BYTES, *garbage.huge().values()):
        with pytest.raises(MessageInvalid, match="bytes"):
            rewrite_item(item, "runs")


@pytest.mark.parity  # the application reads its configuration, and so looks for the Redis of an `up`
def test_every_task_of_ours_is_a_command_a_message_may_name():
    app.loader.import_default_modules()

    assert {name for name in app.tasks if not name.startswith("celery.")} == set(messages())


MESSAGE = RunAgentMessage(run_id="run_1", agent_id="assistant", thread_id="thr_1", detached=True, queue="gpu")
UNIQUE = {"id", "root_id", "correlation_id", "delivery_tag", "reply_to"}
"""Fields with an id of the one message."""


def without_ids(item: bytes | str) -> Any:
    """Return an item of the queue with its body decoded, and without the values of its ids."""
    message = orjson.loads(item)
    for part in ("headers", "properties"):
        message[part] = {name: "an id" if name in UNIQUE else value for name, value in message[part].items()}
    return message | {"body": orjson.loads(base64.b64decode(message["body"]))}


def test_an_item_is_the_one_that_celery_publishes(redis_settings: Settings, redis_client: redis.Redis):
    prefix = f"callboard:{redis_settings.deployment}:"
    direct = RedisProducer(str(redis_settings.redis_url), prefix)
    through_celery = CeleryProducer(redis_settings)

    direct.publish(MESSAGE, "gpu")
    through_celery.publish(MESSAGE, "gpu")
    direct.close()
    through_celery.close()

    ours, theirs = redis_client.lrange(f"{prefix}gpu", 0, -1)
    assert without_ids(ours) == without_ids(theirs)


@pytest.mark.parametrize(
    ("broker", "url"),
    [
        ("redis://h:6379/1", "redis://h:6379/1"),
        ("rediss://u:p@h/0", "rediss://u:p@h/0"),
        ("unix:///run/r.sock?db=2", "unix:///run/r.sock?db=2"),
        ("redis+socket:///run/r.sock?virtual_host=2", "unix:///run/r.sock?db=2"),
        ("rediss://h/0?ssl_cert_reqs=CERT_REQUIRED", None),
        ("redis://a/0;redis://b/0", None),
        ("sentinel://h:26379", None),
        ("amqp://rabbit", None),
    ],
)
def test_a_broker_with_options_or_of_another_kind_is_left_to_celery(broker: str, url: str | None):
    assert plain_redis(broker) == url


def test_a_connection_that_redis_closed_costs_no_wake_up(own_redis: RedisServer, settings: Settings):
    publish = Publisher(settings.model_copy(update={"redis_url": own_redis.url}))
    with redis.Redis.from_url(own_redis.url) as client:
        publish(MESSAGE)
        client.client_kill_filter(_type="normal", skipme=True)

        publish(MESSAGE)
        publish.close()

        assert client.llen(f"callboard:{settings.deployment}:gpu") == 2
