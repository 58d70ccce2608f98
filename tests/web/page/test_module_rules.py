"""What each module of the page keeps to, but for those of others and the compiled client."""

from __future__ import annotations

from web.page_files import STATIC

MODULES = {path.relative_to(STATIC).as_posix(): path.read_text() for path in sorted(STATIC.rglob("*.js"))}
OWN = {name: text for name, text in MODULES.items() if not name.startswith(("vendor/", "client/"))}
MOST_LINES_OF_A_VIEW = 150


def test_the_compiler_checks_every_module() -> None:
    assert [name for name, text in OWN.items() if not text.startswith("// @ts-check\n")] == []


def test_every_view_is_short() -> None:
    views = {name: len(text.splitlines()) for name, text in OWN.items() if name.startswith("views/")}

    assert {name: lines for name, lines in views.items() if lines > MOST_LINES_OF_A_VIEW} == {}
