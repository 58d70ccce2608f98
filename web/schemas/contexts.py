"""The contexts of a run (docs/contexts.md)."""

from __future__ import annotations

from config.capabilities import Classification
from config.identity.principal import Role
from web.calls.fields import Answer, Maybe


class GoldenContextShown(Answer):
    """For which application, environment and initiator a run works."""

    app_id: str
    """The application, as the deployment calls it."""
    environment: str
    """The environment, such as ``production``."""
    initiator_id: str
    """Whom it works for: its principal, unless its door named another one. It gives no right."""
    trace_id: str
    """32 hexadecimal digits, by which log records and answers are found."""
    cost_center: Maybe[str] = None
    """What it is charged to."""
    data_classification: Maybe[Classification] = None
    """How the data that it is about is classified."""


class SecurityContextShown(Answer):
    """Who asked for a run, and with what."""

    initiator_id: str
    """Whom it works for."""
    roles: list[Role]
    """The roles that it was started with; its calls are made with those of them that its principal still has."""
    token_ref: Maybe[str] = None
    """Which credential it was: its kind, and its id behind a colon. For principals with the role operator or admin
    only, and never the credential itself."""
    trace_id: str
    """32 hexadecimal digits."""
