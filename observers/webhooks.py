"""Sends webhooks, by Standard Webhooks, to one endpoint: that a run has ended, and that one asks for an approval.

https://www.standardwebhooks.com says how a delivery is made and signed, and what the answers to it mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, ClassVar, Self

import orjson
from pydantic import Field, field_validator, model_validator

from bus.payloads import ApprovalPayload, EndPayload, Payload
from config.clock import epoch_ms, utc_now
from config.definitions.errors import PluginUnknown
from config.definitions.webhooks.secret_references import SecretReferences, keys_of
from config.definitions.webhooks.signatures import ID, SIGNATURE, TIMESTAMP, sign
from config.egress.errors import UrlRefused
from config.egress.exchange import HttpAnswer, Limits, trusted
from config.egress.fetch import Fetcher
from config.egress.lookup import resolver_of
from config.egress.policy import PUBLIC, EgressPolicy, hosts_in
from config.egress.request import Outgoing, checked_body, checked_headers
from config.egress.target import parse_target
from config.errors import ModelVisible
from config.redaction import redact_start
from config.redaction.redacted_data import without_secrets
from config.settings import Settings
from observers.base import AgentFacts, AgentObserver, NotTaken, ObserverOptions, RunFacts, Tailing, page_of

LIMITS = Limits(total_s=15.0, connect_s=5.0, max_bytes=4096, max_redirects=0)
"""Of one delivery: 15 s as Standard Webhooks has it; of an answer's body nothing but a message is used."""
MAX_CONTENT_BYTES = 256 * 1024
"""Longest content of a delivery, an output or arguments; a longer one is left out."""
MAX_SHOWN = 200
"""Characters of a failed answer's body in the reason."""
GONE, BUSY = 410, (429, 503)
REMEDY = "Correct the `url`, or list the host, and the network of a private one, in the `hosts` of the observer."
_Text = Annotated[str, Field(min_length=1, max_length=4096)]


class WebhookOptions(ObserverOptions):
    """Where deliveries are sent, how they are signed, and what they have."""

    url: _Text
    secret: SecretReferences
    """The first signs, and the others as well, so that one can be replaced while the receiver knows the old one."""
    content: Annotated[bool, Field(strict=True)] = False
    """Whether deliveries have what models and people wrote: outputs, and the arguments of calls."""
    hosts: Annotated[tuple[_Text, ...], Field(min_length=1, max_length=20)] | None = None
    """What may be asked, as in the setting ``http_allowed_hosts``; every public host by default."""

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        try:
            parse_target(value)
        except UrlRefused as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("hosts")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        hosts_in(value or ())
        return value

    @model_validator(mode="after")
    def _is_encrypted(self) -> Self:
        if self.hosts is None and parse_target(self.url).scheme != "https":
            raise ValueError("`url` has to begin with https://; http is for hosts that `hosts` lists")
        return self

    def signing_keys(self) -> list[bytes]:
        """Return the keys that sign, each read now.

        Raises:
            ValueError: a secret is missing, or is none of Standard Webhooks.
        """
        return keys_of("standard", self.secret, "the process that sends webhooks")

    def problem(self) -> str | None:
        try:
            self.signing_keys()
        except ValueError as error:
            return str(error)
        return None


