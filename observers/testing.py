"""A contract that an observer of your own is held to: a plugin of pytest, and the tests that it adds.

    python -m pytest -p observers.testing --observer my_package.ledger:Ledger

plays what an observer meets in production: runs in any order beside each other, events that come again, a process that
begins in the middle of a run, types of events of a newer release, and whatever it writes to refusing connections or
taking long. It needs no server and no database; ``on_commit`` is not called.
"""

from __future__ import annotations

import random
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from bus.payloads import EVENT_TYPES, EndPayload, Payload, UnknownPayload
from config.clock import stamp
from config.errors import CallboardError
from config.ids import new_id
from config.settings import read_settings
from observers.base import AgentFacts, AgentObserver, RunFacts
from observers.discovery import OBSERVERS

AGENT = AgentFacts(id="assistant", name="Assistant", model="demo/assistant")
RUNS, LONG_LIVED = 20, 500
MOST_KEPT = 100
"""Values that an instance may hold more after hundreds of ended runs than after a few."""
CALL_S = 10.0
"""Seconds that a call may take here, where nothing is slower than a second."""
_VALUES: dict[str, Any] = {"content": "a text", "status": "running", "role": "assistant", "outcome": "done"}
_chosen: list[str] = []


def pytest_addoption(parser: Any) -> None:
    """Add the option that names the observer."""
    parser.addoption("--observer", help="Hold this observer, package.module:Class or a name, to its contract.")


def pytest_configure(config: Any) -> None:
    """Collect the contract's tests where an observer is named."""
    name = config.getoption("--observer")
    if name:
        _chosen[:] = [name]
        try:
            new_observer()
        except CallboardError as error:
            raise sys.modules["pytest"].UsageError(str(error)) from error  # a worker has no pytest to import
        config.args[:] = [__file__]


def new_observer() -> AgentObserver:
    """Return a new instance of the observer that the command line names."""
    settings = read_settings()
    return OBSERVERS.find(_chosen[0], settings).from_settings(settings)


def whole_run() -> tuple[RunFacts, list[Payload]]:
    """Return a run and an event of each type, numbered, the end last."""
    kinds = [kind for kind in EVENT_TYPES.values() if kind is not EndPayload]
    payloads = [_event(kind, number) for number, kind in enumerate([*kinds, EndPayload], 1)]
    return RunFacts(run_id=new_id("run"), thread_id="thr_1", trace_id="ab" * 16), payloads


def _event(kind: type[Payload], seq: int) -> Payload:
    values = {name: _VALUES.get(name, _blank(kind, name)) for name in (*kind.required, *kind.if_absent)}
    if kind is EndPayload:
        values["status"] = "succeeded"
    return kind(seq=seq, at=stamp(), **values)


def _blank(kind: type[Payload], name: str) -> Any:
    return [[1, 2]] if name == "ranges" else f"{kind.type}_{name}"


def deliver(observer: AgentObserver, run: RunFacts, payloads: Sequence[Payload]) -> None:
    """Deliver events of a run, and flush, as a batch is delivered; within ``CALL_S``."""
    failures: list[BaseException] = []

    def call() -> None:
        try:
            for payload in payloads:
                observer.on_response(AGENT, payload, run)
            observer.flush()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(CALL_S)
    assert not thread.is_alive(), f"a call took over {CALL_S:g} s; give what it waits for a timeout of its own"
    if failures:
        raise failures[0]


def test_it_takes_a_whole_run() -> None:
    deliver(new_observer(), *whole_run())


def test_it_takes_the_events_of_runs_beside_each_other() -> None:
    observer, order = new_observer(), random.Random(1)
    waiting = [(run, list(payloads)) for run, payloads in (whole_run() for _ in range(RUNS))]
    while waiting:
        run, payloads = order.choice(waiting)
        deliver(observer, run, [payloads.pop(0)])
        waiting = [(each, rest) for each, rest in waiting if rest]


def test_it_takes_events_that_come_again() -> None:
    """The last batch before a kill, or before a flush that failed, is delivered once more."""
    observer, (run, payloads) = new_observer(), whole_run()
    deliver(observer, run, payloads)
    deliver(observer, run, payloads)
    deliver(observer, run, payloads[-3:])


def test_a_new_process_takes_a_run_from_its_middle() -> None:
    run, payloads = whole_run()
    deliver(new_observer(), run, payloads[:5])
    deliver(new_observer(), run, payloads[5:])


def test_it_takes_an_end_alone() -> None:
    """A run that died has few events, and a partition moves to another process at any place."""
    run, payloads = whole_run()
    deliver(new_observer(), run, payloads[-1:])


def test_it_takes_types_and_fields_of_a_newer_release() -> None:
    observer, (run, payloads) = new_observer(), whole_run()
    unknown = UnknownPayload(seq=1, at=stamp(), unknown_type="hologram", extra={"depth": 3})
    deliver(observer, run, [unknown, *payloads])


def test_it_forgets_runs_that_ended() -> None:
    observer = new_observer()
    for _ in range(RUNS):
        deliver(observer, *whole_run())
    kept = _held(observer)
    for _ in range(LONG_LIVED):
        deliver(observer, *whole_run())

    growth = _held(observer) - kept
    assert growth <= MOST_KEPT, f"it holds {growth} values more after {LONG_LIVED} runs; delete a run's in on_end"


def _held(observer: AgentObserver) -> int:
    return sum(len(value) for value in vars(observer).values() if isinstance(value, dict | list | set))


def test_it_survives_a_sink_that_refuses() -> None:
    """It may raise, and is given the same events again, or take them without."""
    _with_broken_sink(ConnectionRefusedError("the contract refuses connections"), 0.0)


def test_it_survives_a_sink_that_is_slow() -> None:
    _with_broken_sink(TimeoutError("the contract's connections time out"), 0.5)


def _with_broken_sink(error: OSError, delay_s: float) -> None:
    observer, (run, payloads) = new_observer(), whole_run()
    with _broken_connections(error, delay_s), suppress(Exception):  # the tailer delivers again what it raised for
        deliver(observer, run, payloads[:3])
    for again in (observer, new_observer()):
        with suppress(OSError):  # its sink is not there where the contract is played
            deliver(again, run, payloads)


@contextmanager
def _broken_connections(error: OSError, delay_s: float) -> Iterator[None]:
    def connect(_: socket.socket, __: Any) -> None:
        time.sleep(delay_s)
        raise error

    kept = socket.socket.connect
    socket.socket.connect = connect  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        socket.socket.connect = kept  # type: ignore[method-assign]
