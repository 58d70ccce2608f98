"""Errors of outgoing requests; the model gets them as the call's result."""

from __future__ import annotations

from config.errors import ModelVisible


class UrlRefused(ModelVisible):
    """The URL is malformed, or in a form that programs read in different ways."""

    code = "url_refused"


class HostNotAllowed(ModelVisible):
    """The policy does not allow the host, its port, or one of its addresses."""

    code = "host_not_allowed"


class RequestRefused(ModelVisible):
    """A header or the body of the request is malformed, too long, or set by Callboard itself."""

    code = "request_refused"


class RedirectRefused(ModelVisible):
    """A redirect was not followed."""

    code = "redirect_refused"


class HostUnreachable(ModelVisible):
    """No connection was made, so the request was not sent."""

    code = "host_unreachable"
