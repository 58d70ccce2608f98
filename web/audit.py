"""Connects requests with the audit log: entries name the credential that acted, and refusals are counted.

A client without a credential can send thousands of requests a second. Each as an entry would fill the database, and
make the tenant's other recorded changes wait. So the first refusal is written at once, and those that follow within
``EVERY_S`` as one entry a tenant, by a thread. A process that is killed loses the sums of that time.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from flask import Flask, Response, g, request

from bus.identity.audit.entry import Action, AuditOutcome
from bus.identity.audit.recording import PROCESS, acting_with, record
from bus.identity.credentials.credential import Caller
from config.clock import stamp
from config.database.engine import Database
from config.errors import CallboardError
from config.identity.principal import Principal
from web.auth.authentication import is_anonymous
from web.errors import Unauthenticated
from web.process import WebProcess

EXTENSION = "callboard_refusals"
"""The application's extension with its refusals that are not in the audit log yet."""
REFUSED = (401, 403)
"""Statuses that are counted. 404 is not: a run that the caller does not see costs the same as one that is not there.

Of the 401s, only those count whose request carried a credential: a page that asks who is reading carries none.
"""


def register(app: Flask, process: WebProcess) -> None:
    """Name each request's credential, and count the refused ones; to be called after the authentication's."""
    refusals = app.extensions[EXTENSION] = Refusals(lambda: process.journal.database)
    process.at_close(refusals.close)

    @app.before_request
    def act() -> None:
        credential = caller.credential if (caller := _caller()) is not None else None
        acting_with.set((credential.kind, credential.id) if credential is not None else ("none", ""))

    @app.teardown_request
    def act_no_more(_error: BaseException | None) -> None:
        acting_with.set(PROCESS)  # the thread may do other work

    @app.after_request
    def count(answer: Response) -> Response:
        if answer.status_code in REFUSED:
            refusal = _refusal(answer, process)
            if refusal.code != Unauthenticated.code or not is_anonymous():
                refusals.add(refusal)
        return answer


def _caller() -> Caller | None:
    caller: Caller | None = g.get("caller")
    return caller


def _refusal(answer: Response, process: WebProcess) -> Refusal:
    caller = _caller()
    code = (answer.get_json(silent=True) or {}).get("code", "")
    return Refusal(
        tenant=caller.principal.tenant if caller is not None else process.settings.tenant,
        principal=caller.principal.id if caller is not None else "",
        credential=caller.credential.kind if caller is not None else "none",
        credential_id=caller.credential.id if caller is not None else "",
        code=code,
        address=request.remote_addr or "",
    )


log = logging.getLogger(__name__)

EVERY_S = 10.0
"""Seconds between two writes."""
MAX_KINDS = 20
"""Kinds of refusals that a tenant's entry lists; the number of all others is its fact ``others``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """Who was refused, from where, and why."""

    tenant: str
    """The tenant whose log has it: the caller's, or the installation's own where the caller is not known."""
    principal: str
    credential: str
    credential_id: str
    code: str
    """The error's."""
    address: str


class Refusals:
    """The refusals of this process that are not written yet, and the thread that writes them."""

    def __init__(self, open_database: Callable[[], Database], every_s: float = EVERY_S) -> None:
        self._open_database = open_database
        self._every_s = every_s
        self._lock = threading.Lock()
        self._sums: dict[str, Counter[Refusal | None]] = {}
        self._since = ""
        self._there_are_some = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, refusal: Refusal) -> None:
        """Count a refusal; the caller waits for no database."""
        with self._lock:
            self._since = self._since or stamp()
            self._count(refusal.tenant, refusal, 1)
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._work, name="callboard-refusals", daemon=True)
                self._thread.start()
        self._there_are_some.set()

    def close(self) -> None:
        """Write what was counted, and stop; if the database does not take it within 2 s, it is lost."""
        self._stopping.set()
        self._there_are_some.set()
        if self._thread is not None:
            self._thread.join(2)

    def _count(self, tenant: str, refusal: Refusal | None, number: int) -> None:
        sums = self._sums.setdefault(tenant, Counter())
        sums[refusal if refusal in sums or len(sums) < MAX_KINDS else None] += number

    def _work(self) -> None:
        while not self._stopping.is_set():
            self._there_are_some.wait()
            self._there_are_some.clear()
            self._write()
            self._stopping.wait(self._every_s)
        self._write()

    def _write(self) -> None:
        with self._lock:
            sums, self._sums, since, self._since = self._sums, {}, self._since, ""
        for tenant, counted in sums.items():
            try:
                _record(self._open_database(), tenant, counted, since)
            except CallboardError as error:
                log.warning("refused requests are recorded later: %s", error)
                self._put_back(tenant, counted, since)
            except Exception:  # the thread must survive any error
                log.exception("refused requests could not be recorded")

    def _put_back(self, tenant: str, counted: Counter[Refusal | None], since: str) -> None:
        with self._lock:
            self._since = since
            for refusal, number in counted.items():
                self._count(tenant, refusal, number)
        self._there_are_some.set()


def _record(database: Database, tenant: str, counted: Counter[Refusal | None], since: str) -> None:
    kinds = [_shown(refusal, number) for refusal, number in counted.most_common() if refusal is not None]
    principals = {refusal.principal for refusal in counted if refusal is not None}
    whose = Principal(tenant=tenant, id=principals.pop() if len(principals) == 1 else "")
    facts = {"since": since, "refused": kinds, "others": counted[None] or None}
    with database.write() as connection:
        record(connection, whose, Action.ACCESS, "requests", "", outcome=AuditOutcome.REFUSED, **facts)


def _shown(refusal: Refusal, number: int) -> dict[str, Any]:
    facts = {name: value for name, value in asdict(refusal).items() if name != "tenant" and value}
    return {**facts, "count": number}
