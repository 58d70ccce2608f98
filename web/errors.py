"""Errors of an HTTP request."""

from __future__ import annotations

from config.errors import Permanent, Retryable


class HostRefused(Permanent):
    """The Host header names another host: a foreign page may resolve its name to this server (DNS rebinding)."""

    code = "host_refused"
    status = 403


class OriginRefused(Permanent):
    code = "origin_refused"
    status = 403


class MediaTypeRefused(Permanent):
    code = "media_type_refused"
    status = 415


class Overloaded(Retryable):
    """This process serves as many clients of a kind as it can."""

    code = "overloaded"
