"""The page's files as they lie there: small, and nothing in them that the content policy would refuse."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from bus.payloads import EVENT_TYPES

STATIC = Path(__file__).parents[2] / "web" / "static"
SHELLS = {path.name: path.read_text() for path in STATIC.glob("*.html")}
INDEX = SHELLS["index.html"]
MODULES = sorted(path for path in STATIC.rglob("*.js"))
FORBIDDEN = re.compile(
    r"\b(innerHTML|outerHTML|insertAdjacentHTML|setHTML|document\.write|DOMParser|createContextualFragment)\b"
    r"|\beval\(|\bnew Function\b"
)
MAX_COMPRESSED = 150 * 1024


def test_the_page_is_small() -> None:
    sizes = [len(gzip.compress(path.read_bytes())) for path in STATIC.rglob("*") if path.is_file()]

    assert sum(sizes) <= MAX_COMPRESSED


def test_every_module_is_preloaded() -> None:
    preloaded = re.findall(r'<link rel="modulepreload" href="/static/([^"]+)">', INDEX)
    own = [str(path.relative_to(STATIC)) for path in MODULES if path.parent.name != "reference"]

    assert sorted([*preloaded, "app.js"]) == sorted(own)


def test_the_story_has_an_entry_for_each_event_type() -> None:
    table = re.search(r"^const EVENTS = \{\n(.*?)^\};", (STATIC / "state" / "story.js").read_text(), re.M | re.S)

    assert table is not None
    assert re.findall(r"^  (\w+): \{ fold: ", table[1], re.M) == list(EVENT_TYPES)


@pytest.mark.parametrize("shell", SHELLS.values(), ids=SHELLS.keys())
def test_the_shell_names_only_files_that_are_there(shell: str) -> None:
    named = re.findall(r'(?:href|src)="/static/([^"]+)"', shell)

    assert [name for name in named if not (STATIC / name).is_file()] == []


@pytest.mark.parametrize("shell", SHELLS.values(), ids=SHELLS.keys())
def test_the_shell_has_nothing_inline_and_nothing_foreign(shell: str) -> None:
    assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|https?://", shell)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(STATIC)))
def test_no_module_makes_markup_or_code_from_text(module: Path) -> None:
    assert not FORBIDDEN.search(module.read_text())


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(STATIC)))
def test_every_import_names_a_file_that_is_there(module: Path) -> None:
    named = re.findall(r'^(?:import|export) .*from "([^"]+)";', module.read_text(), re.MULTILINE)

    assert [name for name in named if not (module.parent / name).is_file()] == []
