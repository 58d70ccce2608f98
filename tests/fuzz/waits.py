"""Shorter waits: schemathesis asks for up to 300 s each, and runs of an agent without a worker never end."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

from schemathesis import Case

MOST_S = 2
"""As valid as what was generated; whatever is not a valid wait stays as it is."""
_PREFERRED = re.compile(r"\bwait=\d+")


def shorten(case: Case) -> None:
    """Let the request ask for a wait of at most two seconds."""
    for part in (case.body, case.query):
        for name in ("wait_s", "timeout"):
            if isinstance(part, MutableMapping) and name in part:
                part[name] = _shorter(part[name])
    if case.headers is not None and isinstance(preferred := case.headers.get("Prefer"), str):
        case.headers["Prefer"] = _PREFERRED.sub(f"wait={MOST_S}", preferred)


def _shorter(wait_s: Any) -> Any:
    try:
        return MOST_S if MOST_S < float(wait_s) <= 300 and not isinstance(wait_s, bool) else wait_s
    except (TypeError, ValueError):
        return wait_s
