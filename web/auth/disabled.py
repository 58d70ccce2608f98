"""Which principals are disabled, for credentials that the database does not have."""

from __future__ import annotations

import time

from bus.identity.principals import disabled_among
from config.identity.principal import Principal
from web.auth.keys import FRESH_S
from web.process import WebProcess

MAX_KNOWN = 10_000


class DisabledPrincipals:
    """Looks up each principal at most twice a second; one per process and kind of credential."""

    def __init__(self, process: WebProcess) -> None:
        self._process = process
        self._checked: dict[tuple[str, str], tuple[float, bool]] = {}

    def has(self, principal: Principal) -> bool:
        """Return whether all credentials of the principal were ended."""
        now_s, key = time.monotonic(), (principal.tenant, principal.id)
        at_s, is_disabled = self._checked.get(key, (-FRESH_S, False))
        if now_s - at_s >= FRESH_S:
            with self._process.journal.database.read() as connection:
                is_disabled = bool(disabled_among(connection, [key]))
            if len(self._checked) >= MAX_KNOWN:
                self._checked.clear()
            self._checked[key] = now_s, is_disabled
        return is_disabled
