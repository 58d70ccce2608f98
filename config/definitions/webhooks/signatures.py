"""Signatures of webhooks: those of Standard Webhooks, GitHub and Stripe, over the bytes of a body.

https://www.standardwebhooks.com, https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries and
https://docs.stripe.com/webhooks/signature say how each is made.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Collection, Iterable, Mapping

TOLERANCE_S = 300
"""Seconds that a sender's time may differ from ours, in both directions."""
PREFIX = "whsec_"
"""How secrets of Standard Webhooks begin; base64 follows."""
MIN_KEY_BYTES = 24
"""Of a secret of Standard Webhooks, as the standard has it."""
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
"""The headers of Standard Webhooks."""
_SECONDS = re.compile(r"[0-9]{1,11}", re.ASCII)

Verify = Callable[[Mapping[str, str], bytes, Collection[bytes], float], str | None]
"""Returns why a delivery is refused, as a part of a sentence; None where one of the keys has signed it."""


def key_of(format_: str, secret: str) -> bytes:
    """Return the key that a secret stands for.

    Raises:
        ValueError: it is no secret of this format; the text does not have it.
    """
    if format_ != "standard":
        return secret.encode()
    try:
        text = secret.removeprefix(PREFIX).rstrip("=")  # some write it without the signs at its end
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"is no secret of Standard Webhooks: `{PREFIX}` and base64") from None
    if len(key) < MIN_KEY_BYTES:
        raise ValueError(f"has fewer than {MIN_KEY_BYTES} bytes: `{PREFIX}` and base64 of at least that many")
    return key


def sign(key: bytes, delivery_id: str, at_s: int, body: bytes) -> str:
    """Return a signature of Standard Webhooks, ``v1,…``; several, with spaces between them, are one header."""
    return f"v1,{base64.b64encode(_digest(key, f'{delivery_id}.{at_s}.', body)).decode()}"


def problem_of(
    format_: str, headers: Mapping[str, str], body: bytes, keys: Collection[bytes], now_s: float
) -> str | None:
    """Return why a delivery is refused, as a part of a sentence; None: one of the keys has signed its bytes.

    The work is the same for every body of its length, whatever the signature is. ``headers``: by their names in small
    letters; ``now_s``: seconds since 1970.
    """
    return FORMATS[format_](headers, body, keys, now_s)


def _of_standard(headers: Mapping[str, str], body: bytes, keys: Collection[bytes], now_s: float) -> str | None:
    delivery_id, at = headers.get(ID, ""), headers.get(TIMESTAMP, "")
    candidates = [part[3:] for part in headers.get(SIGNATURE, "").split(" ") if part.startswith("v1,")]
    expected = (base64.b64encode(_digest(key, f"{delivery_id}.{at}.", body)) for key in keys)
    return _compared(candidates, expected) or _untimely(at, now_s)


def _of_github(headers: Mapping[str, str], body: bytes, keys: Collection[bytes], _now_s: float) -> str | None:
    """The signature has no time: who sends the same bytes once more is found by the delivery's id alone."""
    kind, _, candidate = headers.get("x-hub-signature-256", "").partition("=")
    return _compared([candidate] if kind == "sha256" else [], (_digest(key, "", body).hex().encode() for key in keys))


def _of_stripe(headers: Mapping[str, str], body: bytes, keys: Collection[bytes], now_s: float) -> str | None:
    pairs = [part.strip().partition("=") for part in headers.get("stripe-signature", "").split(",")]
    at = next((value for name, _, value in pairs if name == "t"), "")
    candidates = [value for name, _, value in pairs if name == "v1"]
    return _compared(candidates, (_digest(key, f"{at}.", body).hex().encode() for key in keys)) or _untimely(at, now_s)


FORMATS: Mapping[str, Verify] = {"standard": _of_standard, "github": _of_github, "stripe": _of_stripe}


def _digest(key: bytes, before: str, body: bytes) -> bytes:
    """Return the HMAC-SHA256 of what stands before the body, and the body, which is not copied."""
    signing = hmac.new(key, before.encode("utf-8", "surrogateescape"), "sha256")
    signing.update(body)
    return signing.digest()


def _compared(candidates: Iterable[str], expected: Iterable[bytes]) -> str | None:
    """Compare each candidate with each signature: none is left out once one fits, or where there is no candidate."""
    texts = [candidate.encode("utf-8", "surrogateescape") for candidate in candidates]
    matches = [hmac.compare_digest(text, signature) for signature in expected for text in texts]
    if not texts:
        return "it has no signature"
    return None if any(matches) else "its signature is not one of these bytes with a secret of the webhook"


def _untimely(at: str, now_s: float) -> str | None:
    if not _SECONDS.fullmatch(at):
        return "its timestamp is no number of seconds"
    difference_s = now_s - int(at)
    if abs(difference_s) <= TOLERANCE_S:
        return None
    direction = "old" if difference_s > 0 else "ahead"
    return f"its timestamp is {abs(difference_s):.0f} s {direction}; {TOLERANCE_S} are allowed"
