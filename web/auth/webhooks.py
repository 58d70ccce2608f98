"""Webhooks' deliveries as credentials: a signature over the bytes of the body says who calls, before they are parsed.

What cannot be verified costs the hash of its body and a look at a file, no query: whatever is refused is refused alike.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection
from pathlib import Path

from flask import g, request

from bus.identity.credentials.credential import Caller, Credential, CredentialKind
from config.definitions.errors import DefinitionInvalid
from config.definitions.webhooks.definition import WebhookDefinition, WebhookFiles, read_webhooks
from config.definitions.webhooks.signatures import problem_of
from config.text.visible import one_line
from web.auth.keys import DisabledPrincipals
from web.errors import WEBHOOK_REFUSED, WEBHOOK_UNUSABLE
from web.process import WebProcess

log = logging.getLogger(__name__)

WEBHOOK_ENDPOINT = "webhooks.receive"
"""The one endpoint whose credential is a signature."""
_DECOY = os.urandom(32)
"""Signs for webhooks that there are not, so that a refusal takes as long as that of one that there is."""


class WebhookCallers:
    """Finds the callers of deliveries; one per process."""

    def __init__(self, process: WebProcess) -> None:
        self._files = WebhookFiles(process.settings.webhooks_folders)
        self._disabled = DisabledPrincipals(process)
        _log_problems(process.settings.webhooks_folders)

    def caller(self) -> Caller:
        """Return for whom the request that is being handled acts, and keep its webhook for ``current_webhook``.

        Raises:
            WEBHOOK_REFUSED: there is no such webhook, or none of its secrets has signed the body at this time.
            WEBHOOK_UNUSABLE: its file or its secret cannot be used.
        """
        name = str((request.view_args or {}).get("webhook_id", ""))
        webhook, keys = self._definition(name)
        format_ = webhook.format if webhook is not None else "github"
        headers = {header.lower(): value for header, value in request.headers.items()}
        problem = problem_of(format_, headers, request.get_data(), keys, time.time())
        if webhook is None or problem is not None:
            facts = {"webhook": one_line(name)[:64], "address": request.remote_addr or ""}
            log.info("a delivery was refused: %s", problem if webhook is not None else "no such webhook", extra=facts)
            raise WEBHOOK_REFUSED()
        if self._disabled.has(webhook.who):
            log.info("a delivery was refused: its principal is disabled", extra={"webhook": name})
            raise WEBHOOK_REFUSED()
        g.webhook = webhook
        return Caller(principal=webhook.who, credential=Credential(kind=CredentialKind.WEBHOOK, id=name))

    def _definition(self, name: str) -> tuple[WebhookDefinition | None, list[bytes]]:
        """Return the webhook of this name with its keys; without one a key that has signed nothing."""
        webhook = self._files.get(name)
        if webhook is None:
            return None, [_DECOY]
        try:
            if isinstance(webhook, DefinitionInvalid):
                raise webhook
            return webhook, webhook.keys()
        except DefinitionInvalid as error:
            log.warning("webhook '%s' cannot be used: %s", name, error)
            raise WEBHOOK_UNUSABLE() from error


def _log_problems(folders: Collection[Path]) -> None:
    """Say in the log what is wrong with files and secrets, when the process starts."""
    webhooks, problems = read_webhooks(folders)
    for webhook in webhooks.values():
        try:
            webhook.keys()
        except DefinitionInvalid as error:
            problems.append(error)
    for problem in problems:
        log.error("a webhook cannot be used: %s", problem)


def current_webhook() -> WebhookDefinition:
    """Return the webhook whose verified delivery is being handled."""
    webhook: WebhookDefinition = g.webhook
    return webhook
