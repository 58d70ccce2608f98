"""What a redirect makes of a request, and which headers a caller may choose."""

import pytest

from config.egress.errors import RedirectRefused, RequestRefused, UrlRefused
from config.egress.request import MAX_BODY_BYTES, Outgoing, checked_body, checked_headers
from config.egress.target import parse_target

HEADERS = (("Authorization", "Bearer a"), ("X-Api-Key", "b"), ("Cookie", "c"), ("Accept", "d"), ("Content-Type", "e"))


def outgoing(method: str = "GET", url: str = "https://a.example/x/y?z") -> Outgoing:
    return Outgoing(method=method, target=parse_target(url), headers=HEADERS, body=b"" if method == "GET" else b"{}")


@pytest.mark.parametrize(
    ("status", "method", "becomes"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "DELETE", "GET"),
        (301, "PUT", "PUT"),
        (302, "DELETE", "DELETE"),
        (307, "POST", "POST"),
        (308, "PATCH", "PATCH"),
        (303, "HEAD", "HEAD"),
        (301, "GET", "GET"),
    ],
)
def test_the_method_follows_the_standard(status, method, becomes):
    request = outgoing(method).redirected(status, "/there")

    assert (request.method, str(request.target)) == (becomes, "https://a.example/there")
    assert bool(request.body) is (becomes not in ("GET", "HEAD") or method == "HEAD")
    assert ("Authorization", "Bearer a") in request.headers


@pytest.mark.parametrize(
    "location", ["https://b.example/", "//b.example/", "https://a.example:8443/", "https://sub.a.example/"]
)
def test_another_origin_gets_no_credentials(location):
    assert outgoing().redirected(302, location).headers == (("Accept", "d"),)


def test_the_port_of_the_scheme_is_the_same_origin():
    assert outgoing().redirected(302, "https://A.example:443/").headers == HEADERS


@pytest.mark.parametrize("status", [307, 308])
def test_a_body_does_not_go_to_another_origin(status):
    with pytest.raises(RedirectRefused, match="ask for it directly"):
        outgoing("POST").redirected(status, "https://b.example/")


@pytest.mark.parametrize("location", ["http://a.example/", "http://b.example/"])
def test_a_redirect_away_from_tls_is_refused(location):
    with pytest.raises(RedirectRefused, match="https to http"):
        outgoing().redirected(302, location)


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "javascript:1", "//u@b/", "https://[::1", "/a\r\nb", "/" + "a" * 9000, "http:///"],
)
def test_a_malformed_redirect_is_refused(location):
    with pytest.raises((UrlRefused, RedirectRefused)):
        outgoing().redirected(302, location)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Host", "b.example"),
        ("content-length", "1"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close"),
        ("Upgrade", "h2c"),
        ("Proxy-Authorization", "Basic a"),
        ("X-A\r\nHost", "b"),
        ("X A", "b"),
        ("", "b"),
        ("X:A", "b"),
        ("X-Ä", "b"),
        ("X-A", "b\r\nHost: c"),
        ("X-A", "b\nc"),
        ("X-A", "b\0c"),
        ("X-A", "ü"),
        ("X-A", "b" * 9000),
        ("X" * 200, "b"),
    ],
)
def test_a_header_that_would_change_the_request_is_refused(name, value):
    with pytest.raises(RequestRefused):
        checked_headers([(name, value)])


def test_headers_and_bodies_are_limited():
    with pytest.raises(RequestRefused, match="41 headers"):
        checked_headers((f"X-{number}", "") for number in range(41))
    with pytest.raises(RequestRefused, match="twice"):
        checked_headers([("X-A", "b"), ("x-a", "c")])
    with pytest.raises(RequestRefused, match="limit"):
        checked_body(b"a" * (MAX_BODY_BYTES + 1))
