"""One seam, two routes: handled here and now, or by whoever hears the wake-up."""

from __future__ import annotations

import threading

import pytest

from bus import routes
from bus.dispatcher import Dispatcher
from bus.loop import ProcessLoop
from bus.messages import RunAgentMessage
from bus.routes import AsynchronousRoute, SynchronousRoute, find_handler

MESSAGE = RunAgentMessage(run_id="run_1", agent_id="assistant", thread_id="thr_1")
handled: list[tuple[str, int]] = []


async def note(message: RunAgentMessage) -> None:
    handled.append((message.run_id, threading.get_ident()))


async def fail(message: RunAgentMessage) -> None:
    raise ValueError(message.run_id)


class Told:
    def __init__(self) -> None:
        self.run_ids: list[str] = []
        self.messages: list[RunAgentMessage | None] = []

    def tell(self, run_id: str, message: RunAgentMessage | None = None) -> None:
        self.run_ids.append(run_id)
        self.messages.append(message)


@pytest.fixture
def relay() -> Told:
    return Told()


@pytest.fixture
def here(loop: ProcessLoop, monkeypatch: pytest.MonkeyPatch) -> SynchronousRoute:
    handled.clear()
    monkeypatch.setitem(routes.HANDLERS, RunAgentMessage.name, f"{__name__}:note")
    return SynchronousRoute(loop)


def test_here_means_on_this_process_loop(here, relay, loop):
    Dispatcher(here, AsynchronousRoute(relay)).dispatch(MESSAGE, here=True)
    here.settle(10)

    assert handled == [("run_1", loop._thread.ident)]
    assert relay.run_ids == []


def test_elsewhere_means_that_the_relay_tells_it(here, relay):
    Dispatcher(here, AsynchronousRoute(relay)).dispatch(MESSAGE, here=False)
    here.settle(10)

    assert handled == []
    assert (relay.run_ids, relay.messages) == (["run_1"], [MESSAGE])


def test_settling_raises_what_a_handler_raised(here, monkeypatch):
    monkeypatch.setitem(routes.HANDLERS, RunAgentMessage.name, f"{__name__}:fail")
    blocked = threading.Event()
    here._loop.call_soon(lambda: blocked.wait(10))

    here.send(MESSAGE)
    going = list(here._going)
    blocked.set()

    with pytest.raises(ValueError, match="run_1"):
        going[0].result(10)


def test_each_message_has_one_handler_which_the_bus_finds_by_name():
    assert set(routes.HANDLERS) == {"callboard.run_agent"}
    assert find_handler(RunAgentMessage.name).__name__ == "handle"
