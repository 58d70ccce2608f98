"""The inline route: the process that accepted a run handles its message on its own loop."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest

from bus import routes
from bus.loop import ProcessLoop
from bus.messages import RunAgentMessage
from bus.routes import InlineTransport
from handlers import run_agent

MESSAGE = RunAgentMessage(run_id="run_1", agent_id="assistant", thread_id="thr_1")


@pytest.fixture
def inline(loop: ProcessLoop, monkeypatch: pytest.MonkeyPatch) -> InlineTransport:
    monkeypatch.setattr(routes, "HANDLERS", "stand_in_handlers")
    return InlineTransport(loop)


def handled_by(monkeypatch: pytest.MonkeyPatch, handle: object) -> None:
    monkeypatch.setitem(sys.modules, "stand_in_handlers", SimpleNamespace(handle=handle))


def test_the_inline_transport_handles_a_message_on_this_process_loop(inline, loop, monkeypatch):
    handled: list[tuple[str, int]] = []

    async def note(message: RunAgentMessage) -> None:
        handled.append((message.run_id, threading.get_ident()))

    handled_by(monkeypatch, note)

    inline.send(MESSAGE)
    inline.settle(10)

    assert handled == [("run_1", loop._thread.ident)]


def test_settling_raises_what_a_handler_raised(inline, monkeypatch):
    async def fail(message: RunAgentMessage) -> None:
        raise ValueError(message.run_id)

    handled_by(monkeypatch, fail)
    blocked = threading.Event()
    inline._loop.call_soon(lambda: blocked.wait(10))

    inline.send(MESSAGE)
    going = list(inline._going)
    blocked.set()

    with pytest.raises(ValueError, match="run_1"):
        going[0].result(10)


def test_the_bus_finds_the_handler_of_messages_by_name():
    assert run_agent.__name__ == routes.HANDLERS
    assert callable(run_agent.handle)
