"""A run to tell observers about, and the events of a small one."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from bus.payloads import EndPayload, MessagePayload, Payload, ResponsePayload, StatusPayload
from observers import discovery, invoker
from observers.base import AgentFacts, AgentObserver, RunFacts
from observers.invoker import ObserverInvoker

AGENT = AgentFacts(id="assistant", name="Assistant", model="demo/assistant")
AT = "2026-11-20T12:00:00.123Z"
_numbers = itertools.count(1)


class Room:
    """One run with its invoker; ``tell`` numbers payloads as the run's writer does."""

    def __init__(self, *observers: AgentObserver, **options) -> None:
        self.context = RunFacts(run_id=f"run_{next(_numbers):026d}", thread_id="thr_1")
        self.invoker = ObserverInvoker(observers, **options)
        self.seq = 0

    def tell(self, kind: type[Payload], **fields) -> Payload:
        self.seq += 1
        payload = kind(seq=self.seq, at=fields.pop("at", AT), **fields)
        self.invoker.agent_on_response(self.context, AGENT, payload)
        return payload

    def whole_run(self, pieces: int = 3) -> None:
        self.tell(StatusPayload, status="running")
        for number in range(pieces):
            self.tell(ResponsePayload, content=f"piece {number} ", message_id="msg_1")
        self.tell(MessagePayload, role="assistant", content="all pieces", message_id="msg_1")
        self.tell(EndPayload, status="succeeded")


class Witness(AgentObserver):
    """Remembers what it received, and sets ``ended`` at the end of a run."""

    name = "witness"
    linger_s = 0.0

    def __init__(self, *, inline: bool = False) -> None:
        vars(self)["inline"] = inline
        self.seen: list[Payload] = []
        self.threads: set[int] = set()
        self.ended = threading.Event()

    def on_response(self, agent, payload, context) -> None:
        self.threads.add(threading.get_ident())
        self.seen.append(payload)
        if isinstance(payload, EndPayload):
            self.ended.set()

    @property
    def numbers(self) -> list[int]:
        return [payload.seq for payload in self.seen]


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture(autouse=True)
def _as_in_a_new_process() -> Iterator[None]:
    """A test neither meets what tests before it found (also those of other folders), nor leaves anything."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    invoker.forget()
    discovery.forget()
