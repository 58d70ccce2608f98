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


def state_text(row: Mapping[str, Any]) -> str:
    """Return a server's state with what belongs to it, on one line."""
    state = str(row["state"])
    parts = [WORDS.get(state, visible(state))]
    if row.get("sessions", 0) > 1:
        parts.append(f"{row['sessions']} sessions")
    if row.get("tools") is not None:
        parts.append(f"{row['tools']} tools")
    if row.get("changed"):
        parts.append(f"changed: {visible(', '.join(row['changed']))}")
    if state == "backing_off":
        left_s = row.get("next_try_s", 0)
        parts.append(f"again in {left_s:g} s" if left_s else "the next call tries again")
    text = ", ".join(parts)
    return f"{text}: {visible(' '.join(row['reason'].split()))}" if row.get("reason") else text
