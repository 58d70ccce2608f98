"""A run's questions are asked where the client can show them and its caller may answer; else the result says how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext
from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult

from bus.journal.approvals import Decision
from config.identity.principal import Principal, Verb
from tests.web.mcp import counter
from tests.web.mcp.conftest import Place

pytestmark = pytest.mark.parity

Answers = Callable[[ElicitRequestParams], ElicitResult]


class User:
    """The person at a client, who answers each form alike."""

    def __init__(self, action: str, content: dict[str, Any] | None = None) -> None:
        self.answer = ElicitResult(action=action, content=content)  # type: ignore[arg-type]
        self.shown: list[Any] = []

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        del context
        self.shown.append(params)
        return self.answer

    @property
    def options(self) -> dict[str, Any]:
        return {"elicitation_callback": self}


def test_the_user_of_a_client_approves_the_exact_call(place: Place, mode: str) -> None:
    user = User("accept", {"decision": "approve"})

    state = place.state("book", mode, user.options, room="blue")

    assert (state["status"], state["output"]) == ("succeeded", "booked blue")
    assert counter.calls_made == ["blue"]
    (form,) = user.shown
    assert 'book(room="blue")' in form.message
    assert form.requested_schema["properties"]["decision"]["enum"] == ["approve", "reject"]


@pytest.mark.parametrize("user", [User("decline"), User("accept", {"decision": "reject", "message": "too small"})])
def test_a_call_that_the_user_rejects_is_not_made(place: Place, mode: str, user: User) -> None:
    state = place.state("book", mode, user.options, room="blue")

    assert (state["status"], state["code"]) == ("failed", "call_rejected")
    assert counter.calls_made == []


@pytest.mark.parametrize("user", [User("cancel"), User("accept", {"decision": "perhaps"}), User("accept")])
def test_a_question_that_the_user_leaves_open_waits_for_another_answer(place: Place, mode: str, user: User) -> None:
    state = place.state("book", mode, user.options, room="blue")

    assert (state["status"], state["code"]) == ("waiting", "APPROVAL_REQUIRED")
    why = "the decision is none of these: approve, reject." if user.answer.action == "accept" else None
    assert state.get("error") == why
    assert counter.calls_made == []


def test_without_forms_the_result_says_how_to_approve_and_the_run_is_resumed(place: Place, mode: str) -> None:
    answer = place.call("book", mode, room="blue")

    state = answer.structured_content
    assert (answer.is_error, state["status"], state["code"]) == (False, "waiting", "APPROVAL_REQUIRED")
    assert f"./callboard approve {state['run_id']}" in state["next"]
    assert "run_status" in answer.content[0].text
    handle = place.service.runner.handle(state["run_id"])
    handle.decide(state["approval_id"], Decision(decision="approve"))
    ended = place.state("run_status", mode, run_id=state["run_id"], wait_s=20)
    assert (ended["status"], ended["output"]) == ("succeeded", "booked blue")


def test_the_state_of_a_run_can_be_asked_for_with_its_question(place: Place, mode: str) -> None:
    run_id = place.state("book", mode, room="blue")["run_id"]

    waiting = place.state("run_status", mode, run_id=run_id)
    ended = place.state("run_status", mode, User("accept", {"decision": "approve"}).options, run_id=run_id, wait_s=20)

    assert waiting["code"] == "APPROVAL_REQUIRED"
    assert ended["output"] == "booked blue"


def test_the_form_of_a_tool_is_filled_in(place: Place, mode: str) -> None:
    user = User("accept", {"persons": 4})

    assert place.state("seat", mode, user.options)["output"] == "seats for 4"
    assert user.shown[0].requested_schema["properties"] == {"persons": {"type": "integer", "minimum": 1}}
    assert "How many persons?" in user.shown[0].message


def test_an_answer_that_does_not_fit_leaves_the_question_open_and_the_result_says_why(place: Place, mode: str) -> None:
    answer = place.call("seat", mode, User("accept", {"persons": 0}).options)

    state = answer.structured_content
    assert (answer.is_error, state["code"]) == (False, "APPROVAL_REQUIRED")
    assert "minimum of 1" in state["error"]
    assert answer.content[0].text.startswith(state["error"])


def test_a_caller_whose_key_may_not_decide_is_not_asked(place: Place, mode: str) -> None:
    user = User("accept", {"decision": "approve"})
    limited = place.as_principal(replace(place.service.runner.principal, verbs=frozenset({Verb.SEE, Verb.START})))

    state = limited.state("book", mode, user.options, room="blue")

    assert (state["code"], user.shown, counter.calls_made) == ("APPROVAL_REQUIRED", [], [])


# --- the state that a client of 2026-07-28 sends back -------------------------------------------


def _asked(place: Place) -> InputRequiredResult:
    """Call with a client that can show forms, and return what it is asked."""

    async def work(client: Client) -> CallToolResult | InputRequiredResult:
        return await client.session.call_tool("book", {"room": "blue"}, allow_input_required=True)

    request = place.use(work, "2026-07-28", **User("cancel").options)
    assert isinstance(request, InputRequiredResult)
    return request


def _repeat(place: Place, state: str | None, answers: Any, room: str = "blue") -> Any:
    async def work(client: Client) -> Any:
        return await client.session.call_tool(
            "book", {"room": room}, input_responses=answers, request_state=state, allow_input_required=True
        )

    return place.use(work, "2026-07-28", **User("cancel").options)


def _approval(request: InputRequiredResult) -> dict[str, ElicitResult]:
    return {
        name: ElicitResult(action="accept", content={"decision": "approve"}) for name in request.input_requests or {}
    }


def test_a_repeated_request_continues_the_run_and_starts_no_other(place: Place) -> None:
    request = _asked(place)

    ended = _repeat(place, request.request_state, _approval(request))

    assert ended.structured_content["output"] == "booked blue"
    assert len(place.service.journal.readers.runs.newest(place.service.runner.principal)) == 1
    again = _repeat(place, request.request_state, _approval(request))
    assert (again.structured_content["output"], counter.calls_made) == ("booked blue", ["blue"])


@pytest.mark.parametrize("tampered", ["", "v1.", "run_1 0", "x" * 400])
def test_a_state_that_the_server_did_not_make_is_refused(place: Place, tampered: str) -> None:
    request = _asked(place)

    with pytest.raises(MCPError, match="Invalid or expired requestState"):
        _repeat(place, tampered, _approval(request))
    assert counter.calls_made == []


def test_each_changed_character_of_a_state_is_noticed(place: Place) -> None:
    request = _asked(place)
    state = request.request_state or ""

    for position in range(0, len(state), 7):
        other = "A" if state[position] != "A" else "B"
        with pytest.raises(MCPError, match="requestState"):
            _repeat(place, state[:position] + other + state[position + 1 :], _approval(request))
    assert counter.calls_made == []


def test_a_state_is_for_its_caller_and_its_call_alone(place: Place) -> None:
    request = _asked(place)
    other = place.as_principal(Principal(tenant="default", id="eve"))

    with pytest.raises(MCPError, match="requestState"):
        _repeat(other, request.request_state, _approval(request))
    with pytest.raises(MCPError, match="requestState"):
        _repeat(place, request.request_state, _approval(request), room="red")
    assert counter.calls_made == []
