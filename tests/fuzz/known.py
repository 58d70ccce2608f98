"""What no generated request can know: an open question, a signal that is awaited, a sign-in, the key in use."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from schemathesis import Case

from bus.identity.envelope import HEADER
from config.definitions.webhooks.signatures import key_of, sign
from tests.identity_provider.provider import pass_forms

FITTING = {"order": 7}
"""Arguments that the questions before calls take."""
EVERY = 4
"""One of so many requests gets what is known."""


class Known:
    """Puts what is known into some requests; the others stay as they were generated."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._questions = itertools.cycle(facts["questions"])
        self._own_key_id = facts["key"].split("_")[1]
        self._runs = itertools.cycle(facts["workflows"])
        self._hook_key = key_of("standard", facts["hook_secret"])
        self._turn = itertools.count()
        self._envelopes = itertools.count()
        self._changes: Mapping[str, Callable[[Case], None]] = {
            "POST /v1/runs/{run_id}/approvals/{approval_id}": self._answer_a_question,
            "POST /v1/runs/{run_id}/signals/{name}": self._give_a_signal,
            "POST /auth/callback": self._sign_in,
            "POST /execute": self._call_a_tool,
            "POST /v1/webhooks/{webhook_id}": self._sign_a_delivery,
        }

    @classmethod
    def from_environment(cls) -> Known:
        return cls(json.loads(Path(os.environ["CALLBOARD_FUZZ_FACTS"]).read_text()))

    def put_into(self, case: Case) -> None:
        """Change a request that was meant to be valid."""
        if case.operation.label == "DELETE /v1/keys/{key_id}" and case.path_parameters["key_id"] == self._own_key_id:
            case.path_parameters["key_id"] = "the-fuzzers-own"
        if case.operation.label == "POST /execute" and _is_valid(case) and next(self._envelopes) % EVERY:
            case.headers.pop(HEADER, None)  # one that is not signed is refused before the body is looked at
        change = self._changes.get(case.operation.label)
        if change is not None and _is_valid(case) and next(self._turn) % EVERY == 0:
            change(case)

    def _answer_a_question(self, case: Case) -> None:
        decision = case.body["decision"]
        run_id, approval_id, _ = next(question for question in self._questions if decision in question[2])
        case.path_parameters |= {"run_id": run_id, "approval_id": approval_id}
        if "arguments" in case.body:
            case.body["arguments"] = FITTING

    def _give_a_signal(self, case: Case) -> None:
        """Name an item whose signal was not given before."""
        case.path_parameters |= {"run_id": next(self._runs), "name": f"paid-{next(self._turn)}"}

    def _sign_a_delivery(self, case: Case) -> None:
        case.body = {"number": next(self._turn)}
        delivery_id, at_s, sent = f"msg_{case.body['number']}", int(time.time()), json.dumps(case.body).encode()
        signature = sign(self._hook_key, delivery_id, at_s, sent)  # requests writes JSON so
        headers = {"webhook-id": delivery_id, "webhook-timestamp": str(at_s), "webhook-signature": signature}
        case.path_parameters["webhook_id"] = "shop"
        case.headers.update(headers)

    def _call_a_tool(self, case: Case) -> None:
        case.body |= {"tool_name": "calculator", "arguments": {"expression": "17 * 23"}}
        for name in ("config", "grant"):
            case.body.pop(name, None)
        case.headers.pop(HEADER, None)

    def _sign_in(self, case: Case) -> None:
        origin = str(case.operation.base_url).rstrip("/")
        with httpx.Client() as browser:
            begun = browser.post(f"{origin}/auth/sign-in").json()
            cookies = {name: value for name, value in browser.cookies.items() if name.startswith("callboard_")}
            back = pass_forms(browser, begun["authorization_url"], "olga", f"{origin}/auth/callback")
        case.body = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
        case.cookies = cookies


def _is_valid(case: Case) -> bool:
    return case.meta is not None and case.meta.generation.mode.is_positive
