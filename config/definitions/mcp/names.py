"""Names of MCP servers' tools: the identity, which no other server can take, and those that models and rules use."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import count

PREFIX = "mcp:"
"""How an identity begins: ``mcp:server/tool``; alone, ``mcp:server`` stands for all tools of a server."""
MAX_NAME = 64
"""Characters of a tool's name that every provider of models takes."""
_DIGEST, _LONG_DIGEST = 8, 16
"""Characters of a digest; a server can find two names of its own with one short digest."""
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


def identity_of(server: str, tool: str) -> str:
    """Return what a server's tool is called where no other one can have its name."""
    return f"{PREFIX}{server}/{tool}"


def sent_name(name: str) -> str:
    """Return a name as every provider of models takes it."""
    fit = _UNFIT.sub("_", name)
    return fit if len(fit) <= MAX_NAME else _with_digest(fit, fit, _DIGEST)


def names_for_models(identity: str) -> Iterator[str]:
    """Yield the names that a tool may get, each for the case that another tool has those before, without an end."""
    yield sent_name(_parts(identity)[1])
    prefixed = prefixed_name(identity)
    yield prefixed
    for number in count():  # another server can compute a digest
        yield _with_digest(prefixed, identity.removeprefix(PREFIX) + "+" * number, _LONG_DIGEST)


@lru_cache(maxsize=1024)
def prefixed_name(identity: str) -> str:
    """Return a tool's name with its server's before it, which it has where another tool has its own."""
    server, name = _parts(identity)
    return sent_name(f"{server}_{sent_name(name)}")


@lru_cache(maxsize=1024)
def own_names(identity: str) -> frozenset[str]:
    """Return the name that a tool has at its server, as it is and as models may get it."""
    name = _parts(identity)[1]
    return frozenset((name, sent_name(name)))


def _parts(identity: str) -> tuple[str, str]:
    server, _, tool = identity.removeprefix(PREFIX).partition("/")
    return server, tool


def _with_digest(name: str, content: str, length: int) -> str:
    return f"{name[: MAX_NAME - length - 1]}_{hashlib.sha256(content.encode()).hexdigest()[:length]}"
