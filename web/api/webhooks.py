"""Webhooks: verified deliveries of other systems start runs of agents and workflows, and give signals."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import Any, Literal

import orjson
from flask import Blueprint, Response
from pydantic import Field

from agents.errors import SIGNAL_INVALID, SIGNAL_UNKNOWN
from bus.identity.errors import FORBIDDEN
from bus.journal.clients import IdempotencyKey
from bus.journal.errors import CONTROL_REFUSED, TOO_MANY_CONTROLS, RunUnknown
from config.definitions.webhooks.definition import WebhookDefinition
from config.effects import UNTRUSTED
from config.errors import BadRequest
from config.expressions.errors import ExpressionFailed
from web.api.answers import STARTING, answer
from web.auth.authentication import current_principal
from web.auth.webhooks import current_webhook
from web.calls.call import call
from web.calls.fields import Answer, AnyJson, Input, Maybe
from web.errors import WEBHOOK_REFUSED, WEBHOOK_UNFIT, WEBHOOK_UNUSABLE
from web.process import current_process
from web.schemas.paths import WebhookName

log = logging.getLogger(__name__)

webhooks = Blueprint("webhooks", __name__)

MAX_ID_CHARS = 255
LABELS = (UNTRUSTED,)
"""Of everything that comes from a delivery: its sender is known, and what it wrote is not ours."""


class WebhookHeaders(Input):
    """The headers of a delivery: those of its format, and what templates may read besides."""

    webhook_id: Maybe[str] = Field(None, alias="webhook-id")
    """Standard Webhooks: the delivery's id."""
    webhook_timestamp: Maybe[str] = Field(None, alias="webhook-timestamp")
    """Standard Webhooks: when it was sent, in seconds since 1970."""
    webhook_signature: Maybe[str] = Field(None, alias="webhook-signature")
    """Standard Webhooks: the signatures."""
    github_delivery: Maybe[str] = Field(None, alias="x-github-delivery")
    """GitHub: the delivery's id."""
    github_event: Maybe[str] = Field(None, alias="x-github-event")
    """GitHub: the type of the event; a `ping` is answered, and starts nothing."""
    github_hook: Maybe[str] = Field(None, alias="x-github-hook-id")
    """GitHub: the id of the webhook there."""
    github_signature: Maybe[str] = Field(None, alias="x-hub-signature-256")
    """GitHub: the signature."""
    stripe_signature: Maybe[str] = Field(None, alias="stripe-signature")
    """Stripe: the time and the signatures; the id is in the body."""
    user_agent: Maybe[str] = Field(None, alias="user-agent")
    """The sender's name for itself."""

    @property
    def shown(self) -> dict[str, str]:
        """Those that templates may read, by their names in small letters."""
        values: dict[str, str] = self.model_dump(by_alias=True, exclude_none=True)
        return {name: value for name, value in values.items() if "signature" not in name}


class WebhookDelivery(AnyJson):
    """The body, as the sender has signed it: a JSON object."""


class WebhookAnswer(Answer):
    """What became of a delivery."""

    outcome: Literal["started", "repeated", "signalled", "ignored"]
    """``repeated``: a delivery with this id started the run before; ``ignored``: a ping, or the webhook's condition is
    false."""
    run_id: Maybe[str] = None
    """The run that was started, or was given the signal."""


PROBLEMS = (
    *(WEBHOOK_REFUSED, WEBHOOK_UNUSABLE, WEBHOOK_UNFIT, *STARTING, FORBIDDEN),
    *(RunUnknown, CONTROL_REFUSED, TOO_MANY_CONTROLS, SIGNAL_UNKNOWN, SIGNAL_INVALID),
)


