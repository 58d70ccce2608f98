"""What a tool, an agent or a call with missing arguments asks a person: before anything is done, and once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from agents.handle import RunHandle
from agents.testing import AgentKit, Call, Turn
from agents.tools.ask_user import ask_user
from agents.tools.call_context import current_call
from agents.tools.tool import tool
from bus.journal.approvals import Decision
from bus.journal.errors import ANSWER_REFUSED, ApprovalOver
from bus.journal.readers import steps_of
from bus.payloads import ApprovalPayload, ToolResultPayload
from config.ids import canonical_digest
from tests.raising import raises

calls_made: list[Any] = []
questions_asked: list[str] = []
answered: set[str] = set()
COLOUR = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}
SIZE = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    calls_made.clear()
    questions_asked.clear()
    answered.clear()


@tool(effect="unsafe")
def paint(wall: str) -> str:
    """Paint a wall.

    Args:
        wall: which wall.
    """
    colour = current_call().ask(COLOUR, f"Which colour for the {wall} wall?")["colour"]
    size = current_call().ask(SIZE, "How many square metres?")["size"]
    calls_made.append((wall, colour, size))
    return f"painted {wall} {colour}"


@tool(effect="unsafe", confirm=True)
async def order(item: str, boxes: Annotated[int, Field(ge=1)], to: Literal["home", "office"] = "home") -> str:
    """Order something.

    Args:
        item: what to order.
        boxes: how many boxes.
        to: where to send it.
    """
    questions_asked.append(item)
    if item == "tea":
        item = current_call().ask(None, "Which tea?")["answer"]
    calls_made.append((item, boxes, to))
    return f"ordered {boxes} {item}"


@tool(effect="pure")
def look(item: str, shelf: str) -> str:
    """Look something up.

    Args:
        item: what to look up.
        shelf: where.
    """
    calls_made.append((item, shelf))
    return f"{item}: in stock"


PAINT = Call(name="paint", arguments={"wall": "north"})


def begin(kit: AgentKit, *calls: Call, tools: tuple[Callable[..., Any], ...], **fields: Any) -> RunHandle:
    """Return a run that makes these calls in one answer, and waits."""
    kit.agent(tools=tools, **fields)
    kit.model.script(Turn(calls=calls), Turn(text="Done."))
    handle = kit.run()
    waits(handle)
    return handle


def waits(handle: RunHandle) -> dict[str, Any]:
    """Return the run's question that this test has not answered, once the run waits for it."""
    events = (event for event in handle.events() if isinstance(event, ApprovalPayload) and event.decision is None)
    new = next(event.approval_id for event in events if event.approval_id not in answered)
    (question,) = [approval for approval in handle.approvals() if approval["approval_id"] == new]
    return question


def decide(handle: RunHandle, **decision: Any) -> dict[str, Any]:
    """Answer the run's question and return it."""
    approval = waits(handle)
    handle.decide(approval["approval_id"], Decision(**decision), by="ann")
    answered.add(approval["approval_id"])
    return approval


def answer(handle: RunHandle, **fields: Any) -> dict[str, Any]:
    """Fill in the form of the run's question and return it."""
    return decide(handle, decision="answer", result=fields)


def results(handle: RunHandle) -> list[tuple[str, str, Any]]:
    assert handle.result(30).status == "succeeded"
    return [(e.name, e.outcome, e.result) for e in handle.events() if isinstance(e, ToolResultPayload)]


# --- a tool asks ----------------------------------------------------------------------------------


def test_a_tool_asks_before_it_does_anything_and_is_called_again_with_the_answers(kit: AgentKit) -> None:
    handle = begin(kit, PAINT, tools=(paint,))
    first = waits(handle)

    assert (first["kind"], first["decisions"], first["input_schema"]) == ("input", ["answer", "reject"], COLOUR)
    assert (first["reason"], handle.status(), calls_made) == ("Which colour for the north wall?", "waiting", [])
    answer(handle, colour="blue")
    second = answer(handle, size=12)

    assert second["reason"] == "How many square metres?"
    assert results(handle) == [("paint", "done", "painted north blue")]
    assert calls_made == [("north", "blue", 12)]


def test_a_run_that_asks_has_no_owner_and_its_step_is_planned(kit: AgentKit) -> None:
    handle = begin(kit, PAINT, tools=(paint,))

    with kit.runner.journal.database.read() as connection:
        (step,) = [step for step in steps_of(connection, handle.run_id) if step["kind"] == "tool"]

    assert step["status"] == "planned"
    handle.cancel()
    handle.result(30)
    assert calls_made == []


