"""Errors of requests for runs and of agents' answers."""

from __future__ import annotations

from collections.abc import Iterable

from config.errors import Permanent
from config.spelling import did_you_mean


class InputEmpty(Permanent):
    code = "input_empty"
    text = "the input is empty; send a sentence for the agent to work on."


class InputTooLarge(Permanent):
    code = "input_too_large"
    status = 413
    text = (
        "the input has {size:,} characters and the limit is {limit:,}; put long material in a file the agent can read, "
        "and name the file."
    )


class AgentUnknown(Permanent):
    code = "agent_unknown"
    status = 404

    def __init__(self, agent_id: str, known: Iterable[str], folder: str = "config/agents") -> None:
        names = sorted(known)
        listing = ", ".join(f"'{n}'" for n in names) or "none"
        meant = did_you_mean(agent_id[:80], names)
        super().__init__(
            f"agent '{agent_id[:80]}' is not configured; known agents: {listing}."
            f"{meant} {'Or add' if meant else 'Add'} {folder}/{agent_id[:80]}.yaml.",
            agent_id=agent_id,
            known=names,
        )

    @property
    def public(self) -> str:
        return f"agent '{self.facts['agent_id'][:80]}' is not configured; GET /v1/agents lists those that are."


class GrantRefused(Permanent):
    code = "grant_refused"
    status = 403
    text = "privilege grants are not available yet, so none can be verified; start the run without one."


class ObserverTravels(Permanent):
    code = "observer_travels"

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(
            f"observer objects cannot travel to a worker ({', '.join(names)}); name them in the agent's "
            "`observers:` instead, or run synchronously."
        )


class OutcomeUnknown(Permanent):
    """The outcome of an unsafe tool call is unknown, and the agent is configured to fail then."""

    code = "outcome_unknown"
    status = 502


class OutputInvalid(Permanent):
    """The answer fails the agent's output schema, also after one repair."""

    code = "output_invalid"
    status = 502


class RunFailed(Permanent):
    """An unexpected exception; the worker's log has the traceback."""

    code = "internal"
    status = 500
    text = "the run failed with an unexpected error; the worker's log has the details."
