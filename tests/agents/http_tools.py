"""Tools that order over HTTP, each with another effect."""

from __future__ import annotations

import urllib.request

from agents.tools import current_call, tool

url = ""
"""Where the shop is; tests say."""


def post(item: str) -> str:
    request = urllib.request.Request(url, item.encode(), dict(current_call().headers), method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


@tool(effect="keyed")
def order(item: str) -> str:
    """Order something, once a key."""
    return post(item)


@tool(effect="unsafe")
def buy(item: str) -> str:
    """Buy something, each time."""
    return post(item)
