"""The memory of two pages over an hour: an answer grows in one, and runs begin and end on the board of the other.

    PYTHONPATH=. .venv/bin/python -m tests.bench.page_memory [--minutes 60]

A call of a model ends after 30 minutes, so the answer grows for half of an hour. A line each tenth of the time says how
much the heap of each page holds behind a garbage collection, how many nodes its document has, and how much text.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from playwright.sync_api import CDPSession, Page, expect, sync_playwright

from tests.backends import find_chromium
from tests.bench.browser import AGENT, PATIENCE_MS, heap_mib, visit
from tests.bench.processes import model_server
from tests.journeys.up import Up

RATE, RUNS_S = 20, 2
"""Tokens a second of the answer, and runs that begin and end a second."""


def main() -> None:
    """Read the command line, watch, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    seconds = parser.parse_args().minutes * 60
    chromium = find_chromium()
    assert chromium, "install Debian's chromium-headless-shell or chromium"
    with tempfile.TemporaryDirectory(prefix="cbbench") as name, model_server(Path(name)) as url:
        agents = Path(name) / "agents"
        agents.mkdir()
        (agents / "talker.yaml").write_text(AGENT.format(count=int(RATE * (seconds + 60)), rate=RATE, url=url))
        (agents / "quick.yaml").write_text(AGENT.format(count=20, rate=1000, url=url))
        keys = {"OPENAI_API_KEY": "none", "CALLBOARD_AGENTS_DIR": f"{agents}:config/agents"}
        with Up(Path(name) / "state", "--port", "0", "--workers", "1", **keys) as up, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            with visit(browser, up.address) as (talk, heap), visit(browser, up.address) as (board, board_heap):
                talk.opens().says("Talk.", agent="talker")
                expect(talk.answer.last).to_contain_text(" ", timeout=PATIENCE_MS)
                board.opens("#/board")
                expect(board.page.get_by_role("table", name="Runs")).to_be_visible(timeout=PATIENCE_MS)
                _watch(up.address, seconds, {"conversation": (talk.page, heap), "board": (board.page, board_heap)})
            browser.close()
            up.stop()


def _watch(address: str, seconds: float, pages: dict[str, tuple[Page, CDPSession]]) -> None:
    """Start runs at a steady rate, and print a line each tenth of the time."""
    began_s, count, elapsed_s = time.monotonic(), 0, 0.0
    requests = pages["board"][0].request
    for tenth in range(11):
        while (elapsed_s := time.monotonic() - began_s) < seconds * tenth / 10:
            if count < elapsed_s * RUNS_S:
                requests.post(f"{address}/v1/runs", data={"agent": "quick", "input": "Be quick."})
                count += 1
            for page, _ in pages.values():
                page.wait_for_timeout(20)
        print(f"{elapsed_s / 60:5.1f} min, {count} runs:", *(_line(*page) for page in pages.items()), flush=True)


def _line(name: str, page: tuple[Page, CDPSession]) -> str:
    nodes, chars = page[0].evaluate("[document.querySelectorAll('*').length, document.body.innerText.length]")
    return f"{name} {heap_mib(page[1]):.2f} MiB, {nodes:,} nodes, {chars:,} characters;"


if __name__ == "__main__":
    main()
