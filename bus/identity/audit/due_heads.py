"""Which heads of the audit log a process has to write outside the database now.

The columns ``anchored`` and ``anchored_ms`` of the table ``audit_heads`` share the work among the processes. Their own
database role may set them, so they cannot be trusted to say that nothing is due: each process also remembers the heads
that it saw, and writes each of them once an hour by its own clock, whatever the database says.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from sqlalchemy import ColumnElement, Connection, Row, or_, select, update

from bus.identity.audit.anchors import SECRET_NAME, AuditHead, signature_of
from config.clock import stamp
from config.database.engine import WALL_MS, Database
from config.database.shared_secret import shared_secret
from config.database.tables import audit, audit_heads

log = logging.getLogger(__name__)

EVERY_MS = 60_000
"""Milliseconds after which a head that moved is written again."""
EVERY_ENTRIES = 1000
"""Entries after which it is written before that time."""
AGAIN_MS = 3_600_000
"""Milliseconds after which a head that did not move is written again: the process may have ended before it wrote."""

_HEADS = audit_heads.c.tenant, audit_heads.c.number, audit_heads.c.digest


def take_due(database: Database) -> list[AuditHead]:
    """Return the heads that have to be written now; of several processes one gets each.

    A head that moved is due after a minute, or after 1,000 entries; any other after an hour. One that is said to be
    written further than it is, or later than now, is due at once: no process wrote that.
    """
    with database.read() as connection:  # most calls find none, and take no lock
        if connection.execute(select(audit_heads.c.tenant).where(_is_due()).limit(1)).first() is None:
            return []
    secret = shared_secret(database, SECRET_NAME)
    take = update(audit_heads).where(_is_due()).values(anchored=audit_heads.c.number, anchored_ms=WALL_MS)
    with database.write() as connection:
        return [_signed(row, secret) for row in connection.execute(take.returning(*_HEADS))]


def _is_due() -> ColumnElement[bool]:
    """Return what an update finds out again behind the lock of the row, with the time of then."""
    heads = audit_heads.c
    moved = (heads.number > heads.anchored) & (heads.anchored_ms <= WALL_MS - EVERY_MS)
    in_time = or_(moved, heads.number >= heads.anchored + EVERY_ENTRIES, heads.anchored_ms <= WALL_MS - AGAIN_MS)
    return or_(in_time, heads.anchored > heads.number, heads.anchored_ms > WALL_MS)


def _signed(row: Row[str, int, str], secret: str) -> AuditHead:
    signature = signature_of(secret, row.tenant, row.number, row.digest)
    return AuditHead(tenant=row.tenant, number=row.number, digest=row.digest, signature=signature, at=stamp())


class KnownHeads:
    """The last head of each tenant that this process saw, and when it wrote one: what the database cannot change."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, AuditHead] = {}
        self._written_s: dict[str, float] = {}
        """When this process last wrote a head of the tenant, or first saw one."""
        self._read_s = float("-inf")

    def due(self, database: Database) -> list[AuditHead]:
        """Return the heads that this process has to write now: its share, and its own. Call it every few seconds."""
        lost = self._lost(database)
        taken = take_due(database)
        for head in taken:
            if (last_head := self._known.get(head.tenant)) is None or head.number >= last_head.number:
                self._known[head.tenant] = head
                self._written_s[head.tenant] = self._clock()
        return [*lost, *taken, *self._unwritten()]

    def _lost(self, database: Database) -> list[AuditHead]:
        """Read all heads once a minute, and return the known ones that their chains do not contain any more."""
        if self._clock() - self._read_s < EVERY_MS / 1000:
            return []
        secret = shared_secret(database, SECRET_NAME)
        with database.read() as connection:
            heads = {row.tenant: _signed(row, secret) for row in connection.execute(select(*_HEADS))}
            lost = [
                audit_head
                for audit_head in self._known.values()
                if not _is_kept(connection, heads.get(audit_head.tenant), audit_head)
            ]
        self._read_s = self._clock()
        self._known = heads
        self._written_s = {tenant: self._written_s.get(tenant, self._read_s) for tenant in heads}
        for head in lost:
            facts = {"tenant": head.tenant, "number": head.number}
            log.error("an entry of the audit log was removed or changed; run `audit verify`", extra=facts)
        return lost

    def _unwritten(self) -> list[AuditHead]:
        """Return the known heads of tenants of which this process wrote none for an hour."""
        now_s = self._clock()
        late = [head for head in self._known.values() if now_s - self._written_s[head.tenant] >= AGAIN_MS / 1000]
        self._written_s |= dict.fromkeys((head.tenant for head in late), now_s)
        return late


def _is_kept(connection: Connection, head: AuditHead | None, last_head: AuditHead) -> bool:
    """Whether a chain with this head contains an earlier head."""
    if head is None or head.number < last_head.number:
        return False
    query = select(audit.c.digest).where(audit.c.tenant == last_head.tenant, audit.c.number == last_head.number)
    same = head.number == last_head.number
    return last_head.digest == (head.digest if same else connection.execute(query).scalar())
