"""Sending tasks: what arrives in the queue, and what is said where nothing does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from celery.app.task import Context

from bus.celery_tasks.sender import Routing, TaskSender
from config.clock import epoch_ms
from config.errors import ToolFailed
from config.tracing import trace_id_of, traced
from tests.on_loop import on_loop
from tests.ports import free_port
from tests.scripted_shop import ScriptedShop


@pytest.fixture
def shop(redis_url: str, deployment: str) -> Iterator[ScriptedShop]:
    scripted_shop = ScriptedShop(redis_url, deployment)
    yield scripted_shop
    scripted_shop.close()


@on_loop
async def test_the_message_has_the_key_as_id_the_arguments_and_the_end_of_its_time(shop: ScriptedShop) -> None:
    sender, expires_ms = TaskSender(shop.url, ""), epoch_ms() + 60_000

    await sender.send(Routing(task="shop.refund", queue=shop.queue), "key_1", {"number": "A-1"}, expires_ms)
    sender.close()

    sent = shop.take()
    assert (sent.id, sent.name, sent.arguments) == ("key_1", "shop.refund", {"number": "A-1"})
    assert sent.headers["ignore_result"] is False
    assert datetime.fromisoformat(sent.headers["expires"]) == datetime.fromtimestamp(expires_ms / 1000, UTC)


@on_loop
async def test_the_task_gets_the_trace_context_and_the_correlation_id_in_its_headers(shop: ScriptedShop) -> None:
    sender, expires_ms = TaskSender(shop.url, ""), epoch_ms() + 60_000
    routing, trace_id = Routing(task="shop.refund", queue=shop.queue), "4bf92f3577b34da6a3ce929d0e0e4736"

    with traced(trace_id, "order 4711"):
        await sender.send(routing, "key_1", {}, expires_ms)
    with traced(trace_id):
        await sender.send(routing, "key_2", {}, expires_ms)
    await sender.send(routing, "key_3", {}, expires_ms)
    sender.close()

    first, second, third = (Context(shop.take().headers).headers or {} for _ in range(3))  # as the task sees them
    assert (trace_id_of(first["traceparent"]), first["x-correlation-id"]) == (trace_id, "order 4711")
    assert (trace_id_of(second["traceparent"]), second["x-correlation-id"]) == (trace_id, trace_id)
    assert not third.keys() & {"traceparent", "x-correlation-id"}


@on_loop
async def test_a_key_prefix_of_the_broker_is_used(shop: ScriptedShop) -> None:
    sender = TaskSender(shop.url, "shop:")

    await sender.send(Routing(task="shop.refund", queue=shop.queue), "key_1", {}, epoch_ms() + 60_000)
    sender.close()

    assert shop.waiting() == 0
    assert shop.redis.llen(f"shop:{shop.queue}") == 1


@on_loop
async def test_a_revoke_reaches_every_worker(shop: ScriptedShop) -> None:
    sender, workers = TaskSender(shop.url, ""), shop.listen()

    await sender.revoke("key_1", terminate=True)
    sender.close()

    revocation = shop.revoked(workers)
    workers.close()
    assert (revocation["task_id"], revocation["terminate"]) == ("key_1", True)


@pytest.mark.parity
@pytest.mark.parametrize("scheme", ["redis", "amqp"])
@on_loop
async def test_without_a_broker_nothing_is_sent_and_that_is_said(scheme: str) -> None:
    sender = TaskSender(f"{scheme}://127.0.0.1:{free_port()}//", "")
    began_s = time.monotonic()

    with pytest.raises(ToolFailed, match=r"shop\.refund was not sent: its broker does not answer"):
        await sender.send(Routing(task="shop.refund", queue="shop"), "key_1", {}, epoch_ms() + 60_000)
    sender.close()

    assert time.monotonic() - began_s < 6


@pytest.mark.parity
@pytest.mark.parametrize("broker", ["nosuch://host", "sqs://", "kafka://x", "redis+socket:///nowhere"])
@on_loop
async def test_a_broker_that_is_none_is_an_error_of_the_call(broker: str) -> None:
    sender = TaskSender(broker, "")

    with pytest.raises(ToolFailed, match="was not sent"):
        await sender.send(Routing(task="shop.refund", queue="shop"), "key_1", {}, epoch_ms() + 60_000)
    sender.close()


@on_loop
async def test_a_connection_that_the_broker_closed_is_opened_again(shop: ScriptedShop, tmp_path: Path) -> None:
    sender, routing = TaskSender(shop.url, ""), Routing(task="shop.refund", queue=shop.queue)
    await sender.send(routing, "key_1", {}, epoch_ms() + 60_000)
    sender._used_s -= 60  # a minute ago

    await sender.send(routing, "key_2", {}, epoch_ms() + 60_000)
    sender.close()

    assert [shop.take().id, shop.take().id] == ["key_1", "key_2"]
