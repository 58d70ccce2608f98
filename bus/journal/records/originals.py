"""Sealed originals: written with the commit that has what is left of them, read by administrators with an entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, insert, select

from bus.identity.access import may_administer, rows_for
from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from bus.identity.errors import forbidden
from bus.journal.errors import RunUnknown
from bus.sealing import Original, Sealer, bound_to
from config.database.engine import Database
from config.database.tables import runs, sealed_originals
from config.identity.principal import Principal, Verb

MAX_LISTED = 20
"""Names of originals that an entry of the audit log has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsealed:
    """An original as it was."""

    id: str
    what: str
    """What it was; see ``Original.what``."""
    created_ms: int
    value: Any = field(repr=False)
    """The text, or JSON data."""


def write_originals(connection: Connection, run_id: str, originals: Sequence[Original]) -> None:
    """Insert the originals of a run, encrypted."""
    if originals:
        connection.execute(insert(sealed_originals), [original.row(run_id) for original in originals])


def unseal_originals(
    database: Database, sealer: Sealer | None, principal: Principal, run_id: str, reason: str
) -> list[Unsealed]:
    """Return the originals of a run, the oldest first; the audit log has who read them, and why, before that.

    Raises:
        RunUnknown: there is no such run, or the principal does not see it.
        FORBIDDEN: the principal does not administer its tenant.
        SealKeyMissing, SealBroken: one of them cannot be decrypted.
    """
    keyring = sealer or Sealer(())
    with database.write() as connection:
        of_run = select(runs.c.id).where(runs.c.id == run_id, rows_for(principal, Verb.SEE, runs))
        if connection.execute(of_run).first() is None:
            raise RunUnknown(run_id=run_id)
        if not may_administer(principal):
            raise forbidden(principal, Verb.ADMINISTER, "this tenant")
        query = select(sealed_originals).where(sealed_originals.c.run_id == run_id)
        rows = connection.execute(query.order_by(sealed_originals.c.created_ms, sealed_originals.c.id)).all()
        names = [row.what for row in rows][:MAX_LISTED]
        read = Action.ORIGINALS_READ
        record(connection, principal, read, "run", run_id, count=len(rows), what=names, reason=reason)
    return [
        Unsealed(
            id=row.id,
            what=row.what,
            created_ms=row.created_ms,
            value=keyring.unseal(row.key_name, row.sealed, bound_to(run_id, row.what)),
        )
        for row in rows
    ]
