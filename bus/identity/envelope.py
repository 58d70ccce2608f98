"""Signed envelopes: HMAC-SHA256 over the bytes of a call, with its time, a nonce, and whom it is for.

An envelope is one line, an item of RFC 9651 in the one spelling that is accepted::

    v1;kid="main";ts=1764000000;nonce="lT2mVq0d9s3Kx8YbQ7nR4w";ctx=:eyJ0cmFjZV9pZCI6ICIuLi4ifQ==:;sig=:3q2+7w...=:

What is signed is the line up to ``;sig=``, the audience and the method, each with a line end, and the body as it is
sent. ``ctx`` may be absent: it is what the signer says about the call beside its body. There is no field for the
algorithm, so that no sender can choose one; another algorithm would be ``v2``. docs/decisions has the reasons.
"""

from __future__ import annotations

import binascii
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import BigInteger, ColumnElement, Connection, String, delete, insert, literal, select, tuple_
from sqlalchemy.exc import IntegrityError

from bus.identity.errors import EnvelopeRefused
from config.database.engine import WALL_MS, Database
from config.database.tables import envelope_nonces
from config.settings.callers import KEY_ID

HEADER = "Callboard-Envelope"
"""The header of HTTP that has the envelope of a request."""
WINDOW_S = 300
"""How far the time of an envelope may be from the verifier's, in both directions."""
MAX_CHARS = 4096
"""Of an envelope; servers limit a header to about 8 KiB."""
_NONCE = r"[A-Za-z0-9_-]{22,64}"
"""At least 128 random bits in base64url."""
_HEAD = re.compile(rf'v1;kid="({KEY_ID})";ts=([1-9][0-9]{{9}});nonce="({_NONCE})"(?:;ctx=:([A-Za-z0-9+/]+={{0,2}}):)?')
_ENVELOPE = re.compile(rf"({_HEAD.pattern});sig=:([A-Za-z0-9+/]{{43}}=):")


@dataclass(frozen=True, kw_only=True, slots=True)
class CallEnvelope:
    """An envelope whose signature and time are valid."""

    key_id: str
    time_s: int
    """When it was signed, by the signer's clock, in seconds since 1970."""
    nonce: str
    context: bytes = b""
    """What the signer says about the call beside its body, as it was sent; empty: nothing."""

    @property
    def expires_ms(self) -> int:
        """When no verifier accepts it any more, in milliseconds since 1970."""
        return (self.time_s + WINDOW_S + 1) * 1000


class Nonces(Protocol):
    """Remembers the nonces of all verifiers of a deployment, for as long as their envelopes could be accepted."""

    def use_up(self, envelope: CallEnvelope) -> None:
        """Return if no other call has used an envelope of this key with this nonce, and let none use it later.

        Raises:
            EnvelopeRefused: one has, or the envelope has expired meanwhile.
            CallboardError: the store does not answer; the call must not be made.
        """


def verify_golden_call_envelope(
    text: str | None,
    *,
    keys: Mapping[str, bytes],
    nonces: Nonces,
    audience: str,
    method: str,
    body: bytes,
    now_s: float,
) -> CallEnvelope:
    """Return the envelope of a call if it is valid, and use it up; None as the text is a call without an envelope.

    Raises:
        EnvelopeRefused: it is missing, not valid, or was used before.
        CallboardError: the store of nonces does not answer; nothing is known of the call then, and it must not be made.
    """
    if text is None:
        raise EnvelopeRefused("missing")
    envelope = verify(text, keys=keys, audience=audience, method=method, body=body, now_s=now_s)
    nonces.use_up(envelope)
    return envelope


def verify(
    text: str, *, keys: Mapping[str, bytes], audience: str, method: str, body: bytes, now_s: float
) -> CallEnvelope:
    """Return the envelope if a key of these has signed it for this call, at this time; it may have been used before.

    ``text`` is what the sender sent, in any characters. The signature is checked before the time, so that only
    signers learn how their clock differs.

    Raises:
        EnvelopeRefused: it is not valid.
    """
    match = _ENVELOPE.fullmatch(text) if len(text) <= MAX_CHARS else None
    if match is None:
        raise EnvelopeRefused("form")
    head, key_id, time_text, nonce, context, signature = match.groups()
    if key_id not in keys:
        raise EnvelopeRefused("key")
    # Compared as text: a spelling of the same bytes in base64 other than the usual one is refused, too.
    if not hmac.compare_digest(_signature(keys[key_id], head, audience, method, body), signature):
        raise EnvelopeRefused("signature")
    time_s = int(time_text)
    if not abs(now_s - time_s) <= WINDOW_S:
        raise EnvelopeRefused("time", apart_s=now_s - time_s)
    return CallEnvelope(key_id=key_id, time_s=time_s, nonce=nonce, context=_decoded(context))


