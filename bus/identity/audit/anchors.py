"""Anchors: heads of the audit log that are kept outside the database, in log files and by observers."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from config.identity.principal import NAME

SECRET_NAME = "audit_anchors"
"""The secret of the installation that signs anchors."""
WORDS = "audit head"
"""What begins the line of an anchor."""
LOGGER = "observers.audit_heads"
"""The logger of anchors: their lines in log files are found by its name, so it stays what it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditHead:
    """The last entry of a tenant's chain at some time."""

    tenant: str
    number: int
    digest: str
    signature: str
    """Proves that this installation wrote it; ``signature_of``."""
    at: str

    def facts(self) -> dict[str, Any]:
        """Return what an anchor has of it, in the order of its line."""
        return {name: getattr(self, name) for name in ("tenant", "number", "digest", "signature")}

    def text_line(self) -> str:
        return f"{self.at}  {WORDS} " + " ".join(f"{name}={value}" for name, value in self.facts().items())

    def json_line(self) -> str:
        return orjson.dumps({"at": self.at, "type": WORDS, **self.facts()}).decode()


@dataclass(frozen=True, kw_only=True, slots=True)
class Anchor:
    """A head as a log file has it."""

    tenant: str
    number: int
    digest: str
    place: str
    """The file and the line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Anchors:
    """What log files have."""

    signed: list[Anchor]
    skipped: int
    """Lines of an anchor's form that this installation did not sign: printed by a tool, say, or of another one."""


def signature_of(secret: str, tenant: str, number: int, digest: str) -> str:
    """Return the HMAC-SHA256 of a head, keyed with the installation's secret: 64 hexadecimal digits.

    A tool may print what it likes to a worker's log, and a chain would be reported as broken that is whole.
    """
    text = f"{WORDS}\n{tenant}\n{number}\n{digest}"
    return hmac.digest(bytes.fromhex(secret), text.encode(), "sha256").hex()


# --- reading them back ----------------------------------------------------------------------------

# A line of the logger observer, or one of this application's log, with the child's name before it in `logs/up.log`.
# Text of agents and clients begins no line there, but what a tool prints does: hence the signature.
# The application's log puts the context's fields, such as the principal, before the record's own.
_TEXT = re.compile(
    r"(?:[\w-]{1,40} {1,9})?\d{4}-[\d:T.-]{1,24}Z {1,9}(?:INFO {1,9}[\w.-]{1,80} " + re.escape(LOGGER) + r" )?"
    rf"{WORDS} (?:\w{{1,40}}=[^\s=]{{1,80}} ){{0,4}}tenant=({NAME}) number=(\d{{1,18}}) digest=([0-9a-f]{{64}})"
    r"(?: signature=(\S{1,80}))?"
)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_CHARS = 2000


def anchors_in(paths: Iterable[Path], secret: str | None) -> Anchors:
    """Return the anchors that log files have: text or JSON, of the application or of the logger observer.

    With no ``secret`` the installation has signed none.
    """
    signed, skipped = [], 0
    for location, head in _heads_in(paths):
        signature = head.pop("signature")
        expected = signature_of(secret, **head) if secret is not None else ""
        if signature and hmac.compare_digest(signature.encode(), expected.encode()):
            signed.append(Anchor(**head, place=location))
        else:
            skipped += 1
    return Anchors(signed=signed, skipped=skipped)


def _heads_in(paths: Iterable[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each line that has the form of an anchor: its place and its fields."""
    for path in paths:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if WORDS.encode() in line and len(line) < _MOST_CHARS:
                    head = _parsed(line.decode("utf-8", "replace").strip())
                    if head is not None:
                        yield f"{path}:{number}", head


def _parsed(line: str) -> dict[str, Any] | None:
    match = _TEXT.fullmatch(line)
    if match is not None:
        return {"tenant": match[1], "number": int(match[2]), "digest": match[3], "signature": match[4] or ""}
    name, brace, rest = line.partition("{")
    if len(name.split()) > 1:  # more than the name of the child: text of a client or an agent
        return None
    try:
        facts = orjson.loads(brace + rest)
    except orjson.JSONDecodeError:
        return None
    is_own = facts.get("type") == WORDS or (facts.get("logger") == LOGGER and facts.get("message") == WORDS)
    return _head_in(facts) if is_own else None


def _head_in(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a head, unless one has a form that Callboard does not write."""
    tenant, number, digest = (facts.get(name) for name in ("tenant", "number", "digest"))
    if not isinstance(tenant, str) or not isinstance(digest, str) or type(number) is not int:
        return None
    signature = str(facts.get("signature", "")).encode("utf-8", "replace").decode()
    is_head = re.fullmatch(NAME, tenant) and _DIGEST.fullmatch(digest)
    return {"tenant": tenant, "number": number, "digest": digest, "signature": signature} if is_head else None
