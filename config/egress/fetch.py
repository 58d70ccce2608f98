"""Sends a request to the address that was checked, and follows redirects, each checked anew.

A name is resolved once for each request. The connection goes to one of the addresses that were checked, by number, with
the name in ``Host`` and in TLS, so a second answer of the name server has no effect. Proxy variables, netrc and cookies
play no part.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

from config.egress.addresses import Address, address_in
from config.egress.errors import HostNotAllowed, HostUnreachable, RedirectRefused, UrlRefused
from config.egress.exchange import Exchange, HttpAnswer, Limits, trusted
from config.egress.lookup import LOOKUP_S, Resolver, resolve
from config.egress.policy import EgressPolicy
from config.egress.request import Outgoing
from config.egress.target import Target
from config.errors import ModelVisible

log = logging.getLogger(__name__)

RequestSpan = Callable[[Outgoing], AbstractContextManager[Callable[[HttpAnswer], None]]]
"""Encloses one request; what it yields is called with the answer."""


@contextmanager
def no_span(_: Outgoing) -> Iterator[Callable[[HttpAnswer], None]]:
    """Note nothing."""
    yield lambda _answer: None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetcher:
    """Makes requests under one policy."""

    policy: EgressPolicy = field(default_factory=EgressPolicy)
    limits: Limits = field(default_factory=Limits)
    resolver: Resolver = resolve
    tls: ssl.SSLContext | None = None
    """None: the authorities that this machine trusts."""
    span: RequestSpan = no_span
    """Notes each request of a call, and its answer."""

    async def fetch(self, request: Outgoing) -> HttpAnswer:
        """Return the answer to the request, or the one that its redirects lead to.

        A request that may have changed something keeps its answer when a redirect after it fails: the answer then has
        a note.

        Raises:
            UrlRefused, HostNotAllowed, RedirectRefused: an address may not be asked.
            HostUnreachable: there was no connection.
            ToolCutOff: the request was sent, and no answer came.
        """
        until_s = asyncio.get_running_loop().time() + self.limits.total_s
        answered: HttpAnswer | None = None
        for _ in range(self.limits.max_redirects + 1):
            if not request.is_read:
                answered = None
            try:
                answer = await self._ask(request, until_s)
                if answer.location is None:
                    return answer
                answered = answered if request.is_read else answer
                request = request.redirected(answer.status, answer.location)
            except ModelVisible as error:
                if isinstance(error, HostNotAllowed | UrlRefused | RedirectRefused):
                    log.warning(
                        "an outgoing request was refused", extra={"host": request.target.host, "code": error.code}
                    )
                if answered is None:
                    raise
                return replace(answered, notes=(*answered.notes, f"the redirect was not followed: {error}"))
        problem = f"there were more than {self.limits.max_redirects} redirects"
        if answered is None:
            raise RedirectRefused(f"{problem}, the last one to {request.target}.")
        return replace(answered, notes=(*answered.notes, problem))

    async def _ask(self, request: Outgoing, until_s: float) -> HttpAnswer:
        self.policy.require_target(request.target)
        with self.span(request) as note_answer:
            answer = await self._exchange(request, until_s)
            note_answer(answer)
            return answer

    async def _exchange(self, request: Outgoing, until_s: float) -> HttpAnswer:
        tls = await asyncio.to_thread(trusted) if self.tls is None else self.tls
        exchange = Exchange(request, self.limits, tls)
        try:
            async with asyncio.timeout_at(until_s):
                addresses = await self._addresses(request.target)
                answer = await exchange.first_of(addresses)
            return await exchange.read(answer, until_s)
        except TimeoutError as error:
            raise exchange.failed(f"did not answer within {self.limits.total_s:g} seconds") from error
        finally:
            await exchange.close()

    async def _addresses(self, target: Target) -> list[Address]:
        """Return the addresses of a host, each of which may be asked."""
        if target.address is not None:
            return [target.address]
        try:
            texts = await self.resolver(target.host, target.port)
        except TimeoutError as error:
            problem = f"{target.host} was not looked up within {LOOKUP_S:g} seconds"
            raise HostUnreachable(f"{problem}; ask for another host, or try again later.") from error
        except (OSError, UnicodeError) as error:
            raise HostUnreachable(f"there is no host {target.host}; check the name.") from error
        candidates = [address_in(text) for text in dict.fromkeys(texts)]
        addresses = [address for address in candidates if address is not None]
        self.policy.require_addresses(target, addresses if len(addresses) == len(candidates) else [])
        return addresses