def test_an_answer_that_does_not_fit_keeps_the_run_waiting(kit: AgentKit) -> None:
    handle = begin(kit, PAINT, tools=(paint,))

    with raises(ANSWER_REFUSED, match="colour"):
        answer(handle, colour="green")

    assert (handle.status(), calls_made) == ("waiting", [])
    handle.cancel()


def test_a_declined_question_is_the_calls_result(kit: AgentKit) -> None:
    handle = begin(kit, PAINT, tools=(paint,))

    decide(handle, decision="reject", message="not today")

    ((_, outcome, result),) = results(handle)
    assert (outcome, calls_made) == ("refused", [])
    assert "not today" in result


def test_after_a_stop_no_answer_counts(kit: AgentKit) -> None:
    handle = begin(kit, PAINT, tools=(paint,))
    approval = waits(handle)
    handle.cancel()

    with pytest.raises(ApprovalOver):
        handle.decide(approval["approval_id"], Decision(decision="answer", result={"colour": "red"}))

    assert calls_made == []


def test_a_tool_that_swallows_exceptions_asks_all_the_same(kit: AgentKit) -> None:
    @tool(name="paint", effect="pure")
    def careless(wall: str) -> str:
        """Paint a wall.

        Args:
            wall: which wall.
        """
        try:
            return str(current_call().ask(COLOUR, "Which colour?"))
        except Exception:
            calls_made.append(wall)
            return "swallowed"

    handle = begin(kit, PAINT, tools=(careless,))

    answer(handle, colour="red")
    assert [result for _, _, result in results(handle)] == ["{'colour': 'red'}"]
    assert calls_made == []


