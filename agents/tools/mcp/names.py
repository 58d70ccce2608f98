"""The names by which models call the tools of MCP servers."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

Origin = tuple[str, str]
"""A server, and the name of its tool there."""

MAX_NAME = 64
"""Characters of a tool's name that every provider of models takes."""
_DIGEST, _LONG_DIGEST = 8, 16
"""Characters of a digest; a server can find two names of its own with one short digest."""
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


def sent_name(name: str) -> str:
    """Return a name as every provider of models takes it."""
    fit = _UNFIT.sub("_", name)
    return fit if len(fit) <= MAX_NAME else _with_digest(fit, fit, _DIGEST)


def distinct_names(tools: Sequence[tuple[str, Origin | None]]) -> list[str]:
    """Return the name of each tool, which is given by its present name and its origin (None: of no MCP server).

    Tools of one name get their servers' names before it; where that is another tool's name, they also get a digest of
    their origin. A tool of no MCP server keeps its name. The order of the tools does not matter. The same tool twice
    has one name.
    """
    choices = [_choices(name, origin) for name, origin in tools]
    chosen = [0] * len(tools)
    while True:
        names = [known[at] for known, at in zip(choices, chosen, strict=True)]
        tools_of = Counter(name for name, _ in {(names[at], tool[1] or at) for at, tool in enumerate(tools)})
        clashing = [at for at, name in enumerate(names) if tools_of[name] > 1 and chosen[at] < len(choices[at]) - 1]
        if not clashing:
            return names
        for at in clashing:
            chosen[at] += 1


def _choices(name: str, origin: Origin | None) -> tuple[str, ...]:
    """Return the names that a tool may get, each for the case that another tool has the one before."""
    if origin is None:
        return (name,)
    prefixed = sent_name(f"{origin[0]}_{name}")
    return name, prefixed, _with_digest(prefixed, "/".join(origin), _LONG_DIGEST)


def _with_digest(name: str, content: str, length: int) -> str:
    return f"{name[: MAX_NAME - length - 1]}_{hashlib.sha256(content.encode()).hexdigest()[:length]}"