def sign(
    body: bytes,
    *,
    key_id: str,
    key: bytes,
    audience: str,
    method: str,
    time_s: int,
    nonce: str,
    context: bytes = b"",
) -> str:
    """Return the envelope of a call; each needs a new nonce, such as ``secrets.token_urlsafe(16)``.

    Raises:
        ValueError: a part of it has not the form that is accepted.
    """
    head = f'v1;kid="{key_id}";ts={time_s};nonce="{nonce}"'
    head += f";ctx=:{b64encode(context).decode()}:" if context else ""
    if not _HEAD.fullmatch(head) or "\n" in audience + method:
        raise ValueError("the key's id, the time, the nonce, the audience or the method is not one of an envelope.")
    return f"{head};sig=:{_signature(key, head, audience, method, body)}:"


def _signature(key: bytes, head: str, audience: str, method: str, body: bytes) -> str:
    if "\n" in audience or "\n" in method:  # where they end would not be certain
        raise EnvelopeRefused("form")
    signed = b"".join((f"{head}\n{audience}\n{method}\n".encode(), body))
    return b64encode(hmac.digest(key, signed, "sha256")).decode()


def _decoded(context: str | None) -> bytes:
    """Return what the signer says about the call, if it is spelled as base64 usually is."""
    if context is None:
        return b""
    try:
        decoded = b64decode(context, validate=True)
    except binascii.Error:
        decoded = b""
    if b64encode(decoded).decode() != context:
        raise EnvelopeRefused("form")
    return decoded


# --- nonces: each is used once, by whichever process of the deployment commits first


SLACK_MS = 3_600_000
"""How long a nonce is kept after its envelope has expired: the database's clock may be set back."""
BATCH = 1000
"""Rows that are deleted in one transaction."""


class SqlNonces:
    """The nonces of a deployment, in its database."""

    def __init__(self, open_database: Callable[[], Database]) -> None:
        self._open_database = open_database

    def use_up(self, envelope: CallEnvelope) -> None:
        """Return once it is committed that the envelope was used.

        The row is added only while the envelope has not expired by the database's clock. So a process whose clock is
        slow cannot accept an envelope again whose row was deleted.

        Raises:
            EnvelopeRefused: it was used before, or has expired.
            DatabaseUnreachable, DatabaseBusy, DatabaseReadOnly, DatabaseFull: the row cannot be written.
        """
        expires = literal(envelope.expires_ms, BigInteger)
        row = select(literal(envelope.key_id, String), literal(envelope.nonce, String), expires)
        adding = insert(envelope_nonces).from_select(["key_id", "nonce", "expires_ms"], row.where(expires > WALL_MS))
        try:
            with self._open_database().write() as connection:
                is_added = connection.execute(adding.returning(envelope_nonces.c.nonce)).first() is not None
        except IntegrityError as error:
            raise EnvelopeRefused("used") from error
        if not is_added:
            raise EnvelopeRefused("expired")


def are_expired(connection: Connection, now_ms: int) -> bool:
    """Return whether there are nonces that no verifier needs any more."""
    return connection.execute(select(envelope_nonces.c.nonce).where(_is_expired(now_ms)).limit(1)).first() is not None


def delete_expired(connection: Connection, now_ms: int) -> int:
    """Delete a batch of such nonces, and return their number."""
    c = envelope_nonces.c
    old = select(c.key_id, c.nonce).where(_is_expired(now_ms)).order_by(c.expires_ms)
    nonce_rows = connection.execute(old.limit(BATCH).with_for_update(skip_locked=True)).all()
    if nonce_rows:
        rows = [(row.key_id, row.nonce) for row in nonce_rows]
        connection.execute(delete(envelope_nonces).where(tuple_(c.key_id, c.nonce).in_(rows)))
    return len(nonce_rows)


def _is_expired(now_ms: int) -> ColumnElement[bool]:
    return envelope_nonces.c.expires_ms < now_ms - SLACK_MS
