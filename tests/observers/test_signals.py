from __future__ import annotations

import logging
import re
import threading
from pathlib import Path

import pytest

from bus.payloads import EndPayload
from config.settings import read_settings
from observers.discovery import observers_for
from observers.invoker import drain
from observers.signals import SignalsObserver, on_end, on_event, on_text
from tests.observers.conftest import Room


def test_receivers_get_their_type_on_another_thread() -> None:
    received: list[tuple[str, str, int]] = []

    def receive(agent_id, *, payload, context, agent) -> None:
        received.append((agent_id, payload.type, threading.get_ident()))

    with on_end.connected_to(receive), on_text.connected_to(receive):
        Room(SignalsObserver()).whole_run(pieces=2)
        assert drain(10) == []

    assert [(agent_id, kind) for agent_id, kind, _ in received] == [
        ("assistant", "response"),
        ("assistant", "response"),
        ("assistant", "end"),
    ]
    assert threading.get_ident() not in {ident for *_, ident in received}


def test_a_receiver_that_raises_does_not_keep_it_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    received: list[str] = []
    receivers = [lambda agent_id, **facts: received.append(agent_id) for _ in range(3)]

    def bad(agent_id, **facts) -> None:
        raise SystemExit

    async def never_awaited(agent_id, **facts) -> None: ...

    for receiver in (bad, never_awaited, *receivers):
        on_end.connect(receiver)
    with caplog.at_level(logging.WARNING):
        Room(SignalsObserver()).whole_run()
        assert drain(10) == []
    for receiver in (bad, never_awaited, *receivers):
        on_end.disconnect(receiver)

    assert received == ["assistant"] * 3
    assert len(caplog.records) == 2


def test_a_receiver_can_follow_one_agent_only() -> None:
    received: list[str] = []

    def receive(agent_id, **facts) -> None:
        received.append(agent_id)

    on_end.connect(receive, sender="another")
    Room(SignalsObserver()).tell(EndPayload, status="succeeded")
    assert drain(10) == []
    on_end.disconnect(receive, sender="another")

    assert received == []


def test_without_a_connected_function_signals_cost_nothing() -> None:
    observer = SignalsObserver()

    Room(observer).whole_run()

    assert not observer.listens()
    assert "_callboard_queue" not in vars(observer)


def test_deltas_are_sent_only_when_a_receiver_is_connected() -> None:
    def receive(agent_id, **facts) -> None: ...

    observer = SignalsObserver()

    with on_end.connected_to(receive):
        assert observer.listens()
        assert not observer.wants_deltas
    with on_event.connected_to(receive):
        assert observer.listens()
        assert observer.wants_deltas


def test_a_connected_function_is_called_without_being_configured() -> None:
    def receive(agent_id, **facts) -> None: ...

    with on_event.connected_to(receive):
        chosen = observers_for(["logger"], read_settings())
        off = observers_for([], read_settings(builtins=False))

    assert [observer.name for observer in chosen] == ["logger", "signals"]
    assert off == ()
    assert [observer.name for observer in observers_for(["logger"], read_settings())] == ["logger"]


PAGE = Path(__file__).parents[2] / "docs" / "observers.md"


def test_the_example_of_the_page_works(capsys) -> None:
    source = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    names: dict = {}
    exec(source, names)  # the page's own code is what is tested

    room = Room(names["Ledger"]())
    room.tell(EndPayload, status="succeeded", cost_usd=0.25)
    assert drain(10) == []

    assert capsys.readouterr().err == f"{room.context.run_id} succeeded, assistant has cost $0.2500\n"
