"""How the terminal writes the state of an MCP server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from config.text.visible import visible

WORDS = {
    "invalid": "its file cannot be used",
    "needs_login": "needs a login",
    "backing_off": "backing off",
    "starting": "starting",
    "ready": "ready",
    "idle": "idle",
    "configured": "not used yet",
    "disabled": "disabled",
}


def state_text(said: Mapping[str, Any]) -> str:
    """Return a server's state with what belongs to it, on one line."""
    state = str(said["state"])
    parts = [WORDS.get(state, visible(state))]
    if said.get("sessions", 0) > 1:
        parts.append(f"{said['sessions']} sessions")
    if said.get("tools") is not None:
        parts.append(f"{said['tools']} tools")
    if said.get("changed"):
        parts.append(f"changed: {visible(', '.join(said['changed']))}")
    if state == "backing_off":
        left_s = said.get("next_try_s", 0)
        parts.append(f"again in {left_s:g} s" if left_s else "the next call tries again")
    text = ", ".join(parts)
    return f"{text}: {visible(' '.join(said['reason'].split()))}" if said.get("reason") else text
