"""The runner of HTTP endpoints: POST with the arguments as JSON, and the call's idempotency key in a header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from agents.tools.call_context import current_call
from agents.tools.isolation.errors import OUTPUT_NOT_JSON, OUTPUT_TOO_LONG, CapabilityFailed
from agents.tools.results import MAX_BYTES
from agents.tools.runners.calling import context_json, secret_values
from agents.tools.spans.collector import request_span
from config.definitions.runner_spec import SECRET_IN_HEADER
from config.egress.addresses import is_risky
from config.egress.exchange import HttpAnswer, Limits
from config.egress.fetch import Fetcher
from config.egress.lookup import resolver_of
from config.egress.policy import EgressPolicy, hosts_in
from config.egress.request import Outgoing, checked_body, checked_headers
from config.egress.target import Target, parse_target
from config.errors import ToolCutOff
from config.redaction import redact_start

REMEDY = "Add the host to the `hosts` of the capability."
NO_ANSWER = (502, 504)
"""Statuses of a gateway: the request may have taken effect behind it."""
NO_CONTENT = 204
CONTEXT_HEADER = "Callboard-Context"
"""Has the call's contexts as JSON, where the capability's file asks for it: the server may be another company's."""
MAX_SHOWN = 500
"""Characters of a failed answer's body in a message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointRunner:
    """Asks a server for each call, through the guard of outgoing requests."""

    url: str
    hosts: Sequence[str] = ()
    """What may be asked, as in ``CALLBOARD_HTTP_ALLOWED_HOSTS``; the host of ``url`` alone where it is empty."""
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    sends_context: bool = False
    """Whether requests have the header ``Callboard-Context``."""
    max_bytes: int = MAX_BYTES
    """Bytes of the longest answer."""

    async def call(self, **arguments: Any) -> Any:
        """Return the JSON value of the answer.

        Raises:
            UrlRefused, HostNotAllowed, RequestRefused, HostUnreachable, SECRET_MISSING: nothing was sent.
            CapabilityFailed: the server answered with another status than a success.
            ToolCutOff, OUTPUT_TOO_LONG, OUTPUT_NOT_JSON: the request may have taken effect.
        """
        target, call = parse_target(self.url), current_call()
        allowed = hosts_in(self.hosts or _own_host(target))
        narrower = () if call.hosts is None else (hosts_in(call.hosts),)
        values = secret_values(self.secrets)
        chosen = {
            name: SECRET_IN_HEADER.sub(lambda match: values[match[1]], text) for name, text in self.headers.items()
        }
        context = {CONTEXT_HEADER: context_json(call)} if self.sends_context else {}
        headers = {"Content-Type": "application/json", **chosen, **call.headers, **context}
        request = Outgoing(
            method="POST",
            target=target,
            headers=checked_headers(headers.items()),
            continues_trace=True,
            body=checked_body(orjson.dumps(dict(arguments))),
        )
        limits = Limits(total_s=call.timeout_s, max_bytes=self.max_bytes)
        policy = EgressPolicy(allowed=allowed, within=narrower, remedy=REMEDY)
        fetcher = Fetcher(
            policy=policy, limits=limits, resolver=resolver_of(f"the tenant {call.tenant}"), span=request_span
        )
        return self._result_of(await fetcher.fetch(request))

    def _result_of(self, answer: HttpAnswer) -> Any:
        if answer.status in NO_ANSWER:
            raise ToolCutOff(f"its server answered HTTP {answer.status}: the gateway got no answer.")
        if not 200 <= answer.status < 300:
            text = redact_start(answer.body.decode("utf-8", "replace"), MAX_SHOWN)
            raise CapabilityFailed(f"its server answered HTTP {answer.status}: {text}")
        if answer.status == NO_CONTENT:
            return None
        if len(answer.body) >= self.max_bytes:
            raise OUTPUT_TOO_LONG(f"its answer has more than {self.max_bytes:,} bytes.")
        if answer.notes:
            raise ToolCutOff(f"its answer is not whole: {'; '.join(answer.notes)}.")
        try:
            return orjson.loads(answer.body)
        except orjson.JSONDecodeError as error:
            raise OUTPUT_NOT_JSON(f"its server's answer is not JSON: {str(error)[:200]}.") from error


def _own_host(target: Target) -> tuple[str, ...]:
    """Return the URL's host as an allow-list; none for a link-local address or a metadata service."""
    is_refused = target.address is not None and is_risky(target.address)
    return () if is_refused else (target.authority,)
