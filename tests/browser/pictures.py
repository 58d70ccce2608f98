"""Makes the pictures of the page that the documents show: ``python -m tests.browser.pictures [FOLDER]``.

A real ``up`` with the demo agents answers, and headless Chromium looks at the page. Without FOLDER the pictures go to
``docs/``; with one, it also gets the start page and the conversation on a phone, to look at after a change.
"""

from __future__ import annotations

import json
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import get_args

from playwright.sync_api import expect, sync_playwright

from agents.models.auto import BY_KEY
from config.folders import ROOT
from tests.backends import find_chromium
from tests.browser.visitor import Scheme, Visitor
from tests.journeys.up import Up

CONVERSATION = ("Which five countries have the largest population?", "Compare Norway, Sweden and Finland")
ENDED = (
    ("assistant", "What is 17 * 23, and what time is it in Tokyo?"),
    ("calendar", "Lunch with Mia and Jonas on Friday at 12:30 in Lisbon"),
    ("assistant", "Write buy milk and eggs to shopping.txt, then read it"),
    ("assistant", "fail"),
)
"""Agent and message of the runs that the board shows as ended, the oldest first."""
OPEN = (
    ("office", "Order 3 boxes of paper", "pictures-3"),
    ("assistant", "Think hard and write 300 words slowly", "pictures-1"),
    ("assistant", "Write 200 words slowly", "pictures-2"),
    ("assistant", "And then 50 more", "pictures-2"),
)
"""Agent, message and thread of the runs that are open while the pictures are made: the first waits for a person, the
last for the one before it."""
DEMO = {**dict.fromkeys(BY_KEY, ""), "CALLBOARD_NO_CONFIG": "1"}
"""Variables with which ``model: auto`` is the demo model, whatever this shell has set."""
WIDE, PHONE = (1440, 900), (390, 844)


VIEWS = {
    "board": ("#/board", "The board"),
    "run": ("#/run/{run_id}", "Order 3 boxes of paper"),
    "approvals": ("#/approvals", "Approvals"),
    "fleet": ("#/fleet?in=1h", "The fleet"),
}
"""Name of a picture -> the view's address, and its heading. They are in ``pictures``, also on a phone."""


def main(folder: Path, *, is_preview: bool = False) -> None:
    """Make the pictures in both colour schemes."""
    chromium = find_chromium()
    assert chromium, "install Debian's chromium-headless-shell or chromium"
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="callboard-pictures-") as state, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        with Up(Path(state) / "state", "--port", "0", "--workers", "2", **DEMO) as up:
            for agent, text in ENDED:
                up.ask(agent, text)
            visitor = Visitor(browser.new_context(reduced_motion="reduce"), up.address).opens()
            conversation = converse(visitor)
            open_ids = [start(visitor.url, *run) for run in OPEN]
            take_all(visitor, conversation, folder, is_preview=is_preview)
            take_views(visitor, open_ids[0], folder / "pictures")
            browser.close()
            up.stop()
    assert visitor.complaints == [], visitor.complaints


def converse(visitor: Visitor) -> str:
    """Have the conversation that the pictures show, and return its place on the page."""
    for number, text in enumerate(CONVERSATION, 1):
        visitor.says(text, agent="atlas").waits_for_end(number)
    return f"#/thread/{visitor.thread_id}"


def take_all(visitor: Visitor, conversation: str, folder: Path, *, is_preview: bool) -> None:
    """Make every picture while the same runs are open on the board."""
    pictures = [("page", conversation, WIDE)]
    if is_preview:
        pictures += [("start", "", WIDE), ("phone", conversation, PHONE), ("phone-start", "", PHONE)]
    for scheme in get_args(Scheme):
        visitor.page.emulate_media(color_scheme=scheme)
        for name, hash_, (width, height) in pictures:
            visitor.page.set_viewport_size({"width": width, "height": height})
            visitor.page.goto("about:blank")  # else a new hash alone keeps what the page has scrolled to
            visitor.opens(hash_)
            expect(visitor.lane("running")).to_have_count(2)
            dark = "-dark" if scheme == "dark" else ""
            visitor.page.screenshot(path=folder / f"{name}{dark}.png")


def take_views(visitor: Visitor, run_id: str, folder: Path) -> None:
    """Make the picture of each view: light, dark, and on a phone."""
    looks: tuple[tuple[str, Scheme, tuple[int, int]], ...]
    looks = (("", "light", WIDE), ("-dark", "dark", WIDE), ("-phone", "light", PHONE))
    for suffix, scheme, (width, height) in looks:
        visitor.page.emulate_media(color_scheme=scheme)
        visitor.page.set_viewport_size({"width": width, "height": height})
        for name, (hash_, heading) in VIEWS.items():
            visitor.page.goto("about:blank")
            visitor.opens(hash_.format(run_id=run_id))
            expect(visitor.page.get_by_role("heading", name=heading).first).to_be_visible()
            visitor.page.wait_for_timeout(1500)  # a feed stays open, so that the network is never idle
            visitor.page.screenshot(path=folder / f"{name}{suffix}.png")


def start(address: str, agent: str, text: str, thread_id: str) -> str:
    """Start a run and return its id."""
    body = json.dumps({"agent": agent, "input": text, "thread_id": thread_id}).encode()
    request = urllib.request.Request(f"{address}/v1/runs", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(json.load(answer)["run_id"])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs", is_preview=bool(sys.argv[1:]))
