"""What a server of 2026 wants to know, and what of it is kept while the run waits for a person."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from mcp.types import CallToolResult, InputRequiredResult

from agents.tools.call_context import ToolContext
from agents.tools.mcp.calls.call import MAX_STATE, ServerToolCall, round_of
from agents.tools.requests import QuestionAsked
from bus.journal.approvals import form_digest
from config.definitions.mcp.server import McpServerDefinition
from config.effects import Effect
from config.errors import ToolFailed

SHOP = McpServerDefinition(name="shop", command="shop", file="shop.yaml")


def asking(message: str = "For how many?", **field: Any) -> dict[str, Any]:
    form = {"type": "object", "properties": {"guests": {"type": "integer", **field}}}
    params = {"mode": "form", "message": message, "requestedSchema": form}
    return {"method": "elicitation/create", "params": params}


def made(context: ToolContext, *requests: dict[str, Any]) -> ServerToolCall:
    """Make a call of a server that wants this before it answers."""
    requests_by_key = {f"r{number}": request for number, request in enumerate(requests)}
    answers = [
        InputRequiredResult.model_validate(
            {"resultType": "input_required", "inputRequests": requests_by_key}, by_name=False
        ),
        CallToolResult(content=[]),
    ]
    call = ServerToolCall(SHOP, context, Effect.UNSAFE)

    async def send() -> Any:
        return answers.pop(-1) if call.responses else answers[0]

    asyncio.run(call.made(send))
    return call


def test_a_number_of_any_length_is_kept_with_a_question(context: ToolContext) -> None:
    with pytest.raises(QuestionAsked) as caught:
        made(context, asking(multipleOf=10**30))

    question = caught.value
    kept = round_of(question.state)
    assert kept is not None
    assert kept.requests["r0"].model_dump(by_alias=True, exclude_none=True) == asking(multipleOf=10**30)
    form_answers = {form_digest(question.text, question.form): {"guests": 4}}
    call = made(replace(context, state=question.state, given=form_answers), asking())
    assert call.responses is not None
    assert call.responses["r0"].model_dump(exclude_none=True) == {"action": "accept", "content": {"guests": 4}}


@pytest.mark.parametrize(
    "requests", [[asking("x" * MAX_STATE)], [asking("é" * (MAX_STATE // 10))] * 10], ids=["one", "ten"]
)
def test_a_server_that_asks_at_length_fails_its_call(context: ToolContext, requests: list[dict[str, Any]]) -> None:
    with pytest.raises(ToolFailed, match="the MCP server shop asks too much before it answers the call"):
        made(context, *requests)
