"""Asks the remote engine about one event: one request to one address, within two seconds, without redirects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from ipaddress import ip_network
from typing import Any

import orjson
from pydantic import SecretStr

from agents.governance.engine.answer import EngineAnswer, InputType, read_answer
from agents.governance.engine.errors import EngineUnavailable
from agents.tools.spans.collector import request_span
from config.egress.exchange import Limits
from config.egress.fetch import Fetcher
from config.egress.lookup import resolver_of
from config.egress.policy import Allowed, EgressPolicy
from config.egress.request import Outgoing
from config.egress.target import Target, parse_target
from config.errors import ModelVisible, ToolCutOff
from config.settings import Settings

PATH = "/governance/evaluate"
MAX_BYTES = 512 * 1024
"""Longest answer."""
_EVERYWHERE = tuple(map(ip_network, ("0.0.0.0/0", "::/0")))


class RemoteEngine:
    """The engine at one address; safe for any number of runs on one loop."""

    def __init__(self, url: str, key: SecretStr | None, timeout_s: float) -> None:
        base = parse_target(url)
        self._target = replace(base, path=base.path.rstrip("/") + PATH)
        self._headers = [("Content-Type", "application/json"), ("Accept", "application/json")]
        if key is not None:
            self._headers.append(("Authorization", f"Bearer {key.get_secret_value()}"))
        limits = Limits(total_s=timeout_s, connect_s=timeout_s, max_bytes=MAX_BYTES, max_redirects=0)
        self._timeout_s = timeout_s
        self._fetcher = Fetcher(
            policy=_only(self._target), limits=limits, resolver=resolver_of("the engine"), span=request_span
        )

    async def evaluate(self, event: Mapping[str, Any], input_type: InputType) -> EngineAnswer:
        """Return what the engine decides about an event.

        Raises:
            EngineUnavailable: it gave no usable answer, in time or at all.
        """
        body = orjson.dumps(event)
        outgoing = Outgoing(
            method="POST", target=self._target, headers=tuple(self._headers), body=body, continues_trace=True
        )
        try:
            answer = await self._fetcher.fetch(outgoing)
        except ToolCutOff as error:
            raise EngineUnavailable(problem=f"it did not answer within {self._timeout_s:g} s, or broke off") from error
        except ModelVisible as error:
            raise EngineUnavailable(problem="it cannot be reached, or its address is not allowed") from error
        if answer.status != 200:
            raise EngineUnavailable(problem=f"it answered HTTP {answer.status}")
        if answer.notes:
            raise EngineUnavailable(problem="its answer is too long, or not complete")
        return read_answer(answer.body, event, input_type)


def _only(target: Target) -> EgressPolicy:
    """Return the policy that lets requests go to the operator's address, which is often private, and nowhere else.

    Link-local addresses and metadata services stay refused.
    """
    host = Allowed(name=target.host, port=target.port)
    networks = (Allowed(network=network, port=target.port) for network in _EVERYWHERE)
    return EgressPolicy(allowed=(host, *networks), remedy="Correct CALLBOARD_GOVERNANCE_URL.")


def engine_of(settings: Settings) -> RemoteEngine:
    """Return the engine that the settings name."""
    assert settings.governance_url is not None
    return _engine(settings.governance_url, settings.governance_api_key, settings.governance_timeout_s)


_engine = lru_cache(maxsize=4)(RemoteEngine)
