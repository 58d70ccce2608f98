"""The page in headless Chromium: its first paint, a run of 10,000 events, a busy board, quick text, and its memory.

    PYTHONPATH=. .venv/bin/python -m tests.bench.browser [--rounds 3] [--quick] [--json]

Paint and text are of a page that `up` serves: warm from the browser's cache, and cold at 9 Mbit/s with 60 ms a round
trip. The board has 5,000 open runs, of which 25 a second are accepted and 25 are stopped. Load is what Chromium counts
of its main thread: script, style and layout. Beside each stands the same page at rest, or with little.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, expect, sync_playwright
from sqlalchemy import insert, update

from bus.journal.log.events import event_row
from bus.payloads import EndPayload, Payload, ResponsePayload, StatusPayload, ToolPayload
from bus.payloads import ToolResultPayload as Result
from config.clock import epoch_ms, stamp
from config.database.tables import approvals, events, runs, steps
from tests.backends import find_chromium
from tests.bench.command import Effort, run, say
from tests.bench.processes import model_server
from tests.bench.report import Bar, Figure, Report
from tests.browser.answering import Counter, opened_counter
from tests.browser.visitor import Visitor
from tests.bus.crowd import Crowd
from tests.journeys.up import Up

EVENTS, OPEN, CHANGES, TOKENS = 10_000, 5_000, 50, 200
WATCHED_S = 10.0
PIECES_A_STEP = 40
PATIENCE_MS = 30_000
AGENT = "name: Talker\nmodel: openai/prose-{count}-{rate}\napi_base: {url}\nsystem_prompt: You talk.\n"
SLOW_LINE = {"offline": False, "latency": 60, "downloadThroughput": 9e6 / 8, "uploadThroughput": 9e6 / 8}
OPENED = """
  (count) => document.querySelector(".view-tabs small")?.textContent === count
    && document.querySelectorAll(".step.is-tool").length > 0
"""
WORK = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")


def measure(effort: Effort) -> Report:
    """Return how soon the page is there, and what it costs the browser while much happens."""
    chromium = find_chromium()
    assert chromium, "install Debian's chromium-headless-shell or chromium"
    watched_s = WATCHED_S if not effort.is_quick else 2.0
    with tempfile.TemporaryDirectory(prefix="cbbench") as name, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        figures = _of_up(browser, Path(name) / "up", effort.rounds, watched_s)
        with opened_counter(_folder(Path(name) / "counter")) as counter:
            figures.append(_long_run(browser, counter, effort.pick(EVENTS, 500), effort.rounds))
            figures += _board(browser, counter, effort.pick(OPEN, 200), effort.rounds, watched_s)
        browser.close()
    return Report(name="browser", title="The page in a browser", figures=figures)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


# --- served by `up`: the first paint, and quick text


def _of_up(browser: Browser, folder: Path, rounds: int, watched_s: float) -> list[Figure]:
    agents = _folder(_folder(folder) / "agents")
    with model_server(folder) as url:
        (agents / "talker.yaml").write_text(AGENT.format(count=int(TOKENS * (watched_s + 30)), rate=TOKENS, url=url))
        keys = {"OPENAI_API_KEY": "none", "CALLBOARD_AGENTS_DIR": f"{agents}:config/agents"}
        with Up(folder / "state", "--port", "0", "--workers", "1", **keys) as up:
            time.sleep(3)  # the files are compressed further meanwhile
            paints = [_paints(browser, up.address) for _ in range(rounds)]
            loads = [_of_text(browser, up.address, watched_s) for _ in range(rounds)]
            up.stop()
    say(f"first paint warm and cold, ms: {paints}; share of a core with text and without: {loads}")
    warm, cold = zip(*paints, strict=True)
    busy, idle = zip(*loads, strict=True)
    return [
        Figure(name="first paint, warm", unit="ms", rounds=warm, bar=Bar(compares="figure", limit=300)),
        Figure(
            name="first paint, cold at 9 Mbit/s and 60 ms (beside: warm)",
            unit="ms",
            rounds=cold,
            references=warm,
            bar=Bar(compares="figure", limit=1200),
        ),
        Figure(
            name=f"{TOKENS} tokens a second, of a core (beside: the ended answer)",
            unit="%",
            rounds=busy,
            references=idle,
            bar=Bar(compares="figure", limit=15),
        ),
    ]


def _paints(browser: Browser, url: str) -> tuple[float, float]:
    """Return the times of the first contentful paint with the browser's cache, and without over a slow line, in ms."""
    with visit(browser, url) as (visitor, _):
        visitor.opens().page.goto("about:blank")
        warm_ms = _first_paint(visitor.page, url)
    with visit(browser, url) as (visitor, devtools):
        devtools.send("Network.enable")
        devtools.send("Network.emulateNetworkConditions", SLOW_LINE)
        return warm_ms, _first_paint(visitor.page, url)


