"""What the errors of the SDK mean for calls and sessions."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from mcp import MCPError
from mcp.shared.exceptions import NoBackChannelError
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    URL_ELICITATION_REQUIRED,
    CallToolResult,
)
from pydantic import ValidationError

from agents.errors import McpLoginNeeded, McpServerDown, OutputUnfit
from agents.tools.mcp.connection.faults import McpFault
from agents.tools.mcp.connection.http import (
    CUT_OFF,
    NO_LOGIN,
    NO_TOKEN,
    NOT_SENT,
    OTHER_SESSION,
    REFUSED,
    UNAUTHORIZED,
)
from agents.tools.mcp.outcomes import (
    MAX_MESSAGE,
    OLD_WAY,
    CallEnd,
    SessionEnd,
    SessionGone,
    call_end,
    is_of_login,
    session_end,
)
from config.errors import ToolCutOff, ToolFailed

NO_BACK_CHANNEL = str(NoBackChannelError("elicitation/create"))


@pytest.mark.parametrize(
    ("code", "message", "kind", "text", "retired", "needs_login"),
    [
        (NOT_SENT, "no route", McpServerDown, "shop was not asked: no route.", "", False),
        (OTHER_SESSION, "", SessionGone, "", "another login has taken its place", False),
        (NO_LOGIN, "log in.", McpLoginNeeded, "log in.", "it has no access token", True),
        (NO_TOKEN, "no issuer.", McpServerDown, "no issuer.", "it has no access token", False),
        (REQUEST_TIMEOUT, "too long", ToolCutOff, "shop gave the call up: too long", "", False),
        (INVALID_REQUEST, "Session terminated", SessionGone, "", "it no longer knows the session", False),
        (INVALID_REQUEST, "no such field", ToolFailed, "shop refused the call: no such field", "", False),
        (
            INVALID_REQUEST,
            NO_BACK_CHANNEL,
            ToolFailed,
            f"shop refused the call: {NO_BACK_CHANNEL} {OLD_WAY}",
            "",
            False,
        ),
        (UNAUTHORIZED, "HTTP 401", ToolFailed, "shop refused the call: HTTP 401", "", True),
        (INTERNAL_ERROR, "x" * 5000, ToolFailed, "shop refused the call: " + "x" * MAX_MESSAGE, "", False),
    ],
    ids=[
        "not sent",
        "other login",
        "no login",
        "no token",
        "timeout",
        "gone",
        "refused",
        "as before",
        "unauthorized",
        "long",
    ],
)
def test_an_error_ends_a_call(
    code: int, message: str, kind: type[Exception], text: str, retired: str, needs_login: bool
) -> None:
    end = call_end(MCPError(code, message), "shop")

    assert type(end.error) is kind
    assert str(end.error).removeprefix("the MCP server ") == text
    assert (end.retired, end.needs_login, end.said) == (retired, needs_login, "")


@pytest.mark.parametrize(
    ("code", "message", "for_model"),
    [
        (CONNECTION_CLOSED, "Connection closed", ""),
        (CUT_OFF, "it sent more than 4 MiB", "it sent more than 4 MiB"),
        (PARSE_ERROR, "Parse error: 1 validation error for JSONRPCResponse", "its answer is no message"),
        (PARSE_ERROR, "Parse error: it is no JSON", "it is no JSON"),
    ],
    ids=["closed", "cut off", "no message", "no JSON"],
)
def test_a_call_without_an_answer_has_no_error_yet(code: int, message: str, for_model: str) -> None:
    assert call_end(MCPError(code, message), "shop") == CallEnd(said=for_model)


def test_the_data_of_a_wanted_address_stay_with_the_error() -> None:
    error = call_end(MCPError(URL_ELICITATION_REQUIRED, "open it", {"elicitations": []}), "shop").error
    other = call_end(MCPError(INTERNAL_ERROR, "open it", {"elicitations": []}), "shop").error

    assert isinstance(error, ToolFailed)
    assert isinstance(other, ToolFailed)
    assert error.facts["data"] == {"elicitations": []}
    assert "data" not in other.facts


def test_a_result_that_the_protocol_does_not_know_is_unfit() -> None:
    with pytest.raises(ValidationError) as caught:
        CallToolResult.model_validate({"content": "a word"})

    end = call_end(caught.value, "shop")

    assert isinstance(end.error, OutputUnfit)
    assert str(end.error).endswith("answered with what the protocol does not know, at content.")


LOGIN = McpLoginNeeded("the MCP server shop needs a login.")


@pytest.mark.parametrize(
    ("failure", "end"),
    [
        (None, SessionEnd(problem="its connection ended")),
        (asyncio.CancelledError(), SessionEnd(problem="it was closed")),
        (TimeoutError(), SessionEnd(problem="it was not ready within 2.5 seconds", fault=McpFault.SILENT)),
        (OSError("secret detail"), SessionEnd(problem="OSError at its connection")),
        (McpServerDown("no route."), SessionEnd(problem="no route")),
        (LOGIN, SessionEnd(problem="the MCP server shop needs a login", needs_login=True)),
        (
            BaseExceptionGroup("", [ExceptionGroup("", [LOGIN]), TimeoutError()]),
            SessionEnd(problem="the MCP server shop needs a login", needs_login=True),
        ),
        (
            httpx2.HTTPStatusError("", request=httpx2.Request("GET", "http://x"), response=httpx2.Response(503)),
            SessionEnd(problem="it answered HTTP 503"),
        ),
        (MCPError(REFUSED, "it answered HTTP 500."), SessionEnd(problem="it answered HTTP 500")),
        (MCPError(NO_LOGIN, "log in."), SessionEnd(problem="log in", needs_login=True)),
        (MCPError(UNAUTHORIZED, "it answered HTTP 401"), SessionEnd(problem="it answered HTTP 401", needs_login=True)),
        (MCPError(INTERNAL_ERROR, "no."), SessionEnd(problem="it answered the greeting with an error: no")),
    ],
    ids="none closed silent other down login group status own-refused own-login own-401 greeting".split(),
)
def test_a_failure_ends_a_session(failure: BaseException | None, end: SessionEnd) -> None:
    assert session_end(failure, start_s=2.5) == end


def test_only_a_missing_login_is_one_of_login() -> None:
    assert is_of_login(ExceptionGroup("", [LOGIN]))
    assert is_of_login(MCPError(NO_LOGIN, ""))
    assert not any(is_of_login(failure) for failure in (None, MCPError(UNAUTHORIZED, ""), McpServerDown("x")))
