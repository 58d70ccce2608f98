"""The start of a run, as the calls of this design and of earlier ones share it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agents.errors import INPUT_EMPTY, INPUT_TOO_LARGE, AgentUnknown
from agents.governance.guardrails.errors import INPUT_BLOCKED
from bus.identity.errors import AGENT_FORBIDDEN
from bus.journal.errors import IDEMPOTENCY_CONFLICT, THREAD_OF_OTHER_AGENT, TOO_MANY_RUNS, ThreadUnknown
from config.definitions.errors import DefinitionInvalid
from config.tracing import correlate
from web.auth.authentication import current_principal
from web.calls.fields import Input
from web.calls.parameters import Repeatable
from web.process import current_process

if TYPE_CHECKING:
    from agents.handle import RunHandle

STARTING = (
    *(AgentUnknown, AGENT_FORBIDDEN, DefinitionInvalid, INPUT_BLOCKED, INPUT_EMPTY, INPUT_TOO_LARGE),
    *(THREAD_OF_OTHER_AGENT, ThreadUnknown, IDEMPOTENCY_CONFLICT, TOO_MANY_RUNS),
)
"""The errors of a start."""


def start_run(
    message: str,
    agent_id: str | None,
    body: Input,
    headers: Repeatable,
    *,
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> RunHandle:
    """Accept a run for the caller; without an agent that of the default one.

    ``body`` and ``headers`` are the request's: a repeated request with the same key gets the same run. ``options`` are
    those of ``Runner.run``.
    """
    process = current_process()
    correlate((metadata or {}).get("correlation_id"))
    return process.runner.run(
        message,
        process.settings.default_agent if agent_id is None else agent_id,
        principal=current_principal(),
        metadata=metadata,
        idempotency=headers.idempotency(body),
        **options,
    )
