"""Which resources and prompts of a server an agent's file names.

What it does not name is refused here: the server is not asked for it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from urllib.parse import unquote

from agents.tools.mcp import PREFIX

MAX_URI = 2000
_SEPARATORS = re.compile(r"[/\\]")
_INVISIBLE = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def by_server(paths: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return what the lines of a file name, by server; ``*`` stands for all that a server has."""
    names_by_server: dict[str, list[str]] = {}
    for path in paths:
        server, _, named = path.removeprefix(PREFIX).partition("/")
        names_by_server.setdefault(server, []).append(named or "*")
    return {server: tuple(named) for server, named in names_by_server.items()}


def is_named(uri: str, patterns: Collection[str]) -> bool:
    """Return whether the patterns have this URI; ``*`` in a pattern is any text, also none.

    A URI with a step to a parent folder is not below what a pattern's beginning says, so no ``*`` matches it.
    """
    if uri in patterns and "*" not in uri:
        return True
    if len(uri) > MAX_URI or _INVISIBLE.search(uri) or _climbs(uri):
        return False
    return any(_matches(pattern, uri) for pattern in patterns)


def may_name(template: str, patterns: Collection[str]) -> bool:
    """Return whether a URI that the template makes may be among those that the patterns have."""
    fixed = template.partition("{")[0]
    starts = [pattern.partition("*")[0] for pattern in patterns]
    return any(fixed.startswith(start) or start.startswith(fixed) for start in starts)


def _climbs(uri: str) -> bool:
    """Return whether a server could read the URI as a path with ``.`` or ``..``, also behind two encodings."""
    texts = (uri, unquote(uri), unquote(unquote(uri)))
    return any(
        part in (".", "..") for text in texts for part in _SEPARATORS.split(re.split(r"[?#]", text, maxsplit=1)[0])
    )


def _matches(pattern: str, uri: str) -> bool:
    first, *others = pattern.split("*")
    if not others:
        return pattern == uri
    *middle, last = others
    if not uri.startswith(first) or not uri.endswith(last) or len(first) + len(last) > len(uri):
        return False
    at, end = len(first), len(uri) - len(last)
    for part in middle:
        at = uri.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
