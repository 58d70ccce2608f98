"""Errors of outgoing requests; the model gets them as the call's result."""

from __future__ import annotations

from config.errors import ModelVisible


class UrlRefused(ModelVisible):
    """The URL is malformed, or in a form that programs read in different ways."""

    code = "url_refused"
    remedy = "The model writes the address plainly: scheme, host, and a port where it needs one."


class HostNotAllowed(ModelVisible):
    """The host, its port or one of its addresses is not public, or not in `CALLBOARD_HTTP_ALLOWED_HOSTS`."""

    code = "host_not_allowed"
    remedy = "The operator lists the host in `CALLBOARD_HTTP_ALLOWED_HOSTS` if agents may reach it ([tools](tools.md))."


class RequestRefused(ModelVisible):
    """A header or the body of the request is malformed, too long, or set by Callboard itself."""

    code = "request_refused"
    remedy = "The model corrects what the sentence names."


class RedirectRefused(ModelVisible):
    """A redirect leads from `https` to `http`, would take a body to another origin, or is the sixth."""

    code = "redirect_refused"
    remedy = "The model sends the request to the address that the sentence names."


class HostUnreachable(ModelVisible):
    """No connection was made, so the request was not sent."""

    code = "host_unreachable"
    remedy = "The model tries again later, or another host."
