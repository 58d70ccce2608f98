"""Sends the requests of an OAuth flow: to addresses that the server names, each of which is checked.

The server's own address and the issuer in its file are the operator's, and may be private. Whatever else the server or
its metadata name has to be public and encrypted: a server could otherwise have the worker ask services of its network.
"""

from __future__ import annotations

from ipaddress import ip_network

import httpx2

from agents.errors import McpServerDown
from agents.tools.spans.collector import request_span
from config.definitions.mcp.server import McpServerDefinition
from config.egress.errors import HostNotAllowed, RedirectRefused, UrlRefused
from config.egress.exchange import HttpAnswer, Limits
from config.egress.fetch import Fetcher
from config.egress.lookup import Resolver, resolver_of
from config.egress.policy import Allowed, EgressPolicy, allowed_in
from config.egress.request import Outgoing
from config.egress.target import Target, parse_target
from config.errors import ModelVisible
from config.settings import settings

LIMITS = Limits(total_s=15.0, max_bytes=256 * 1024, max_redirects=0)
"""Of one request. Metadata and answers with tokens have a few KiB."""
REMEDY = "If the address is meant, name the authorization server as `issuer` in the server's file."
_KEPT = frozenset({"accept", "authorization", "content-type", "mcp-protocol-version"})
"""Headers of the SDK that go with a request."""


class OAuthAsker:
    """Sends the requests of one server's flow."""

    def __init__(self, server: McpServerDefinition, resolver: Resolver | None = None) -> None:
        addresses = (server.url, server.oauth.issuer if server.oauth else None)
        self._own = {parse_target(url).origin for url in addresses if url is not None}
        self._server, self._resolver = server.name, resolver or resolver_of(f"the MCP server {server.name}")

    async def ask(self, request: httpx2.Request) -> httpx2.Response:
        """Return what is answered; redirects are not followed.

        Raises:
            McpServerDown: the address may not be asked, or does not answer.
        """
        try:
            target = self.checked(str(request.url))
            headers = tuple((name, value) for name, value in request.headers.items() if name.lower() in _KEPT)
            outgoing = Outgoing(method=request.method, target=target, headers=headers, body=await request.aread())
            fetcher = Fetcher(policy=self._policy(target), limits=LIMITS, resolver=self._resolver, span=request_span)
            return _response(await fetcher.fetch(outgoing), request)
        except RedirectRefused:
            return httpx2.Response(302, request=request)
        except ModelVisible as error:
            raise McpServerDown(f"the login at the MCP server {self._server} failed: {error}") from error

    def checked(self, url: str) -> Target:
        """Return the parts of an address that the flow uses.

        Raises:
            UrlRefused, HostNotAllowed: it is malformed, or not encrypted and none of the operator's.
        """
        target = parse_target(url)
        if target.scheme != "https" and target.origin not in self._own:
            raise HostNotAllowed(f"{target.host} is to be asked without encryption. {REMEDY}")
        return target

    def _policy(self, target: Target) -> EgressPolicy:
        allowed = allowed_in(settings().http_allowed_hosts)
        if target.origin in self._own:
            names = Allowed(name="*", port=target.port)
            anywhere = (Allowed(network=ip_network(block), port=target.port) for block in ("0.0.0.0/0", "::/0"))
            allowed = (names, *anywhere, *allowed)
        return EgressPolicy(allowed=allowed, remedy=REMEDY)


def _response(answer: HttpAnswer, request: httpx2.Request) -> httpx2.Response:
    """Return an answer as the SDK reads it.

    Raises:
        UrlRefused: it is longer than any answer of a flow.
    """
    if answer.notes and answer.location is None:
        raise UrlRefused(f"{request.url.host} answered with more than a flow has: {answer.notes[0]}.")
    headers = {name: value for name, value in answer.headers.items() if name in ("content-type", "www-authenticate")}
    return httpx2.Response(answer.status, headers=headers, content=answer.body, request=request)
