"""The names by which models call the tools of MCP servers."""

from __future__ import annotations

import itertools
import re

import pytest

from agents.tools.mcp.names import Origin, distinct_names, sent_name

Given = list[tuple[str, Origin | None]]
CALCULATOR: tuple[str, Origin | None] = ("calculator", None)


def of(server: str, *tools: str) -> Given:
    """Return a server's tools as they are named before those of others are known."""
    return [(sent_name(tool), (server, tool)) for tool in tools]


def short(name: str) -> str:
    return re.sub(r"_[0-9a-f]{16}$", "_…", name)


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        (of("shop", "add") + of("bank", "pay"), ["add", "pay"]),
        (of("shop", "add") + of("bank", "add"), ["shop_add", "bank_add"]),
        (of("evil", "a.b", "a_b"), ["evil_a_b_…", "evil_a_b_…"]),
        (of("evil", "x", "other_x") + of("other", "x"), ["evil_x", "evil_other_x", "other_x_…"]),
        (
            [*of("evil", "calculator", "evil_calculator"), CALCULATOR],
            ["evil_calculator_…", "evil_evil_calculator", "calculator"],
        ),
        ([("evil_x", None), CALCULATOR, *of("evil", "x"), ("x", None)], ["evil_x", "calculator", "evil_x_…", "x"]),
        (of("evil", "x") + of("evil", "x"), ["x", "x"]),
        ([CALCULATOR, CALCULATOR], ["calculator", "calculator"]),
    ],
)
def test_tools_of_mcp_servers_give_way_to_each_other_and_to_all_others(tools: Given, names: list[str]) -> None:
    found = distinct_names(tools)

    assert [short(name) for name in found] == names
    assert len(set(found)) == len(set(tools))


def test_the_order_of_the_tools_does_not_matter() -> None:
    tools = [*of("evil", "a.b", "a_b", "other_x", "x"), *of("other", "x"), CALCULATOR]
    names = dict(zip(tools, distinct_names(tools), strict=True))

    for some in itertools.permutations(tools):
        assert dict(zip(some, distinct_names(some), strict=True)) == names


def test_names_that_are_too_long_differ_too() -> None:
    names = distinct_names(of("evil", "x" * 100 + ".", "x" * 100 + "_", "x" * 99 + "._"))

    assert len(set(names)) == 3
    assert {len(name) for name in names} == {64}


def test_a_name_that_foresees_a_digest_gets_another_one() -> None:
    first, second = distinct_names(of("evil", "a.b", "a_b"))

    assert len(set(distinct_names(of("evil", "a.b", "a_b", first, second)))) == 4
