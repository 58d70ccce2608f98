"""One route table: the queue of a run decides which transport takes its message."""

from __future__ import annotations

import asyncio
import importlib.util
import threading

import pytest

from bus.loop import ProcessLoop
from bus.messages.registry import messages
from bus.messages.run_agent import RunAgentMessage
from bus.routes import INLINE, OTHERS, BrokerTransport, Dispatcher, InlineTransport, find_handler

MESSAGE = RunAgentMessage(run_id="run_1", agent_id="assistant", thread_id="thr_1")
handled: list[tuple[str, int]] = []


async def note(message: RunAgentMessage) -> None:
    handled.append((message.run_id, threading.get_ident()))


async def never(message: RunAgentMessage) -> None:
    await asyncio.Event().wait()


async def fail(message: RunAgentMessage) -> None:
    raise ValueError(message.run_id)


class RelayRecord:
    def __init__(self) -> None:
        self.run_ids: list[str] = []
        self.messages: list[RunAgentMessage | None] = []
        self.rows: list[int | None] = []

    def publish_soon(self, run_id: str, message: RunAgentMessage | None = None, row: int | None = None) -> None:
        self.run_ids.append(run_id)
        self.messages.append(message)
        self.rows.append(row)


@pytest.fixture
def relay() -> RelayRecord:
    return RelayRecord()


@pytest.fixture
def inline(loop: ProcessLoop, monkeypatch: pytest.MonkeyPatch) -> InlineTransport:
    handled.clear()
    monkeypatch.setattr(RunAgentMessage, "inline_handler", f"{__name__}:note")
    return InlineTransport(loop, lambda _connection, _run_id: None)


def test_the_inline_transport_handles_a_message_on_this_process_loop(inline, relay, loop):
    inline.send(MESSAGE)
    inline.settle(10)

    assert handled == [("run_1", loop._thread.ident)]
    assert relay.run_ids == []


def test_the_broker_transport_has_the_relay_publish_a_message(inline, relay):
    BrokerTransport(relay).send(MESSAGE, 17)
    inline.settle(10)

    assert handled == []
    assert (relay.run_ids, relay.messages, relay.rows) == (["run_1"], [MESSAGE], [17])


def test_a_run_whose_caller_waits_is_routed_inline_where_the_process_has_that_route(inline, relay):
    broker = BrokerTransport(relay)

    program = Dispatcher({INLINE: inline, OTHERS: broker})
    web = Dispatcher({OTHERS: broker})

    assert program.route("gpu", detached=False) is inline
    assert web.route("gpu", detached=False) is broker


def test_a_detached_run_takes_the_route_of_its_queue_or_that_of_all_others(inline, relay):
    broker, other = BrokerTransport(relay), BrokerTransport(relay)
    table = Dispatcher({INLINE: inline, "gpu": other, OTHERS: broker})

    assert table.route("gpu", detached=True) is other
    assert table.route("mail", detached=True) is broker
    assert table.route(None, detached=True) is broker


def test_settling_raises_what_a_handler_raised(inline, monkeypatch):
    monkeypatch.setattr(RunAgentMessage, "inline_handler", f"{__name__}:fail")
    blocked = threading.Event()
    inline._loop.call_soon(lambda: blocked.wait(10))

    inline.send(MESSAGE)
    going = list(inline._going)
    blocked.set()

    with pytest.raises(ValueError, match="run_1"):
        going[0].result(10)


def test_settling_takes_no_longer_than_its_timeout(inline, monkeypatch):
    monkeypatch.setattr(RunAgentMessage, "inline_handler", f"{__name__}:never")
    for _ in range(3):
        inline.send(MESSAGE)

    with pytest.raises(TimeoutError):
        inline.settle(0.05)

    for future in list(inline._going):
        future.cancel()


def test_each_message_has_a_handler_which_the_bus_finds_by_name():
    assert all(importlib.util.find_spec(kind.handler) for kind in messages().values())
    assert find_handler(MESSAGE).__name__ == "handle"