@webhooks.post("/v1/webhooks/<webhook_id>")
@call({200: WebhookAnswer, 202: WebhookAnswer}, problems=PROBLEMS)
def receive(webhook_id: WebhookName, body: WebhookDelivery, headers: WebhookHeaders) -> Response:
    """Receive a delivery of another system, signed as Standard Webhooks, GitHub or Stripe do it.

    It needs no other credential. 202 with the run that it started or gave a signal; a delivery with the same id is 200
    with the same run, and starts none.
    """
    webhook, delivery = current_webhook(), _delivery(current_webhook().format, body.value, headers)
    if (webhook.format, delivery["event"]) == ("github", "ping"):
        return answer({"outcome": "ignored"})
    try:
        if not webhook.applies(delivery):
            return answer({"outcome": "ignored"})
        return _started(webhook, delivery) if webhook.start is not None else _signalled(webhook, delivery)
    except ExpressionFailed as error:
        log.warning("a delivery does not fit webhook '%s': %s", webhook_id, error, extra={"delivery": delivery["id"]})
        raise WEBHOOK_UNFIT(name=webhook.name, problem=str(error)) from error


def _delivery(format_: str, body: Any, sent: WebhookHeaders) -> dict[str, Any]:
    """Return what templates and the condition see of a verified delivery.

    Raises:
        BadRequest: it is no JSON object, or has no id.
    """
    if not isinstance(body, dict):
        raise BadRequest("the body has to be a JSON object.")
    ids = {"standard": sent.webhook_id, "github": sent.github_delivery, "stripe": body.get("id")}
    delivery_id, kind = ids[format_], sent.github_event if format_ == "github" else body.get("type")
    if not isinstance(delivery_id, str) or not 0 < len(delivery_id) <= MAX_ID_CHARS:
        form = f"of 1 to {MAX_ID_CHARS} characters"
        raise BadRequest(f"the delivery has no id {form}, by which a repeated one would be recognised.")
    return {"body": body, "headers": sent.shown, "id": delivery_id, "event": kind if isinstance(kind, str) else ""}


def _once(webhook: WebhookDefinition, delivery: Mapping[str, Any]) -> IdempotencyKey:
    """Return the key of a delivery: its id alone, at this webhook's address.

    Not its body: a sender may write the same event otherwise when it delivers it again, as Stripe does.
    """
    digest = hashlib.sha256(str(delivery["id"]).encode()).hexdigest()
    address = {"method": "POST", "path": f"/v1/webhooks/{webhook.name}"}
    return IdempotencyKey(**address, key=f"delivery {digest}", body_digest=digest)


def _started(webhook: WebhookDefinition, delivery: Mapping[str, Any]) -> Response:
    assert webhook.start is not None
    start, runner, principal = webhook.start, current_process().runner, current_principal()
    subject = webhook.rendered(start.input, delivery)
    thread_id = _text(webhook.rendered(webhook.thread, delivery)) if webhook.thread is not None else None
    origin = {"webhook": webhook.name, "delivery": delivery["id"], "event": delivery["event"]}
    options: Any = {"thread_id": thread_id, "detached": True, "principal": principal, "metadata": origin}
    options |= {"idempotency": _once(webhook, delivery), "labels": LABELS}
    if start.workflow is not None:
        handle = runner.run_workflow(start.workflow, subject, **options)
    else:  # a run of its own, since one that is open has read nothing of it
        handle = runner.run(_text(subject), str(start.agent), if_busy="enqueue", **options)
    outcome = ("started", 202) if handle.is_new else ("repeated", 200)
    return answer({"outcome": outcome[0], "run_id": handle.run_id}, outcome[1])


def _signalled(webhook: WebhookDefinition, delivery: Mapping[str, Any]) -> Response:
    assert webhook.signal is not None
    fields = webhook.rendered(webhook.signal.model_dump(), delivery)
    run_id, name, key = _text(fields["run"]), _text(fields["name"]), _once(webhook, delivery)
    principal, signal = current_principal(), current_process().runner.signal
    written = signal(run_id, name, fields["data"], principal=principal, idempotency=key, labels=LABELS)
    return answer({"outcome": "signalled", "run_id": written.run_id}, 202)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