class WebhookObserver(AgentObserver):
    """Delivers the ends and questions of runs to one endpoint; what it does not take is tried again for a day."""

    name: ClassVar[str] = "webhooks"
    tailing: ClassVar[Tailing] = Tailing(
        threads=2, timeout_s=3 * LIMITS.total_s, poll_s=0.5, types=("approval", "end"), is_per_tenant=True
    )
    options_model: ClassVar[type[ObserverOptions]] = WebhookOptions
    wants_deltas = False

    def __init__(self, options: WebhookOptions, public_url: str | None, fetcher: Fetcher | None = None) -> None:
        self._options, self._public_url = options, public_url
        self._target = parse_target(options.url)
        policy = EgressPolicy(allowed=PUBLIC if options.hosts is None else hosts_in(options.hosts), remedy=REMEDY)
        own = Fetcher(policy=policy, limits=LIMITS, resolver=resolver_of(f"the webhooks to {self._target.host}"))
        self._fetcher = own if fetcher is None else replace(fetcher, policy=policy)

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        problem = f"webhooks are sent from the log: declare one in {settings.observers_file} instead of with an agent."
        raise PluginUnknown(problem, name=cls.name)

    @classmethod
    def from_options(cls, settings: Settings, options: ObserverOptions | None) -> Self:
        assert isinstance(options, WebhookOptions)
        return cls(options, settings.public_url)

    def on_end(self, agent: AgentFacts, payload: EndPayload, context: RunFacts) -> None:
        if context.parent_id is not None:  # its parent's end says what came of it, and a list may have thousands
            return
        names = ("status", "reason", "usage", "cost_usd", "steps", "duration_ms")
        self._send("run.ended", agent, payload, context, names, {"output": payload.output})

    def on_approval(self, agent: AgentFacts, payload: ApprovalPayload, context: RunFacts) -> None:
        if payload.decision is not None or payload.approved_by is not None:
            return  # an answer
        names = ("approval_id", "call_id", "decisions", "approvers", "expires_at", "on_expiry")
        content = {"arguments": payload.arguments}
        self._send("approval.asked", agent, payload, context, names, content, tool=payload.name, asks_for=payload.kind)

    def _send(
        self,
        type_: str,
        agent: AgentFacts,
        payload: Payload,
        context: RunFacts,
        names: tuple[str, ...],
        content: Mapping[str, Any],
        **facts: Any,
    ) -> None:
        data = {name: getattr(payload, name) for name in names} | facts | self._facts(agent, context)
        if self._options.content:
            is_long = len(orjson.dumps(content)) > MAX_CONTENT_BYTES
            data |= {"left_out": sorted(content)} if is_long else content
        data = without_secrets({name: value for name, value in data.items() if value is not None})
        body = orjson.dumps({"type": type_, "timestamp": payload.at, "data": data})
        self._deliver(f"msg_{context.run_id.removeprefix('run_')}_{payload.seq}", body)

    def _facts(self, agent: AgentFacts, context: RunFacts) -> dict[str, Any]:
        return {
            "run_id": context.run_id,
            "thread_id": context.thread_id,
            "kind": context.kind,
            "agent": agent.id,
            "tenant": context.tenant,
            "principal": context.principal,
            "correlation_id": context.correlation_id,
            "url": page_of(self._public_url, context) if self._public_url else None,
        }

    def _deliver(self, delivery_id: str, body: bytes) -> None:
        """Send the delivery; the id of a further attempt is the same, and the time is that of the attempt.

        Raises:
            NotTaken: the endpoint has not answered with a success.
        """
        at_s = epoch_ms() // 1000
        try:
            signatures = [sign(key, delivery_id, at_s, body) for key in self._options.signing_keys()]
        except ValueError as error:
            raise NotTaken(str(error)) from error
        signed = {ID: delivery_id, TIMESTAMP: str(at_s), SIGNATURE: " ".join(signatures)}
        headers = checked_headers({"Content-Type": "application/json", **signed}.items())
        request = Outgoing(method="POST", target=self._target, headers=headers, body=checked_body(body))
        fetcher = self._fetcher if self._fetcher.tls is not None else replace(self._fetcher, tls=trusted())
        try:
            answer = asyncio.run(fetcher.fetch(request))
        except ModelVisible as error:
            raise NotTaken(str(error)) from error
        if not 200 <= answer.status < 300:
            raise self._refusal(answer)

    def _refusal(self, answer: HttpAnswer) -> NotTaken:
        problem = f"HTTP {answer.status} from {self._target.host}"
        if answer.status == GONE:
            return NotTaken(f"{problem}: the endpoint is gone", is_over=True)
        if answer.location is not None:
            return NotTaken(f"{problem}: it redirects, which is not followed; correct the `url`")
        again_in_s = _seconds_in(answer.headers.get("retry-after", "")) if answer.status in BUSY else 0.0
        text = redact_start(answer.body.decode("utf-8", "replace"), MAX_SHOWN)
        return NotTaken(f"{problem}: {text}" if text else problem, again_in_s=again_in_s)


def _seconds_in(text: str) -> float:
    """Return the seconds that a ``Retry-After`` asks to wait, as a number or a date; 0 where it is neither."""
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text[:60]) - utc_now()).total_seconds())
    except (TypeError, ValueError):  # also a date without its zone
        return 0.0
