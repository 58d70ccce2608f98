"""What ended a call or a session with an MCP server, in the words of those who waited for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx2
from mcp import MCPError
from mcp.types import CONNECTION_CLOSED, INVALID_REQUEST, PARSE_ERROR, REQUEST_TIMEOUT, URL_ELICITATION_REQUIRED
from pydantic import ValidationError

from agents.errors import McpLoginNeeded, McpServerDown, OutputUnfit
from agents.tools.mcp.catalogue.lists import place_of
from agents.tools.mcp.connection.faults import McpFault
from agents.tools.mcp.connection.http import (
    CUT_OFF,
    NO_LOGIN,
    NO_TOKEN,
    NOT_SENT,
    OTHER_SESSION,
    OWN_CODES,
    UNAUTHORIZED,
)
from config.errors import ToolCutOff, ToolFailed
from config.redaction import redact_start
from config.text.visible import visible

MAX_MESSAGE = 1000
"""Characters of a server's own error text."""
NO_WAY_BACK = "has no back-channel for server-initiated requests"
"""How servers made with the Python SDK refuse a call in which they asked as only the protocol before 2026 can."""
OLD_WAY = "Write `mode: legacy` in the server's file: it asks as the protocol before 2026 does."
OTHER_VERSION = "Unsupported protocol version from the server: "
"""How the SDK says which version a server answered, in an error without a type of its own."""
MAX_VERSION = 40
"""Characters of a version that is not known."""
CLOSED = "it was closed"
OTHER_LOGIN = "another login has taken its place"
NO_ACCESS_TOKEN = "it has no access token"


class SessionGone(Exception):
    """The server no longer knows the session, and did not take the call; another session can."""


@dataclass(frozen=True, kw_only=True)
class CallEnd:
    """What an error of the SDK means for a call and its session."""

    error: Exception | None = None
    """What the caller gets; None where the server was asked and no answer came."""
    said: str = ""
    """Why no answer came, as a part of a sentence; empty where the end of the session says it."""
    retired: str = ""
    """Why the session takes no more calls, as a part of a sentence; empty where it does."""
    needs_login: bool = False
    """Whether the server did not accept the credentials."""


def call_end(error: MCPError | ValidationError, server: str) -> CallEnd:
    """Return what an error of the SDK means for a call of the server with this name."""
    if isinstance(error, ValidationError):
        return CallEnd(error=_unfit(error, server))
    code, text = error.code, _text_of(error)
    if code == NOT_SENT:
        return CallEnd(error=McpServerDown(f"the MCP server {server} was not asked: {text}."))
    if code == OTHER_SESSION:  # since the request began
        return CallEnd(error=SessionGone(), retired=OTHER_LOGIN)
    if code == NO_LOGIN:  # the token was refused, and there is no other
        return CallEnd(error=McpLoginNeeded(text), retired=NO_ACCESS_TOKEN, needs_login=True)
    if code == NO_TOKEN:
        return CallEnd(error=McpServerDown(text), retired=NO_ACCESS_TOKEN)
    if code == PARSE_ERROR:
        text = text.partition(": ")[2]
        return CallEnd(said="its answer is no message" if "validation error" in text else text)
    if code == REQUEST_TIMEOUT:  # the server's own: what it began may still be under way
        return CallEnd(error=ToolCutOff(f"the MCP server {server} gave the call up: {text}"))
    if code in (CONNECTION_CLOSED, CUT_OFF):
        return CallEnd(said="" if error.message == "Connection closed" else text)
    if code == INVALID_REQUEST and error.message == "Session terminated":
        return CallEnd(error=SessionGone(), retired="it no longer knows the session")
    if code == INVALID_REQUEST and NO_WAY_BACK in error.message:
        text += f" {OLD_WAY}"
    facts = {"data": error.data} if code == URL_ELICITATION_REQUIRED else {}
    refused = ToolFailed(f"the MCP server {server} refused the call: {text}", code=code, **facts)
    return CallEnd(error=refused, needs_login=code == UNAUTHORIZED)


def _unfit(error: ValidationError, server: str) -> OutputUnfit:
    location = place_of(error)
    where = f", at {visible(location)}" if location else ""
    return OutputUnfit(f"the MCP server {server} answered with what the protocol does not know{where}.")


@dataclass(frozen=True, kw_only=True)
class SessionEnd:
    """Why a session ended."""

    problem: str
    """As a part of a sentence."""
    fault: McpFault | None = None
    """What is wrong with a server that could not be used, where the failure says it."""
    needs_login: bool = False
    """Whether the server did not accept the credentials."""


def session_end(failure: BaseException | None, start_s: float) -> SessionEnd:
    """Return why a session ended that was left by ``failure``; ``start_s``: seconds that it had to be ready."""
    leaf = _leaf(failure)
    if isinstance(leaf, McpServerDown):
        return SessionEnd(problem=str(leaf).rstrip("."), needs_login=is_of_login(leaf))
    if isinstance(leaf, asyncio.CancelledError):
        return SessionEnd(problem=CLOSED)
    if isinstance(leaf, httpx2.HTTPStatusError):
        return SessionEnd(problem=f"it answered HTTP {leaf.response.status_code}")
    if isinstance(leaf, TimeoutError):
        return SessionEnd(problem=f"it was not ready within {start_s:g} seconds", fault=McpFault.SILENT)
    if isinstance(leaf, MCPError):
        text = _text_of(leaf).rstrip(".")
        problem = text if leaf.code in OWN_CODES else f"it answered the greeting with an error: {text}"
        return SessionEnd(problem=problem, needs_login=leaf.code in (NO_LOGIN, UNAUTHORIZED))
    if isinstance(leaf, RuntimeError) and str(leaf).startswith(OTHER_VERSION):
        version = visible(str(leaf).removeprefix(OTHER_VERSION)[:MAX_VERSION])
        problem = f"it speaks the version '{version}' of the protocol, which Callboard does not"
        return SessionEnd(problem=problem, fault=McpFault.OTHER_VERSION)
    return SessionEnd(problem="its connection ended" if leaf is None else f"{type(leaf).__name__} at its connection")


def is_of_login(failure: BaseException | None) -> bool:
    """Return whether a session could not be used since a person has to log in."""
    leaf = _leaf(failure)
    return isinstance(leaf, McpLoginNeeded) or (isinstance(leaf, MCPError) and leaf.code == NO_LOGIN)


def _leaf(failure: BaseException | None) -> BaseException | None:
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure


def _text_of(error: MCPError) -> str:
    return visible(redact_start(error.message, MAX_MESSAGE))