def test_a_question_is_stored_without_secrets_and_hidden_characters(kit: AgentKit) -> None:
    key = "sk-live-0123456789abcdef0123456789"

    @tool(name="paint", effect="pure")
    def careless(wall: str) -> str:
        """Paint a wall.

        Args:
            wall: which wall.
        """
        properties = {"colour": {"type": "string", "title": "Col\u202eour", "description": f"not {key}\u200b"}}
        return str(current_call().ask({"type": "object", "properties": properties}, f"Is it {key}\u202e?"))

    handle = begin(kit, PAINT, tools=(careless,))
    question = answer(handle, colour="red")

    assert question["reason"] == "Is it [redacted]⟨U+202E⟩?"
    assert question["input_schema"]["properties"]["colour"]["description"] == "not [redacted]⟨U+200B⟩"
    assert question["input_schema"]["properties"]["colour"]["title"] == "Col⟨U+202E⟩our"
    assert [result for _, _, result in results(handle)] == ["{'colour': 'red'}"]
    assert not any(text in str(list(handle.events())) for text in (key, "\\u202e", "\\u200b"))


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (COLOUR, ""),
        (COLOUR, "x" * 2001),
        (COLOUR, "Which\0?"),
        ({"type": "object", "properties": {"a": {}}, "required": 5}, "Which?"),
        ({"type": "object", "properties": {"a": {}}, "required": [["a"]]}, "Which?"),
        ({"type": "string"}, "Which?"),
        ({"type": "object", "properties": {}}, "Which?"),
        ({"type": "object", "properties": {"a": {"type": "colour"}}}, "Which?"),
        ({"type": "object", "properties": {"a": {"$ref": "http://x.example/y"}}}, "Which?"),
        ({"type": "object", "properties": {"a": {}}, "required": ["b"]}, "Which?"),
        ({"type": "object", "properties": {"a\u202e": {}}}, "Which?"),
        ({"type": "object", "properties": {"a": {"enum": ["x", "y\u202e"]}}}, "Which?"),
        ({"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(31)}}, "Which?"),
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": "(" * 50}}}, "Which?"),
    ],
)
def test_a_question_that_cannot_be_shown_is_the_calls_error(kit: AgentKit, form: dict[str, Any], text: str) -> None:
    kit.agent(tools=[ask_user])
    question = {"question": text, "form": form}
    kit.model.script(Turn(calls=[Call(name="ask_user", arguments=question)]), Turn(text="Done."))

    played = kit.play()

    (result,) = played.of(ToolResultPayload)
    assert result.outcome == "failed"


@pytest.mark.parity
def test_one_call_asks_no_more_than_ten_questions(kit: AgentKit) -> None:
    @tool(name="paint", effect="pure")
    def curious(wall: str) -> str:
        """Paint a wall.

        Args:
            wall: which wall.
        """
        for number in range(100):
            current_call().ask(SIZE, f"And the {number}th?")
        return wall

    handle = begin(kit, PAINT, tools=(curious,))
    for number in range(10):
        answer(handle, size=number)

    ((_, outcome, result),) = results(handle)
    assert outcome == "failed"
    assert "10 questions" in result


# --- an agent asks --------------------------------------------------------------------------------


def test_an_agent_asks_its_user_with_a_form(kit: AgentKit) -> None:
    call = Call(name="ask_user", arguments={"question": "Which colour?", "form": COLOUR})
    handle = begin(kit, call, tools=(ask_user,))

    answer(handle, colour="red")

    assert results(handle) == [("ask_user", "done", {"colour": "red"})]
    assert kit.model.requests[-1].messages[-1]["content"] == '{"colour":"red"}'


def test_an_agent_asks_for_one_text_without_a_form(kit: AgentKit) -> None:
    handle = begin(kit, Call(name="ask_user", arguments={"question": "How are you?"}), tools=(ask_user,))

    answer(handle, answer="Fine.")

    assert results(handle) == [("ask_user", "done", {"answer": "Fine."})]


# --- a call that needs approval, and asks ---------------------------------------------------------


def test_an_approved_call_may_ask_and_needs_no_second_approval(kit: AgentKit) -> None:
    handle = begin(kit, Call(name="order", arguments={"item": "tea", "boxes": 2}), tools=(order,))
    decide(handle, decision="approve")

    answer(handle, answer="Assam")

    assert results(handle) == [("order", "done", "ordered 2 Assam")]
    assert (calls_made, questions_asked) == ([("Assam", 2, "home")], ["tea", "tea"])


# --- missing arguments ----------------------------------------------------------------------------


def test_missing_arguments_are_asked_for_as_a_form_of_these_alone(kit: AgentKit) -> None:
    call = Call(name="look", arguments={"item": "tea"})
    handle = begin(kit, call, tools=(look,), ask_missing_arguments=True)

    approval = answer(handle, shelf="top")

    assert (approval["kind"], approval["arguments"]) == ("arguments", {"item": "tea"})
    assert list(approval["input_schema"]["properties"]) == approval["input_schema"]["required"] == ["shelf"]
    assert "without 'shelf'" in approval["reason"]
    assert results(handle) == [("look", "done", "tea: in stock")]
    assert calls_made == [("tea", "top")]
    _, decided = [e for e in handle.events() if isinstance(e, ApprovalPayload)]
    whole = {"item": "tea", "shelf": "top"}
    assert (decided.arguments, decided.digest) == (whole, canonical_digest(whole))
    with kit.runner.journal.database.read() as connection:
        (step,) = [step for step in steps_of(connection, handle.run_id) if step["kind"] == "tool"]
    assert step["arguments_digest"] == canonical_digest(whole)


def test_a_completed_call_still_needs_its_approval_and_shows_the_whole_arguments(kit: AgentKit) -> None:
    call = Call(name="order", arguments={"item": "pens"})
    handle = begin(kit, call, tools=(order,), ask_missing_arguments=True)
    answer(handle, boxes=3)

    approval = waits(handle)
    assert (approval["kind"], approval["arguments"], calls_made) == ("call", {"item": "pens", "boxes": 3}, [])
    assert approval["digest"] == canonical_digest({"item": "pens", "boxes": 3})
    decide(handle, decision="approve")

    assert results(handle) == [("order", "done", "ordered 3 pens")]


@pytest.mark.parametrize(
    ("arguments", "is_set"),
    [({"item": "tea"}, False), ({"item": 7}, True), ({"item": "tea", "colour": "red"}, True)],
    ids=["not set", "others do not fit", "one too many"],
)
def test_otherwise_the_model_is_told_what_is_wrong(kit: AgentKit, arguments: dict[str, Any], *, is_set: bool) -> None:
    kit.agent(tools=[look], ask_missing_arguments=is_set)
    kit.model.script(Turn(calls=[Call(name="look", arguments=arguments)]), Turn(text="Done."))

    (result,) = kit.play().of(ToolResultPayload)

    assert result.outcome == "failed"
    assert "do not fit" in result.result