def _first_paint(page: Page, url: str) -> float:
    page.goto(url)
    page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
    return float(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))


def _of_text(browser: Browser, url: str, watched_s: float) -> tuple[float, float]:
    with visit(browser, url) as (visitor, devtools):
        visitor.opens().says("Talk.", agent="talker")
        expect(visitor.answer.last).to_contain_text(" ", timeout=PATIENCE_MS)
        busy = _load(visitor.page, devtools, watched_s)
        visitor.stop.click()
        visitor.waits_for_end()
        return busy, _load(visitor.page, devtools, watched_s)


# --- a long run


def _long_run(browser: Browser, counter: Counter, count: int, rounds: int) -> Figure:
    long_id, short_id = _written(counter, count), _written(counter, 20)
    times, references = [], []
    for _ in range(rounds):
        times.append(_opened_after(browser, counter.url, long_id, count))
        references.append(_opened_after(browser, counter.url, short_id, 20))
    say(f"a run of {count} events is there after {times} ms, one of 20 after {references} ms")
    return Figure(
        name=f"a run of {count:,} events opens (beside: one of 20)",
        unit="ms",
        rounds=times,
        references=references,
        bar=Bar(compares="figure", limit=1000),
    )


def _opened_after(browser: Browser, url: str, run_id: str, count: int) -> float:
    """Return the ms until the timeline has its last step and the tab counts every event; the page is open already."""
    with visit(browser, url) as (visitor, _):
        page = visitor.opens("#/board").page
        expect(page.get_by_role("heading", name="The board")).to_be_visible(timeout=PATIENCE_MS)
        began_s = time.perf_counter()
        page.evaluate("(hash) => { location.hash = hash }", f"#/run/{run_id}")
        page.wait_for_function(OPENED, arg=f"{count:,}", polling="raf", timeout=PATIENCE_MS)
        return (time.perf_counter() - began_s) * 1000


def _written(counter: Counter, count: int) -> str:
    """Write an ended run with so many events: calls of a tool, with the pieces of the text before each."""
    run_id, thread_id = counter.waiting(text=f"A run of {count} events.")
    payloads: list[Payload] = [StatusPayload(seq=1, at=stamp(), status="running", attempt=1)]
    rows: list[dict[str, object]] = []
    while len(payloads) < count - 1:
        number, seq = len(rows) + 1, len(payloads) + 1
        call: dict[str, Any] = {"call_id": f"call_{number}", "name": "look_up"}
        step: dict[str, Any] = {"step_id": f"{run_id}-{number}", "message_id": f"msg_{number}"}
        payloads.append(ToolPayload(seq=seq, at=stamp(), arguments={"order": number}, effect="pure", **call, **step))
        payloads.append(Result(seq=seq + 1, at=stamp(), outcome="done", result=number, duration_ms=3, **call, **step))
        rows.append(_step(run_id, number, call["call_id"]))
        for piece in range(min(PIECES_A_STEP, count - 1 - len(payloads))):
            text = ResponsePayload(seq=seq + 2 + piece, at=stamp(), content="word ", **step)
            payloads.append(text)
    payloads = [*payloads[: count - 1], EndPayload(seq=count, at=stamp(), status="succeeded", duration_ms=1000)]
    with counter.journal.database.write() as connection:
        for table in (events, approvals, steps):
            connection.execute(table.delete().where(table.c.run_id == run_id))
        connection.execute(insert(events), [event_row(payload, run_id, thread_id, 1) for payload in payloads])
        connection.execute(insert(steps), rows)
        ended = {"status": "succeeded", "reason": None, "ended_ms": epoch_ms(), "reserved_to": count}
        connection.execute(update(runs).where(runs.c.id == run_id).values(ended))
    return run_id


