"""A server's list in pages, also without an end."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from mcp.types import ListPromptsResult, PaginatedRequestParams, Prompt
from pydantic import BaseModel

from agents.tools.mcp.catalogue.lists import MAX_ITEMS, MAX_PAGES, MAX_WEIGHT, all_pages, weight_of


def pages(*, size: int, count: int | None, prompt: Prompt | None = None) -> tuple[list[Prompt], list[str | None]]:
    """Return what is read of a list with pages of this size, and the cursors that were sent."""
    item = prompt or Prompt(name="x")
    cursors: list[str | None] = []

    async def ask(params: PaginatedRequestParams | None) -> ListPromptsResult:
        cursors.append(params.cursor if params else None)
        more = str(len(cursors)) if count is None or len(cursors) < count else None
        return ListPromptsResult(prompts=[item] * size, next_cursor=more)

    return asyncio.run(all_pages(ask, lambda page: cast(ListPromptsResult, page).prompts)), cursors


def test_all_pages_are_read() -> None:
    items, cursors = pages(size=3, count=3)

    assert (len(items), cursors) == (9, [None, "1", "2"])


def test_a_list_without_an_end_is_read_to_the_limits() -> None:
    assert len(pages(size=0, count=None)[1]) == MAX_PAGES
    assert len(pages(size=30, count=None)[0]) == MAX_ITEMS


@pytest.mark.parity
@pytest.mark.parametrize(
    "prompt",
    [
        Prompt(name="x", description="x" * 4_000_000),
        Prompt(name="x", description="\U0001f600" * 1_000_000),
        Prompt(name="x", _meta={"values": [[]] * 50_000}),
        Prompt(name="x", _meta={str(number): number for number in range(30_000)}),
    ],
    ids=["text", "wide text", "values", "names"],
)
def test_of_a_list_of_large_items_no_more_is_read_than_fits_into_memory(prompt: Prompt) -> None:
    items, _ = pages(size=1, count=None, prompt=prompt)

    assert MAX_WEIGHT <= weight_of(items) < MAX_WEIGHT + weight_of([prompt])


def test_an_extra_field_has_a_weight_too() -> None:
    class Open(BaseModel, extra="allow"):
        name: str

    assert weight_of([Open.model_validate({"name": "x", "more": "x" * 1000})]) > 1000
