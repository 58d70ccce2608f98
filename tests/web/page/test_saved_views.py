"""Views that a reader has named: what of the kept ones can be used, and storage that is full or forbidden."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.page.conftest import Module

pytestmark = pytest.mark.parity

IMPORT = "const { viewsOf, storedOf, withView } = await import(`${page}/state/savedViews.js`);"
KEPT = "const { keep, recalled } = await import(`${page}/services/kept.js`);"
VIEW = {"name": "Mine", "query": {"owner": "mara"}}


@pytest.mark.parametrize(
    ("stored", "names", "problem"),
    [
        (None, [], ""),
        ({"version": 1, "views": [VIEW]}, ["Mine"], ""),
        ({"version": 2, "views": [VIEW]}, [], "of another version"),
        ("what was it", [], "of another version"),
        ([VIEW], [], "of another version"),
        ({"version": 1, "views": [VIEW, {"name": 7, "query": {}}, None]}, ["Mine"], "cannot be read"),
        (
            {"version": 1, "views": [{"name": "Old", "query": {"colour": "red", "status": "none"}}]},
            [],
            "cannot be read",
        ),
        ({"version": 1, "views": [{"name": "x" * 99, "query": {"q": "a"}}]}, ["x" * 40], ""),
        ({"version": 1, "views": [VIEW] * 30}, ["Mine"] * 20, "cannot be read"),
    ],
    ids=["nothing", "one", "newer", "text", "list", "broken parts", "no field of it", "long name", "too many"],
)
def test_of_what_is_kept_that_is_used_which_can_be(module: Module, stored: Any, names: list[str], problem: str) -> None:
    answer = module(f"{IMPORT} return viewsOf(argument);", stored)

    assert [view["name"] for view in answer["views"]] == names
    assert problem in answer["problem"]
    assert bool(problem) == bool(answer["problem"])


def test_a_view_replaces_the_one_of_its_name_and_comes_back_as_it_was_kept(module: Module) -> None:
    script = """
    let views = withView([], " Mine ", { owner: "mara", colour: "red" });
    views = withView(views, "", { status: "open" });
    views = withView(views, "Open", { status: "open" });
    views = withView(views, "Mine", { owner: "lee", q: "two words", group: "colour" });
    views = withView(views, "By agent", { group: "agent" });
    return viewsOf(JSON.parse(JSON.stringify(storedOf(views)))).views;
    """

    views = module(f"{IMPORT} {script}", None)

    assert views == [
        {"name": "Open", "query": {"status": "open"}},
        {"name": "Mine", "query": {"owner": "lee", "q": "two words"}},
        {"name": "By agent", "query": {"group": "agent"}},
    ]


def test_what_the_browser_has_no_room_for_is_there_until_the_page_is_closed(module: Module) -> None:
    script = """
    const rows = new Map();
    const storage = { getItem: (key) => rows.get(key) ?? null, setItem: (key, text) => rows.set(key, text) };
    const full = { ...storage, setItem: () => { throw new Error("full"); } };
    const forbidden = { getItem: () => { throw new Error("no"); }, setItem: () => { throw new Error("no"); } };
    return [
      recalled("a", storage) ?? null, keep("a", [1], storage), recalled("a", storage),
      keep("a", [2], full), recalled("a", full), keep("b", 3, forbidden), recalled("b", forbidden),
      recalled("c", forbidden) ?? null,
      keep("a", [4], storage), recalled("a", storage), [...rows.keys()],
    ];
    """

    assert module(f"{KEPT} {script}", None) == [
        *(None, True, [1]),
        *(False, [2], False, 3, None),
        *(True, [4], ["callboard:1:kept:a"]),
    ]
