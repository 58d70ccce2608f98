"""The digest of an agent's behaviour, apart from the digest of its whole file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from config.ids import canonical_digest

MAX_ITERATIONS = 8
"""Most rounds with tools, unless the definition says otherwise."""
ON_DISCONNECT = r"^(continue|(stop|pause):([3-9]|[1-9][0-9]{1,4}))$"
ON_DISCONNECT_FORM = "has to be `continue`, `stop:N` or `pause:N`, with N from 3 to 99999 seconds without viewers."
"""What becomes of a run without viewers, as a pattern and for a person."""
SHOWN = frozenset(
    """
    name description category_tag listed starters access queue priority observers
    agent_name agent_friendly_description starter_prompt
    """.split()
)
"""Fields that change nothing of what a run does: what people see of the agent, who may start it, where its runs go and
who watches them. A run's row keeps the last two; the file decides about access at each start."""


def behaviour_of(content: Mapping[str, Any]) -> str:
    """Return SHA-256 of what an agent's file says about its behaviour, as canonical JSON.

    Prompt, model, tools, schemas, limits and each field of a later release count, so what is not known to be harmless
    is another version.
    """
    return canonical_digest({name: value for name, value in content.items() if name not in SHOWN})


def behaviour_in(content_json: str) -> str:
    """Return the digest of behaviour of a definition that is stored as JSON."""
    content = orjson.loads(content_json)
    return behaviour_of(content) if isinstance(content, dict) else canonical_digest(content)


def max_iterations_in(content_json: str) -> int:
    """Return the most rounds with tools of a definition that is stored as JSON."""
    return int(orjson.loads(content_json).get("max_iterations", MAX_ITERATIONS))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields that differ between two contents, those of behaviour first; an absent one has no value."""
    fields = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return [
        {"field": name, "is_behaviour": name not in SHOWN}
        | {side: content[name] for side, content in (("before", before), ("after", after)) if name in content}
        for name in sorted(fields, key=lambda name: (name in SHOWN, name))
    ]


def dropped_tools(before: Mapping[str, Any], after: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of tools that one content lists and the other cannot have, as far as their lines say.

    A new line of an MCP server or a Celery application may bring a tool of any name, so nothing is certain then.
    """
    fresh = {*_lines(after)} - {*_lines(before)}
    if any(line.startswith(("mcp:", "celery:")) for line in fresh) or "mcp_server_definition" in after:
        return frozenset()
    return _named(before) - _named(after)


def _lines(content: Mapping[str, Any]) -> list[str]:
    return [str(line) for line in content.get("tools") or ()]


def _named(content: Mapping[str, Any]) -> frozenset[str]:
    own = (line for line in _lines(content) if not line.startswith(("mcp:", "celery:")))
    return frozenset(line.rpartition(":")[2] for line in own)
