"""Errors of an HTTP request."""

from __future__ import annotations

from config.errors import Permanent, Retryable


class HostRefused(Permanent):
    """The Host header names another host: a foreign page may resolve its name to this server (DNS rebinding)."""

    code = "host_refused"
    status = 403

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the host '{host[:80]}' is not one this server answers to; use 127.0.0.1 or localhost, or name it in "
            "CALLBOARD_ALLOWED_HOSTS (read together with --no-auth).",
            host=host[:80],
        )


class OriginRefused(Permanent):
    code = "origin_refused"
    status = 403

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"requests from pages of '{origin[:80]}' are not answered; open Callboard's own page instead.",
            origin=origin[:80],
        )


class MediaTypeRefused(Permanent):
    code = "media_type_refused"
    status = 415

    def __init__(self, found: str) -> None:
        super().__init__(
            f"the body is '{found[:80] or 'of no type'}'; send JSON, with the header Content-Type: application/json."
        )


class Overloaded(Retryable):
    """This process serves as many clients of a kind as it can."""

    code = "overloaded"
