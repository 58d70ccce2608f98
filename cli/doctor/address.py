"""What proxies between here and a web process do to its streams and headers, each with its remedy."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

from cli.doctor import Finding, Judged, fail, ok, warn
from cli.doctor.stream_probe import Observation, is_stream, observe
from web.api.selftest import NAMED

COMMENT_S = 15
"""Seconds between two comments on a stream on which nothing happens."""
LATE_S = 1.0
"""By so many seconds more than the last event the first one may be late."""
NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""What OpenSSL's releases call an answer that is no TLS."""
PAGE = "docs/deployment/proxies.md has a configuration that works"
REFUSALS = {
    "host_refused": "the web process does not serve the host that the proxy passes on. Set "
    "CALLBOARD_PUBLIC_URL={origin}, and pass the Host header on (nginx: proxy_set_header Host $http_host).",
    "origin_refused": "the web process takes another origin for its own, so it refuses the page's requests. Set "
    "CALLBOARD_PUBLIC_URL={origin}, or name the address that users see with --url.",
    "not_found": "the web process has no self-test: it is older than this doctor, or the proxy changes the path.",
}


def check_address(url: str, key: str | None, idle_s: int) -> Iterator[Finding]:
    """Yield what a client at this address sees; it takes some seconds more than ``idle_s``.

    Raises:
        ValueError: the address is not an origin.
    """
    seen = observe(url, key, idle_s)
    refused = refusal(seen)
    if refused is not None:
        yield Finding("address", *fail(refused))
        return
    judges = {"stream": buffering, "idle": cutting, "encoding": compression, "headers": headers, "client": forwarding}
    for about, judge in judges.items():
        yield Finding(about, *judge(seen))


def refusal(seen: Observation) -> str | None:
    """Return why there is no stream, or None."""
    if seen.error is not None:
        return _unreachable(seen.error)
    if is_stream(seen):
        return None if seen.arrivals else "the stream ended before its first event; see the log of the proxy."
    code = str(seen.problem.get("code", ""))
    if code in REFUSALS:
        return REFUSALS[code].format(origin=seen.origin) + f" [{code}]"
    if code == "unauthenticated":
        return _unauthenticated(seen.has_key)
    if code:
        return f"{seen.problem.get('detail', '')} [{code}]"
    return _foreign(seen)


def _unreachable(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        problem = f"clients do not accept its certificate: {error.verify_message}"
        return f"{problem}. Renew it, or name the file of its CA in SSL_CERT_FILE."
    if isinstance(error, socket.gaierror):
        return f"its host name has no address here ({error.strerror}). Correct the name, or enter it into the DNS."
    if isinstance(error, ssl.SSLError) and error.reason in NO_TLS:
        return "what answers there does not speak TLS. Begin the address with http://, or let the server end TLS."
    return f"it cannot be reached: {str(error) or type(error).__name__}. Start the web process and the proxy."


def _unauthenticated(has_key: bool) -> str:
    if not has_key:
        return "it asks for a credential; name a file with an API key: --key-file FILE. [unauthenticated]"
    return (
        "the API key is not valid, or a proxy drops the header Authorization (a login of its own may; nginx: "
        "proxy_set_header Authorization $http_authorization). [unauthenticated]"
    )


def _foreign(seen: Observation) -> str:
    if location := seen.headers.get("location"):
        return f"another server answers: a redirect to {location[:200]}. Pass all paths on to the web process; {PAGE}."
    kind = seen.headers.get("content-type", "no content type")
    away = " It does not reach the web process." if seen.status in (502, 503, 504) else ""
    return f"another server answers: {seen.status} with {kind[:100]}.{away} {PAGE}."


def buffering(seen: Observation) -> Judged:
    """Judge by how late the first events are, compared with later ones."""
    late = [arrival.late_s for arrival in seen.arrivals]
    if min(late) < -LATE_S:
        return fail("a cache answers with an earlier stream, perhaps another client's. nginx: proxy_cache off.")
    if late[0] - min(late) > LATE_S:
        return fail(
            f"a proxy buffers streams: the first event arrived {late[0]:.1f} s after it was sent. nginx: "
            f"proxy_buffering off; Caddy: flush_interval -1; {PAGE}."
        )
    return ok(f"events arrive within {max(late):.2f} s, one by one")


def cutting(seen: Observation) -> Judged:
    """Judge by whether the stream outlived its idle gap."""
    if seen.arrivals[-1].kind == "end":
        return ok(f"a stream without a byte for {seen.idle_s:g} s stays open")
    silent_s = seen.closed_s - seen.arrivals[-1].at_s
    problem = f"a proxy cut the stream after {silent_s:.0f} s without a byte"
    remedy = f"Allow 60 s. nginx: proxy_read_timeout 60s; Caddy: transport http read_timeout; {PAGE}."
    if silent_s > COMMENT_S:
        return warn(f"{problem}; a comment every {COMMENT_S} s only just keeps streams open. {remedy}")
    return fail(f"{problem}, sooner than the comment that keeps streams open ({COMMENT_S} s). {remedy}")


def compression(seen: Observation) -> Judged:
    encoding = seen.headers.get("content-encoding", "identity")
    if encoding == "identity":
        return ok("streams are not compressed")
    return warn(
        f"a proxy compresses streams ({encoding}), which collects events until a block is full. nginx: leave "
        "text/event-stream out of gzip_types; Caddy: do not encode it."
    )


def headers(seen: Observation) -> Judged:
    arrived = seen.arrivals[0].facts.get("headers", [])
    if missing := [name for name in NAMED if name not in arrived]:
        return fail(
            f"a proxy drops {', '.join(missing)}: {_consequence(missing[0])} nginx: remove proxy_set_header lines that "
            "empty them, and proxy_pass_request_headers off."
        )
    return ok(f"{', '.join(NAMED)} arrive")


def _consequence(name: str) -> str:
    return {
        "Authorization": "clients cannot authenticate.",
        "Idempotency-Key": "a repeated start is a second run.",
        "Last-Event-ID": "a resumed stream begins at its first event.",
        "Origin": "requests of foreign pages are not recognised.",
    }[name]


def forwarding(seen: Observation) -> Judged:
    """Judge by what the web process takes the client's scheme for."""
    hello, scheme = seen.arrivals[0].facts, urlsplit(seen.origin).scheme
    forwarded = hello.get("forwarded", [])
    if forwarded and not hello.get("proxy_is_trusted"):
        return warn(
            f"a proxy sends {', '.join(forwarded)}, and its address is not in CALLBOARD_TRUSTED_PROXIES: all clients "
            "have the proxy's address. Add it."
        )
    if hello.get("scheme") != scheme:
        return warn(
            f"the web process takes these requests for {hello.get('scheme')}. Send X-Forwarded-Proto, and name the "
            "proxy in CALLBOARD_TRUSTED_PROXIES."
        )
    return ok(f"the web process sees {scheme}" + (f", and what {', '.join(forwarded)} say" if forwarded else ""))
