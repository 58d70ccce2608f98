"""The audit log's entries about settings: those with which the processes of a machine start from then on."""

from __future__ import annotations

import hashlib
import logging
import socket
from collections.abc import Mapping
from typing import Any, Literal, get_origin

from bus.identity.audit.entry import Action, canonical
from bus.identity.audit.recording import MAX_CHARS, MAX_ITEMS, record_state
from config.database.engine import Database
from config.errors import CallboardError
from config.identity.principal import Principal
from config.redaction import REDACTED, is_secret, redact
from config.settings import Settings

log = logging.getLogger(__name__)


def note_settings(database: Database, settings: Settings, process: str) -> None:
    """Record the settings of a process (``web``, ``worker``) that starts, unless this machine's last one had the same.

    They belong to the whole deployment and are in the log of its own tenant. A process starts without this entry
    where the database does not take it.
    """
    started = Principal(tenant=settings.tenant, id="")
    target_id = f"{process}@{socket.gethostname()}"
    try:
        with database.write() as connection:
            record_state(connection, started, Action.SETTINGS_CHANGED, "process", target_id, chosen(settings))
    except CallboardError as error:
        log.warning("the settings of this process are not in the audit log: %s", error)


def chosen(settings: Settings) -> dict[str, Any]:
    """Return the settings that differ from their defaults, without secrets."""
    values: dict[str, Any] = {}
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        if value != field.get_default(call_default_factory=True):
            is_choice = get_origin(field.annotation) is Literal  # `auth` is named like a secret and is none
            values[name] = REDACTED if is_secret(name, str(value)) and not is_choice else _distinct(value)
    return values


def _distinct(value: Any) -> Any:
    """Return a value, or where it is too long to be recorded as it is, its beginning and the digest of all of it.

    Two values that differ anywhere are thus recorded as different ones.
    """
    if isinstance(value, Mapping) and len(value) > MAX_ITEMS:
        value = canonical(value).decode()
    if not isinstance(value, str) or len(value) <= MAX_CHARS:
        return value
    text = redact(value)
    return f"{text[: MAX_CHARS // 2]}… (SHA-256: {hashlib.sha256(text.encode()).hexdigest()})"
