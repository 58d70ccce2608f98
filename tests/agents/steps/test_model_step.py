"""A model step: what it has used counts once, also where a stop comes while its answer is withdrawn."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from agents.models.streams.chunk import Usage
from agents.testing import AgentKit, Turn
from bus.journal.owner import RunWriter

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def test_an_answer_that_is_withdrawn_at_a_stop_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    is_withdrawing = threading.Event()

    async def withdraw_for_ever(*_: Any, **__: Any) -> None:
        is_withdrawing.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(RunWriter, "withdraw", withdraw_for_ever)
    with AgentKit(output_schema=SCHEMA) as kit:
        kit.model.script(Turn(text="no JSON", usage=Usage(input_tokens=100, output_tokens=10)))
        handle = kit.run("Hello")
        assert is_withdrawing.wait(20)
        handle.cancel()
        end = handle.result(20)

    assert end.status == "cancelled"
    assert end.usage is not None
    assert (end.usage["input_tokens"], end.usage["output_tokens"]) == (100, 10)
