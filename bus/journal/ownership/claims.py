"""On which terms a process claims a run, and what comes of it: it begins, it waits, or there is nothing to claim."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

import orjson
from sqlalchemy import Connection

from bus.journal.states import owned
from bus.journal.states.crashes import SUSPECT_AFTER, is_suspect, must_be_alone
from bus.journal.states.lease import Lease
from bus.queues import ServedQueues

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimTerms:
    """On which terms a process takes a run.

    The claim's own statement has them as conditions, so that a claim is never made and rolled back.
    """

    run_id: str
    queues: ServedQueues | None = None
    """Those that the process serves; None: every queue."""
    definition: tuple[str, str] | None = None
    """The agent's id and the digest of the definition that the process has loaded for it; None: any."""
    crashes: int | None = SUSPECT_AFTER - 1
    """How many owners it may have lost; None: any number."""
    is_suspect: bool = False
    """Whether the process has to admit it as a suspect, beside which it works on no other."""
    must_be_alone: bool = False
    """Whether the process has to admit it as a run beside which it works on none."""


@dataclass(frozen=True, slots=True)
class Begun(Generic[T]):
    """The claim is committed, with the start of the first step."""

    lease: Lease
    work: T


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run stays queued: it cannot be claimed on these terms."""

    reason: Literal["queue", "definition", "suspect", "leaving"]
    terms: ClaimTerms | None = None
    """On which this process can claim it; None: it cannot."""


@dataclass(frozen=True, slots=True)
class Refused:
    """There is nothing to claim: the run is not queued, or an earlier run of its thread is open."""


def why_not(connection: Connection, terms: ClaimTerms) -> Waiting | Refused:
    """Return why a run cannot be claimed on these terms, and on which it can."""
    row = owned.claimable(connection, terms.run_id)
    if row is None:
        return Refused()
    if terms.queues is not None and not terms.queues.has(row.queue):
        return Waiting("queue")
    definition = row.agent_id, row.definition_digest
    if terms.definition not in (None, definition):
        return Waiting("definition", replace(terms, definition=definition))
    if terms.crashes is None or row.crashes <= terms.crashes:  # since the claim's statement
        return Refused()
    notes = orjson.loads(row.crashes_json or "[]")
    suspect, alone = is_suspect(row.crashes, notes), must_be_alone(row.crashes, notes)
    return Waiting("suspect", replace(terms, crashes=row.crashes, is_suspect=suspect, must_be_alone=alone))