def _step(run_id: str, number: int, call_id: str) -> dict[str, object]:
    now_ms = epoch_ms()
    fixed = {"kind": "tool", "name": "look_up", "status": "done", "effect": "pure", "attempt": 1, "fence": 1}
    own = {"id": f"{run_id}-{number}", "run_id": run_id, "number": number, "call_id": call_id, "result_json": "1"}
    return fixed | own | {"arguments_digest": "a", "idempotency_key": "k", "started_ms": now_ms, "ended_ms": now_ms + 3}


# --- a busy board


def _board(browser: Browser, counter: Counter, count: int, rounds: int, watched_s: float) -> list[Figure]:
    run_id, _ = counter.waiting()
    Crowd(counter.journal.database, run_id, status="queued", reason=None).add("open", count)
    busy, idle, growth = [], [], []
    with visit(browser, counter.url) as (visitor, devtools):
        page = visitor.opens("#/board").page
        expect(page.get_by_role("table", name="Runs")).to_be_visible(timeout=PATIENCE_MS)
        for _ in range(rounds):
            before_mib = heap_mib(devtools)
            busy.append(_load(page, devtools, watched_s, lambda: _change(counter)))
            growth.append(heap_mib(devtools) - before_mib)
            idle.append(_load(page, devtools, watched_s))
    say(f"share of a core with changes {busy} and without {idle}; memory {growth} MiB")
    return [
        Figure(
            name=f"the board with {count:,} open runs and {CHANGES} changes a second, of a core (beside: at rest)",
            unit="%",
            rounds=busy,
            references=idle,
            bar=Bar(compares="figure", limit=20),
        ),
        Figure(name=f"its memory after {watched_s:g} s of changes", unit="MiB", rounds=growth, bar=None),
    ]


def _change(counter: Counter) -> None:
    """Accept a run and stop it: two changes of the board."""
    counter.runner.run("One of many.", "support", detached=True).cancel()


# --- what Chromium counts


@contextlib.contextmanager
def visit(browser: Browser, url: str) -> Iterator[tuple[Visitor, CDPSession]]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    visitor = Visitor(context, url)
    devtools = context.new_cdp_session(visitor.page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    yield visitor, devtools
    context.close()


def _load(page: Page, devtools: CDPSession, watched_s: float, work: Callable[[], None] | None = None) -> float:
    """Return the percent of a core that script, style and layout take while ``work`` is done 25 times a second."""
    before_s, began_s = _work_s(devtools), time.perf_counter()
    due_s = began_s
    while time.perf_counter() - began_s < watched_s:
        if work is not None:
            work()
        due_s += 2 / CHANGES
        page.wait_for_timeout(max(0.0, due_s - time.perf_counter()) * 1000)
    return (_work_s(devtools) - before_s) / (time.perf_counter() - began_s) * 100


def _work_s(devtools: CDPSession) -> float:
    metrics = {each["name"]: each["value"] for each in devtools.send("Performance.getMetrics")["metrics"]}
    return float(sum(metrics[name] for name in WORK))


def heap_mib(devtools: CDPSession) -> float:
    devtools.send("HeapProfiler.collectGarbage")
    metrics = {each["name"]: each["value"] for each in devtools.send("Performance.getMetrics")["metrics"]}
    return float(metrics["JSHeapUsedSize"] / 2**20)


if __name__ == "__main__":
    run(measure, __doc__)
