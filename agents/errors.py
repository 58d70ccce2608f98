"""Errors of requests for runs and of agents' answers."""

from __future__ import annotations

from collections.abc import Iterable

from config.errors import CallboardError, Internal, Permanent, Topic
from config.text.names import did_you_mean

INPUT_EMPTY = Permanent.row(
    "input_empty",
    "The input is empty.",
    text="the input is empty; send a sentence for the agent to work on.",
    remedy="Send a message.",
)

INPUT_TOO_LARGE = Permanent.row(
    "input_too_large",
    "The input is longer than `CALLBOARD_MAX_INPUT_CHARS`.",
    status=413,
    text=(
        "the input has {size:,} characters and the limit is {limit:,}; put long material in a file the agent can read, "
        "and name the file."
    ),
    remedy="Put long material in a file the agent can read.",
)


class AgentUnknown(Permanent):
    """No folder has an agent with that id."""

    code = "agent_unknown"
    status = 404
    remedy = "Use the nearest name that the sentence suggests, or add the file."

    def __init__(self, agent_id: str, agent_ids: Iterable[str], folder: str = "config/agents") -> None:
        names = sorted(agent_ids)
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


OBSERVER_TRAVELS = Permanent.row(
    "observer_travels",
    "An observer object was given for a run that a worker executes.",
    remedy="Name it in the agent's `observers:`.",
)


def observer_travels(names: Iterable[str]) -> CallboardError:
    return OBSERVER_TRAVELS(
        f"observer objects cannot travel to a worker ({', '.join(names)}); name them in the agent's "
        "`observers:` instead, or run synchronously."
    )


OUTCOME_UNKNOWN = Permanent.row(
    "outcome_unknown",
    "An unsafe call was interrupted, its outcome is unknown, and the agent has `on_unknown: fail`.",
    status=502,
    topic=Topic.RUN,
    over_http=False,
    remedy="Check the other system, then start a new run.",
)

POLICY_REFUSED = Permanent.row(
    "policy_refused",
    "The policy does not let the run call its model, or ends the run because of a call.",
    status=403,
    topic=Topic.RUN,
    text="the policy's rule '{rule}' ends the run. {reason}",
    remedy="Read the rule that the sentence names; it, or the request, has to change.",
)

SECURITY_CONTEXT_MISSING = Permanent.row(
    "security_context_missing",
    "The run was started without a record of its credential or its trace id, and the deployment requires both.",
    topic=Topic.RUN,
    over_http=False,
    text=(
        "SecurityContext not set in workflow memo: the run's row has no credential or no trace id. Start the run "
        "again, or allow such runs by CALLBOARD_REQUIRE_CONTEXTS=false."
    ),
    remedy="An earlier release, or another program, has started the run; start it again ([contexts](contexts.md)).",
)


class OutputInvalid(Permanent):
    """The answer does not fit the schema."""

    code = "output_invalid"
    status = 502
    topic = Topic.RUN
    over_http = False
    remedy = "One repair, then the run fails; a simpler schema or another model may help."


def run_failed() -> Internal:
    """Return the error of a run that met an unexpected exception; the worker's log has the traceback."""
    return Internal("the run failed with an unexpected error; the worker's log has the details.")


TOO_MANY_QUESTIONS = Permanent.row(
    "too_many_questions",
    "The runs of the principal have asked persons as many questions as they may within an hour.",
    topic=Topic.RUN,
    over_http=False,
    text=(
        "the runs of '{principal}' have asked {asked} questions within an hour and may ask {limit}. Start a new run "
        "later, or let an approval hold for later calls."
    ),
    remedy="Start a new run later. The limit is `CALLBOARD_QUESTIONS_PER_HOUR`.",
)
