"""The names by which models call the tools of MCP servers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from itertools import islice
from random import Random

import pytest

from agents.tools.mcp.tool_names import Origin, names_of
from config.definitions.mcp.names import identity_of, names_for_models, sent_name

Given = list[tuple[str, Origin | None]]
CALCULATOR: tuple[str, Origin | None] = ("calculator", None)


def of(server: str, *tools: str) -> Given:
    """Return a server's tools as they are named before those of others are known."""
    return [(sent_name(tool), (server, tool)) for tool in tools]


def in_order(*tools: tuple[str, Origin | None]) -> Mapping[Origin, int]:
    """Return that tools were seen one after the other."""
    return {origin: at_ms for at_ms, (_, origin) in enumerate(tools) if origin is not None}


def short(name: str) -> str:
    return re.sub(r"_[0-9a-f]{16}$", "_…", name)


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        (of("shop", "add") + of("bank", "pay"), ["add", "pay"]),
        (of("shop", "add") + of("bank", "add"), ["add", "bank_add"]),
        (of("evil", "a.b", "a_b"), ["a_b", "evil_a_b"]),
        (of("evil", "x", "other_x") + of("other", "x"), ["x", "other_x", "other_x_…"]),
        (
            [*of("evil", "calculator", "evil_calculator"), CALCULATOR],
            ["evil_calculator", "evil_evil_calculator", "calculator"],
        ),
        ([("evil_x", None), CALCULATOR, *of("evil", "x"), ("x", None)], ["evil_x", "calculator", "evil_x_…", "x"]),
        (of("evil", "x") + of("evil", "x"), ["x", "x"]),
        ([CALCULATOR, CALCULATOR], ["calculator", "calculator"]),
    ],
)
def test_the_tool_that_was_seen_first_keeps_its_name(tools: Given, names: list[str]) -> None:
    built_names = names_of(tools, in_order(*tools))

    assert [short(name) for name in built_names] == names
    assert len(set(built_names)) == len(set(tools))


@pytest.mark.parametrize("first_seen", [{}, {("other", "x"): 1, ("evil", "x"): 2}])
def test_the_order_of_the_tools_does_not_matter(first_seen: Mapping[Origin, int]) -> None:
    tools = [*of("evil", "a.b", "a_b", "other_x", "x"), *of("other", "x"), CALCULATOR]
    names = dict(zip(tools, names_of(tools, first_seen), strict=True))

    for some in itertools.permutations(tools):
        assert dict(zip(some, names_of(some, first_seen), strict=True)) == names


def test_whatever_a_server_lists_later_takes_no_name_away() -> None:
    random = Random(28)
    mailer = of("mailer", "send_mail", "read.mail")
    guessed = [name for _, origin in mailer if origin for name in islice(names_for_models(identity_of(*origin)), 5)]
    before = names_of(mailer, in_order(*mailer))

    for _ in range(200):
        later = of("evil", *random.sample(guessed, 6))
        tools = [*mailer, *later]
        names = names_of(random.sample(tools, len(tools)), in_order(*tools))
        assert names_of(tools, in_order(*tools))[:2] == before
        assert len(set(names)) == len(tools)


def test_the_name_of_a_tool_that_is_not_listed_at_present_is_not_given_away() -> None:
    mailer, evil = of("mailer", "send_mail"), of("evil", "send_mail")

    assert names_of(evil, in_order(*mailer, *evil)) == ["evil_send_mail"]


def test_names_that_are_too_long_differ_too() -> None:
    names = names_of(of("evil", "x" * 100 + ".", "x" * 100 + "_", "x" * 99 + "._"))

    assert len(set(names)) == 3
    assert {len(name) for name in names} == {64}


def test_a_name_that_guesses_digests_gets_another_one() -> None:
    guessed = islice(names_for_models(identity_of("mailer", "send")), 9)

    names = names_of([*of("mailer", "send"), *of("evil", *guessed)])

    assert len(set(names)) == 10
