"""Which definition of a server's tool may be used: the first that was seen, until a person accepts another one.

A server may change what a tool says of itself at any time, and a model follows what it says. So the definition is
stored when the tool is first seen, and a call with another one asks an administrator, who sees all of both. The agents
of all tenants use what is accepted, so only runs of the deployment's own tenant ask.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from agents.tools.call_context import current_call
from agents.tools.mcp.catalogue.listed import ServerTool, from_json
from agents.tools.mcp.stores import opened_journal
from agents.tools.mcp.unaccepted_tools import UNACCEPTED
from bus.journal.approvals import ANSWERED_BY
from config.errors import ToolFailed
from config.identity.principal import Role
from config.text.visible import visible

MAX_WHOLE = 40 * 1024
"""Bytes of a change, all of which is in the form of the question; a larger one cannot be accepted."""
MAX_SHOWN = 600
"""Characters of both definitions each that are in the question."""
CONTEXT = 40
"""Characters that both have in common, before the first that differs."""
MAX_TEXT = 1900


def pinned_tools(server: str, seen: Mapping[str, ServerTool] | None) -> dict[str, ServerTool]:
    """Return a server's tools as they may be used; ``seen`` is what it lists now, or None where it does not answer.

    What is seen for the first time is stored. To be called on a plain thread. Without a database in use, as in
    ``./callboard agents``, it is what is seen.
    """
    opened = opened_journal()
    if opened is None:
        return dict(seen or {})
    manifests = opened.journal.stores.mcp_manifests
    if seen is None:
        return {name: from_json(text) for name, text in manifests.pinned(server).items()}
    pinned = manifests.pin(server, {name: (tool.digest, tool.json) for name, tool in seen.items()})
    tools = {name: from_json(pinned[name]) for name in seen}
    for name, tool in tools.items():
        UNACCEPTED.note(server, name, seen[name].digest, tool.digest)
    return tools


async def require_accepted(server: str, baseline: ServerTool, now: ServerTool) -> None:
    """Return if the definition that the server has now may be used; ask a person where it may not yet.

    Raises:
        QuestionAsked: the call ends, and is made again with the answer.
        ToolFailed: the person did not accept it, or has to be of another tenant, or it is too large to be shown whole.
    """
    opened = opened_journal()
    if opened is not None:
        journal = opened.journal
        pinned = (await journal.loop.read(journal.stores.mcp_manifests.pinned, server)).get(now.name)
        baseline = baseline if pinned is None else from_json(pinned)
    UNACCEPTED.note(server, now.name, now.digest, baseline.digest)
    if baseline.digest == now.digest:
        return
    if opened is not None and current_call().tenant != opened.settings.tenant:
        raise ToolFailed(
            f"the MCP server {server} has changed its tool {now.name}; it was not called. The operator has to accept "
            "the new definition first: the tool's next call in the deployment's own tenant asks for that."
        )
    answer = current_call().ask(form(server, baseline, now), question(server, baseline, now))
    if answer.get("accept") is not True:
        raise ToolFailed(f"a person did not accept how the MCP server {server} changed its tool {now.name}.")
    if opened is not None:
        journal = opened.journal
        await journal.loop.write(journal.stores.mcp_manifests.accept, server, now.name, now.digest, now.json)
    UNACCEPTED.note(server, now.name, now.digest, now.digest)


def form(server: str, baseline: ServerTool, now: ServerTool) -> dict[str, Any]:
    """Return the form by which an administrator accepts a change; it has the whole of what differs.

    Raises:
        ToolFailed: that is too large.
    """
    texts = _changed(baseline, now).items()
    whole = "\n\n".join(f"{name}, before:\n{before}\n{name}, now:\n{after}" for name, (before, after) in texts)
    if len(whole.encode()) > MAX_WHOLE:
        raise ToolFailed(
            f"the MCP server {server} has changed its tool {now.name}, and the change has more than {MAX_WHOLE:,} "
            "bytes, so that no person can be shown all of it; it was not called. Leave it out (`excluded_tools`), or "
            "have its server describe it in fewer words."
        )
    accept = {"type": "boolean", "title": "Use the new definition", "description": whole}
    about = {"type": "object", "properties": {"accept": accept}, "required": ["accept"], "additionalProperties": False}
    return about | {ANSWERED_BY: str(Role.ADMIN)}


def question(server: str, baseline: ServerTool, now: ServerTool) -> str:
    """Return what a person is asked, with both definitions where they differ; all differences share the room."""
    parts = [f"The MCP server {server} has changed its tool {now.name}. May agents use the new definition?"]
    changed = differences(baseline, now)
    parts += [f"{change.field}, before:\n{change.before}\n{change.field}, now:\n{change.now}" for change in changed]
    return "\n\n".join(parts)[:MAX_TEXT]


class DefinitionChange(NamedTuple):
    """A part of a definition that has changed."""

    field: str
    before: str
    now: str


def differences(baseline: ServerTool, now: ServerTool) -> list[DefinitionChange]:
    """Return what differs, from where it begins, with hidden characters visible, ``MAX_SHOWN`` characters in all."""
    changed = _changed(baseline, now)
    changes = []
    for name, (before, after) in changed.items():
        most = MAX_SHOWN // len(changed)
        common = os.path.commonprefix([before, after])  # noqa: RUF071  # compares characters
        first = max(0, len(common) - CONTEXT)
        changes.append(DefinitionChange(name, _shown(before, first, most), _shown(after, first, most)))
    return changes


def _changed(baseline: ServerTool, now: ServerTool) -> dict[str, tuple[str, str]]:
    texts = {name: (_text(before), _text(now.content[name])) for name, before in baseline.content.items()}
    return {name: (before, after) for name, (before, after) in texts.items() if before != after}


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    return visible(text).replace("\0", "")


def _shown(text: str, first: int, most: int) -> str:
    """Return the text from about where the two differ: a change may stand behind any number of equal characters."""
    left = len(text) - first - most
    return ("… " if first else "") + text[first : first + most] + (f"… ({left:,} more characters)" if left > 0 else "")
