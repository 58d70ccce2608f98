"""The client's records have the fields that the server declares."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from callboard_client import (
    Agent,
    AgentProblem,
    Approval,
    ApprovalLink,
    ControlledRun,
    Decided,
    Executed,
    ForkedThread,
    LoggedEvent,
    Me,
    Message,
    Page,
    Queue,
    QueuedMessage,
    Run,
    RunCounts,
    Step,
    Summary,
    Thread,
    ThreadRun,
    Worker,
    Workflow,
)
from callboard_client.records import Record
from web.api import agents, fleet, queue, threads, workflows
from web.api.credentials import sign_in
from web.dialects.seeds import context, execute
from web.schemas import approval, run

DECLARED: list[tuple[type[Record], type[BaseModel]]] = [
    (Run, run.Run),
    (Me, sign_in.Me),
    (LoggedEvent, context.LoggedEvent),
    (Thread, threads.Thread),
    (ThreadRun, threads.RunOfThread),
    (Message, threads.Message),
    (Summary, threads.SummaryOfThread),
    (Agent, agents.AgentSummary),
    (AgentProblem, agents.BrokenAgent),
    (Approval, approval.QuestionListed),
    (ApprovalLink, approval.ApprovalLink),
    (Decided, approval.DecidedApproval),
    (ControlledRun, run.ControlledRun),
    (QueuedMessage, queue.QueuedMessage),
    (ForkedThread, threads.ForkedThread),
    (Workflow, workflows.WorkflowShown),
    (Step, workflows.Step),
    (RunCounts, fleet.RunCounts),
    (Worker, fleet.ListedWorker),
    (Queue, fleet.ListedQueue),
]
RUN = {"run_id": "run_1", "thread_id": "sums", "agent": "assistant", "status": "waiting"}


@pytest.mark.parametrize(("record", "declared"), DECLARED, ids=lambda kind: kind.__name__)
def test_a_record_has_the_fields_that_the_server_declares(record: type[Record], declared: type[BaseModel]) -> None:
    own = {name for kind in record.__mro__[:-2] for name in vars(kind) if not name.startswith("_")}

    assert own == set(declared.model_fields)


def test_a_field_of_a_later_version_is_kept() -> None:
    run = Run.of(RUN | {"mood": "good"})

    assert (run.run_id, run.raw["mood"], run.output) == ("run_1", "good", None)


def test_a_record_without_an_id_is_none() -> None:
    with pytest.raises(KeyError):
        Run.of({"thread_id": "sums"})


def test_parts_of_a_record_are_records() -> None:
    run = Run.of(RUN | {"approvals": [{"approval_id": "apr_1", "decisions": ["fail"]}]})

    assert [(approval.approval_id, approval.decisions) for approval in run.approvals] == [("apr_1", ["fail"])]
    assert Run.of(RUN).approvals == []


def test_a_page_is_a_list() -> None:
    page = Page([1, 2], "place")

    assert (page, page.next, len(page)) == ([1, 2], "place", 2)


def test_a_call_of_a_tool_has_the_fields_of_both_answers() -> None:
    own = {name for kind in Executed.__mro__[:-2] for name in vars(kind) if not name.startswith("_")}

    assert own == {*execute.Executed.model_fields, *execute.StillExecuting.model_fields}
