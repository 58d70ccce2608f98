"""Anchors: heads of the audit log that are kept outside the database, in log files and by observers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import ColumnElement, or_, select, update

from config.clock import stamp
from config.database.engine import WALL_MS, Database, wall_ms
from config.database.tables import audit_heads
from config.identity.principal import NAME

EVERY_MS = 60_000
"""Milliseconds after which a head that moved is written again."""
EVERY_ENTRIES = 1000
"""Entries after which it is written before that time."""
AGAIN_MS = 3_600_000
"""Milliseconds after which a head that did not move is written again: the process may have ended before it wrote."""
WORDS = "audit head"
"""What begins the line of an anchor."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditHead:
    """The last entry of a tenant's chain at some time."""

    tenant: str
    number: int
    digest: str
    at: str

    def text_line(self) -> str:
        return f"{self.at}  {WORDS} tenant={self.tenant} number={self.number} digest={self.digest}"

    def json_line(self) -> str:
        facts = {"at": self.at, "type": WORDS, "tenant": self.tenant, "number": self.number, "digest": self.digest}
        return orjson.dumps(facts).decode()


@dataclass(frozen=True, kw_only=True, slots=True)
class Anchor:
    """A head as a log file has it."""

    tenant: str
    number: int
    digest: str
    place: str
    """The file and the line."""


def take_due(database: Database) -> list[AuditHead]:
    """Return the heads that have to be written now; of several processes one gets each.

    A head that moved is due after a minute, or after 1,000 entries; any other after an hour.
    """
    with database.read() as connection:  # most calls find none, and take no lock
        now_ms = wall_ms(connection)
        if connection.execute(select(audit_heads.c.tenant).where(_is_due(now_ms)).limit(1)).first() is None:
            return []
    take = update(audit_heads).where(_is_due(now_ms)).values(anchored=audit_heads.c.number, anchored_ms=WALL_MS)
    with database.write() as connection:
        rows = connection.execute(take.returning(audit_heads.c.tenant, audit_heads.c.number, audit_heads.c.digest))
        return [AuditHead(**row._mapping, at=stamp(now_ms)) for row in rows]


def _is_due(now_ms: int) -> ColumnElement[bool]:
    heads = audit_heads.c
    moved = (heads.number > heads.anchored) & (heads.anchored_ms <= now_ms - EVERY_MS)
    return or_(moved, heads.number >= heads.anchored + EVERY_ENTRIES, heads.anchored_ms <= now_ms - AGAIN_MS)


# --- reading them back ----------------------------------------------------------------------------

# A line of the logger observer, or one of this application's log, with the child's name before it in `logs/up.log`.
# Nothing but the program itself begins a line: text of agents and clients has no line ends in these files.
# The application's log puts the context's fields, such as the principal, before the record's own.
_TEXT = re.compile(
    r"(?:[\w-]{1,40} {1,9})?\d{4}-[\d:T.-]{1,24}Z {1,9}(?:INFO {1,9}[\w.-]{1,80} observers\.audit_heads )?"
    rf"{WORDS} (?:\w{{1,40}}=[^\s=]{{1,80}} ){{0,4}}tenant=({NAME}) number=(\d{{1,18}}) digest=([0-9a-f]{{64}})"
)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_CHARS = 2000


def anchors_in(paths: Iterable[Path]) -> Iterator[Anchor]:
    """Yield the anchors that log files have: text or JSON, of the application or of the logger observer."""
    for path in paths:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if WORDS.encode() in line and len(line) < _MOST_CHARS:
                    found = _parsed(line.decode("utf-8", "replace").strip())
                    if found is not None:
                        yield Anchor(**found, place=f"{path}:{number}")


def _parsed(line: str) -> dict[str, Any] | None:
    match = _TEXT.fullmatch(line)
    if match is not None:
        return {"tenant": match[1], "number": int(match[2]), "digest": match[3]}
    name, brace, rest = line.partition("{")
    if len(name.split()) > 1:  # more than the name of the child: text of a client or an agent
        return None
    try:
        facts = orjson.loads(brace + rest)
    except orjson.JSONDecodeError:
        return None
    is_own = facts.get("type") == WORDS or (
        facts.get("logger") == "observers.audit_heads" and facts.get("message") == WORDS
    )
    return _head_in(facts) if is_own else None


def _head_in(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a head, unless one has a form that Callboard does not write."""
    tenant, number, digest = (facts.get(name) for name in ("tenant", "number", "digest"))
    if not isinstance(tenant, str) or not isinstance(digest, str) or type(number) is not int:
        return None
    is_head = re.fullmatch(NAME, tenant) and _DIGEST.fullmatch(digest)
    return {"tenant": tenant, "number": number, "digest": digest} if is_head else None
