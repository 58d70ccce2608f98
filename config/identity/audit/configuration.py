"""The audit log's entries about settings: those with which the processes of a machine start from then on."""

from __future__ import annotations

import logging
import socket
from typing import Any

from config.database.engine import Database
from config.errors import CallboardError
from config.identity.audit.entry import Action
from config.identity.audit.recording import record_state
from config.identity.principal import Principal
from config.redaction import REDACTED, is_secret
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
    found: dict[str, Any] = {}
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        if value != field.get_default(call_default_factory=True):
            found[name] = REDACTED if is_secret(name, str(value)) else value
    return found
