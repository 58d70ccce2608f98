"""The credentials that the database decides about: API keys, tickets of streams, and which principals are disabled.

A key is looked up at most twice a second, as a principal is; secrets are compared in constant time.
"""

from __future__ import annotations

import hmac
import logging
import os
import time
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from bus.identity.credentials import keys, tickets
from bus.identity.credentials.credential import Caller
from bus.identity.credentials.key_form import SECRET_NAME, KeyForm
from bus.identity.credentials.keys import USED_EVERY_MS, ApiKey
from bus.identity.principals import disabled_among
from bus.identity.validity import ended
from config.database.shared_secret import shared_secret
from config.errors import CallboardError
from config.fresh import FreshByKey, keep
from config.identity.principal import Principal

if TYPE_CHECKING:
    from bus.journal import Journal
    from web.process import WebProcess


log = logging.getLogger(__name__)

FRESH_S = 0.5
"""Seconds that a looked-up key is used for: a revocation takes effect everywhere within these and a query."""
_NO_DIGEST = "0" * 64


class KeyVerifier:
    """Finds the callers of API keys; one per process.

    Ids that this deployment did not make are refused without a query and without being kept (``KeyForm.id_of``), so
    that guesses cost neither memory nor the database anything.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.form = KeyForm(partial(shared_secret, journal.database, SECRET_NAME))
        self._known = FreshByKey[str, ApiKey | None]()
        """By id: a key; None: it is not valid."""
        self._checked: dict[bytes, tuple[ApiKey, Caller]] = {}
        """By the mark of a whole key: what it is, which counts as long as the key's row is fresh."""
        self._mark_key = os.urandom(32)
        self._noted_s: dict[str, float] = {}

    def caller(self, text: str) -> Caller | None:
        """Return who acts with this key, or None; the work is the same for each reason."""
        # The two HMACs of a check take a tenth of a millisecond where others use the processor's caches: OpenSSL.
        mark = blake2b(text.encode(), digest_size=16, key=self._mark_key).digest()
        checked = self._checked.get(mark)
        if checked is not None and self._known.has(checked[0].id, checked[0], FRESH_S):
            return checked[1]
        key_id = self.form.id_of(text)
        key = self._known.get(key_id, FRESH_S, partial(self._live, key_id)) if key_id is not None else None
        matches = hmac.compare_digest(self.form.digest(text), key.digest if key is not None else _NO_DIGEST)
        if key is None or not matches:
            return None
        self._note_use(key)
        keep(self._checked, mark, (key, key.caller))
        return key.caller

    def _live(self, key_id: str) -> ApiKey | None:
        with self.journal.database.read() as connection:
            return keys.live(connection, [key_id]).get(key_id)

    def _note_use(self, key: ApiKey) -> None:
        """Record the use soon, on another thread and at most once a minute."""
        now_s = time.monotonic()
        if now_s - self._noted_s.get(key.id, -USED_EVERY_MS) < USED_EVERY_MS / 1000:
            return
        self._noted_s[key.id] = now_s
        self.journal.loop.submit(self.journal.loop.write(self._record_use, key.id))

    def _record_use(self, key_id: str) -> None:
        try:
            with self.journal.database.write() as connection:
                keys.note_use(connection, key_id)
        except CallboardError as error:  # of no importance to the request
            log.info("use of an API key not recorded: %s", error, extra={"key_id": key_id})


class DisabledPrincipals:
    """Looks up each principal at most twice a second; one per process and kind of credential."""

    def __init__(self, process: WebProcess) -> None:
        self._process = process
        self._known = FreshByKey[tuple[str, str], bool]()

    def has(self, principal: Principal) -> bool:
        """Return whether all credentials of the principal were ended."""
        key = principal.tenant, principal.id
        return self._known.get(key, FRESH_S, partial(self._look_up, key))

    def _look_up(self, key: tuple[str, str]) -> bool:
        with self._process.journal.database.read() as connection:
            return bool(disabled_among(connection, [key]))


TICKET_ENDPOINT = "events.of_run"
"""The one endpoint that takes a ticket."""
TICKET_PARAMETER = "ticket"


def caller_of_ticket(journal: Journal, form: KeyForm, ticket: str, run_id: str) -> Caller | None:
    """Return who asked for the ticket, if it is valid for this run and its credential still is.

    What this deployment did not make is refused without a query.
    """
    if not form.is_ticket(ticket):
        return None
    with journal.database.write() as connection:
        caller = tickets.take(connection, form, ticket, run_id)
    if caller is None or ended(journal.database, [caller], journal.settings.tls_principals):
        return None
    return caller
