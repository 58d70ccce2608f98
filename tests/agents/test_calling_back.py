"""Observers that use what they observe: a run they watch can be stopped, followed and asked by them, and none hangs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from agents.handle import RunHandle
from agents.testing import AgentKit, Turn
from bus.payloads import EndPayload, Payload
from observers.base import AgentFacts, AgentObserver, RunFacts

LONG = Turn(text=["never ", "whole"], stall_after=1)


class CallsBack(AgentObserver):
    """Does something with its own run at the first piece of text, and keeps what came of it."""

    name = "calls_back"

    def __init__(self, kit: AgentKit, deed: str) -> None:
        self._kit = kit
        self._deed = deed
        self.done = threading.Event()
        self.outcome: Any = None

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        if payload.type != "response" or self.done.is_set():
            return
        handle = self._kit.runner.handle(context.run_id)
        try:
            self.outcome = getattr(self, self._deed)(handle)
        except Exception as error:
            self.outcome = error
            raise
        finally:
            self.done.set()

    def stop(self, handle: RunHandle) -> str:
        handle.cancel(by="observer")
        return handle.status()

    def wait_for_its_end(self, handle: RunHandle) -> str:
        return handle.result(30).status

    def start_another(self, _: RunHandle) -> str:
        return self._kit.run("Another").result(30).status


class CallsBackInline(CallsBack):
    inline = True


def watched(kit: AgentKit, observer: CallsBack, turn: Turn) -> EndPayload:
    kit.model.script(turn)
    end = kit.run(observers=[observer]).result(30)
    assert observer.done.wait(30)
    return end


@pytest.mark.parametrize("kind", [CallsBack, CallsBackInline])
def test_one_may_stop_its_run(kit: AgentKit, kind: type[CallsBack]) -> None:
    end = watched(kit, kind(kit, "stop"), LONG)

    assert end.status == "cancelled"


@pytest.mark.parametrize("deed", ["wait_for_its_end", "start_another"])
def test_one_behind_a_queue_may_wait(kit: AgentKit, deed: str) -> None:
    observer = CallsBack(kit, deed)

    end = watched(kit, observer, Turn(text="Hello you."))

    assert (end.status, observer.outcome) == ("succeeded", "succeeded")


@pytest.mark.parametrize("deed", ["wait_for_its_end", "start_another"])
def test_a_caller_on_the_loop_gets_an_error_that_it_cannot_wait_there(kit: AgentKit, deed: str) -> None:
    observer = CallsBackInline(kit, deed)

    end = watched(kit, observer, Turn(text="Hello you."))

    assert end.status == "succeeded"
    assert "loop" in str(observer.outcome)
