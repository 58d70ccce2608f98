"""Reads and verifies chains: every digest is computed again, and compared with heads that were written elsewhere.

An owner of the database can also build a whole chain anew. Only heads that were written outside of it
before, the anchors, show that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Row, select

from bus.identity.audit.anchors import Anchor
from bus.identity.audit.entry import GENESIS, AuditEntry, digest_of, entry_of, shown_of
from config.database.engine import Database
from config.database.tables import audit, audit_heads

PAGE = 1000
"""Entries read at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """What was found in one tenant's chain."""

    tenant: str
    entries: int
    """Entries read before the first that is broken, or all."""
    anchors: int
    """Anchors of different entries that the chain was compared with; one entry's head is in several files."""
    digest: str
    """The digest of the last of these entries."""
    broken: int | None = None
    """The number of the first broken entry; None: the chain is whole."""
    problem: str = ""
    """What is wrong with it."""


class _Broken(Exception):
    """An entry does not fit the chain."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number


def tenants(database: Database) -> list[str]:
    """Return the tenants that have entries, or a head that says so."""
    query = select(audit_heads.c.tenant).union(select(audit.c.tenant).distinct())
    with database.read() as connection:
        return sorted(connection.execute(query).scalars())


def entries(database: Database, tenant: str, *, after: int = 0) -> Iterator[AuditEntry]:
    """Yield a tenant's entries behind a number, in their order; each page is read on its own."""
    for row in _rows(database, tenant, after):
        yield shown_of(row)


def newest(
    database: Database, tenant: str, *, limit: int, before: int | None = None, **values: str | None
) -> list[AuditEntry]:
    """Return a tenant's last entries, the newest first; the next page is ``before`` the last one's number.

    ``values``: only entries with these values in columns; None restricts nothing.
    """
    query = select(audit).where(audit.c.tenant == tenant).order_by(audit.c.number.desc()).limit(limit)
    query = query.where(*(audit.c[name] == value for name, value in values.items() if value is not None))
    if before is not None:
        query = query.where(audit.c.number < before)
    with database.read() as connection:
        return [shown_of(row) for row in connection.execute(query)]


def verify(database: Database, tenant: str, anchors: Sequence[Anchor] = ()) -> Verified:
    """Compute a tenant's chain again, from its first entry, and return what was found."""
    by_number = _by_number(anchors, tenant)
    head_number, head_digest = _head(database, tenant)  # before the entries: others may be added meanwhile
    count, digest = 0, GENESIS
    broken: _Broken | None = None
    try:
        for row in _rows(database, tenant, 0):
            entry_digest = _checked(row, count + 1, digest)
            _require_anchored(by_number.get(row.number, ()), row.number, entry_digest)
            count, digest = row.number, entry_digest
        _require_all(
            count, max(by_number, default=0), f"the anchor in {by_number[max(by_number)][0].place}" if by_number else ""
        )
        _require_all(count, head_number, "the table audit_heads")
        if count == head_number and digest != head_digest:
            raise _Broken(count, "its digest is not the one that the table audit_heads has")
        _require_head(_head(database, tenant)[0], count)
    except _Broken as error:
        broken = error
    return Verified(
        tenant=tenant,
        entries=count,
        anchors=len(by_number),
        digest=digest,
        broken=broken.number if broken is not None else None,
        problem=str(broken or ""),
    )


def _by_number(anchors: Sequence[Anchor], tenant: str) -> dict[int, list[Anchor]]:
    """Return a tenant's anchors by number. All count: the newest one of a number may be of a changed entry."""
    by_number: dict[int, list[Anchor]] = {}
    for anchor in anchors:
        if anchor.tenant == tenant:
            by_number.setdefault(anchor.number, []).append(anchor)
    return by_number


def _rows(database: Database, tenant: str, after: int) -> Iterator[Row[Any]]:
    """Yield the rows behind a number in their order, a page at a time."""
    query = select(audit).where(audit.c.tenant == tenant).order_by(audit.c.number).limit(PAGE)
    while True:
        with database.read() as connection:
            page = connection.execute(query.where(audit.c.number > after)).all()
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].number


def _head(database: Database, tenant: str) -> tuple[int, str]:
    query = select(audit_heads.c.number, audit_heads.c.digest).where(audit_heads.c.tenant == tenant)
    with database.read() as connection:
        row = connection.execute(query).first()
    return (row.number, row.digest) if row is not None else (0, GENESIS)


def _checked(row: Row[Any], number: int, previous: str) -> str:
    """Return the digest of a row that fits behind the entry with the digest ``previous``."""
    if row.number != number:
        raise _Broken(number, f"it is missing; the next one is entry {row.number}")
    if row.previous != previous:
        raise _Broken(number, "it does not follow the entry before it: that one, or this one, was replaced")
    try:
        is_own = row.digest == digest_of(entry_of(row))
    except (orjson.JSONDecodeError, TypeError, OverflowError, ValueError):  # no entry has such values
        is_own = False
    if not is_own:
        raise _Broken(number, "its digest does not fit its contents: a field was changed")
    return str(row.digest)


def _require_anchored(anchors: Sequence[Anchor], number: int, digest: str) -> None:
    for anchor in anchors:
        if anchor.digest != digest:
            raise _Broken(number, f"its digest is not the one that {anchor.place} has")


def _require_head(number: int, count: int) -> None:
    """Raise unless the head, which moves with each entry, is at the last of these or further."""
    if number < count:
        last = f"entry {number} as the last one" if number else "no entry"
        why = f"the table audit_heads has {last}, and the chain ends with entry {count}; no entry can be added"
        raise _Broken(max(number, 1), why)


def _require_all(count: int, minimum: int, where: str) -> None:
    if count < minimum:
        raise _Broken(count + 1, f"it is missing: the chain ends with entry {count}, and {where} has entry {minimum}")
