"""What the policy decided about the calls of a run."""

from __future__ import annotations

from typing import Annotated

from flask import Blueprint, Response

from bus.journal import RunUnknown
from web.api.answers import answer
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Input
from web.calls.parameters import Whole
from web.process import current_process
from web.schemas.decision import DecisionPage
from web.schemas.paths import RunId

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
        found = process.journal.runs.decisions(current_principal(), run_id, after=query.after, limit=query.limit + 1)
        page = found[: query.limit]
        rest = {"next": str(page[-1]["number"])} if len(found) > query.limit else {}
        return answer({"decisions": page, **rest})
