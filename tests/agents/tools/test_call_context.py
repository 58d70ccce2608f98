"""What a call reports: the newest progress and the newest lines, each second at most, without secrets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any

import pytest

from agents.tools import call_context as module
from agents.tools.call_context import MAX_LINES, MAX_TEXT, CallReports
from bus.payloads import Payload, ToolLogPayload, ToolProgressPayload

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


def written(report: Callable[[CallReports], Any]) -> list[list[Payload]]:
    """Return the writes of a call that reports so."""
    writes: list[list[Payload]] = []

    async def save(events: Sequence[Payload]) -> None:
        writes.append([*events])

    async def call() -> None:
        async with CallReports("call_1", "copy", "step_1", lambda text: text.replace("dog", "cat"), save) as reports:
            awaitable = report(reports)
            if awaitable is not None:
                await awaitable

    asyncio.run(call())
    return writes


@pytest.mark.parity
def test_a_flood_becomes_the_newest_report_and_the_newest_lines() -> None:
    def flood(reports: CallReports) -> None:
        for number in range(100_000):
            reports.progress(number, 100_000, f"file {number}")
            reports.log("info", f"line {number}")

    (events,) = written(flood)

    *lines, progress = events
    assert isinstance(progress, ToolProgressPayload)
    assert (progress.done, progress.total, progress.message) == (99_999, 100_000, "file 99999")
    assert [line.message for line in lines if isinstance(line, ToolLogPayload)][-1] == "line 99999"
    assert len(lines) == MAX_LINES
    assert [line.left_out for line in lines if isinstance(line, ToolLogPayload)] == [99_980] + [None] * 19


def test_the_first_report_is_written_at_once_and_the_next_ones_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk(reports: CallReports) -> None:
        for number in range(3):
            reports.progress(number)
            for _ in range(4):
                await asyncio.sleep(0)

    assert [[event.done for event in events if isinstance(event, ToolProgressPayload)] for events in written(talk)] == [
        [0.0],
        [2.0],
    ]
    monkeypatch.setattr(module, "EVERY_S", 0.0)
    assert len(written(talk)) == 3
    monkeypatch.setattr(module, "MAX_WRITES", 1)
    assert len(written(talk)) == 2  # the second one at the call's end


def test_a_thread_reports_too_and_what_comes_after_the_end_is_dropped() -> None:
    call_reports: list[CallReports] = []

    async def talk(reports: CallReports) -> None:
        call_reports.append(reports)
        thread = threading.Thread(target=reports.log, args=("error", "of a thread", "shop"))
        thread.start()
        await asyncio.to_thread(thread.join)

    ((line,),) = written(talk)

    assert isinstance(line, ToolLogPayload)
    assert (line.level, line.message, line.logger, line.call_id) == ("error", "of a thread", "shop", "call_1")
    call_reports[0].progress(1)


def test_texts_are_short_redacted_visible_and_guarded() -> None:
    texts = {
        "a\u202eb": "a⟨U+202E⟩b",
        f"key {SECRET}": "key [redacted]",
        "x " * 498 + SECRET: "x " * 498 + "[red",
        "x" * 5_000_000: "x" * MAX_TEXT,
        "half \ud800": "half ?",
        "a dog": "a cat",
    }
    for source, expected in texts.items():
        ((line,),) = written(methodcaller("log", "no level", source))
        assert isinstance(line, ToolLogPayload)
        assert (line.level, line.message.replace("[REDACTED]", "[redacted]")) == ("info", expected), source[:20]


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), True, "3", 10**400], ids=["nan", "infinite", "bool", "text", "large"]
)
def test_what_is_no_number_is_left_out(value: Any) -> None:
    ((event,),) = written(lambda reports: reports.progress(value, value, "so far"))

    assert isinstance(event, ToolProgressPayload)
    assert (event.done, event.total, event.message) == (None, None, "so far")
