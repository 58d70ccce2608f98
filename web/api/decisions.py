"""What the policy decided about the calls of a run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from flask import Blueprint, Response

from bus.journal.errors import RunUnknown
from config.policy_decision import Verdict
from web.api.answers import answer
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe
from web.calls.parameters import Whole
from web.process import current_process
from web.schemas.paths import RunId


class RecordedDecision(Answer):
    """What the policy decided about one call, before it was made."""

    step_id: str
    number: int
    """Of the step in its run, from 1."""
    point: Literal["model", "tool"]
    name: str
    """The model, or the tool."""
    identity: Maybe[str] = None
    """The tool as ``mcp:server/tool``, whatever the model calls it; absent of a tool of no MCP server."""
    call_id: Maybe[str] = None
    effect: Maybe[str] = None
    """The tool's effect class; absent where the call was not made."""
    status: str
    """Of the step: started, done, failed, refused and so on."""
    at: str
    """When the step was recorded, UTC."""
    verdict: Verdict
    rule: str
    """The rule that decided; ``default`` where none matched."""
    reason: Maybe[str] = None
    version: str
    """Of the policy: a digest of its rules."""
    arguments: Maybe[dict[str, Any]] = None
    """The arguments with which the call is made, where a rule changed them."""
    timeout_s: Maybe[float] = None
    """Seconds that the call may take, where a rule says so."""
    labels: Maybe[list[str]] = None
    """What the rules label the run with after the call."""
    seen: Maybe[list[str]] = None
    """The labels that the call had when it was decided about."""
    remote: Maybe[str] = None
    """What the remote engine said of the call, where one was asked."""


class DecisionPage(Answer):
    """Decisions of a run, in the order of its steps."""

    decisions: list[RecordedDecision]
    next: Maybe[str] = None
    """The ``after`` of the next page; absent on the last one."""


decisions = Blueprint("decisions", __name__)

MOST_STEPS = 10**9


class WhichDecisions(Input):
    """Which page of the decisions."""

    limit: Annotated[int, Whole(1, 200)] = 50
    """Most decisions of a page."""
    after: Annotated[int, Whole(0, MOST_STEPS)] = 0
    """``next`` of the page before."""


@decisions.get("/v1/runs/<run_id>/decisions")
@call({200: DecisionPage}, problems=(RunUnknown,))
def of_run(run_id: RunId, query: WhichDecisions) -> Response:
    """List what the policy decided about each call of a model or a tool, in order."""
    process = current_process()
    with process.large_work():
        rows = process.journal.readers.runs.decisions(
            current_principal(), run_id, after=query.after, limit=query.limit + 1
        )
        page = rows[: query.limit]
        rest = {"next": str(page[-1]["number"])} if len(rows) > query.limit else {}
        return answer({"decisions": page, **rest})
