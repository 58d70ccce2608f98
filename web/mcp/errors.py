"""What clients see of an error: a sentence and a code, never a traceback."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mcp import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST

from agents.errors import ROLE_MISSING, ArgumentsInvalid
from agents.tools.isolation.errors import CONTAINERS_DISABLED
from bus.identity.errors import EnvelopeRefused
from config.definitions.errors import ToolUnknown
from config.errors import CallboardError, ErrorKind, Internal
from config.ids import new_id
from config.redaction import redact
from web.mcp.service import Context

log = logging.getLogger(__name__)

P = TypeVar("P")
R = TypeVar("R")
_KINDS: tuple[ErrorKind, ...] = (
    ArgumentsInvalid,
    CONTAINERS_DISABLED,
    EnvelopeRefused,
    ROLE_MISSING,
    ToolUnknown,
)
NAMES = {kind.code: kind.seed_name for kind in _KINDS if kind.seed_name is not None}
"""The codes that the capability design has names for; here they have these names, as APPROVAL_REQUIRED has."""


def name_of(code: str) -> str:
    """Return the code by which MCP clients know an error."""
    return NAMES.get(code, code)


def code_and_sentence(error: Exception) -> tuple[str, str]:
    """Return an error's code and its sentence for clients; an unexpected one is logged under the id that they get."""
    if isinstance(error, CallboardError):
        if error.status >= 500:
            log.warning("MCP request refused: %s", error, extra={"code": error.code})
        return name_of(error.code), redact(error.public)
    error_id = new_id("err")
    log.error("MCP request failed: %s", type(error).__name__, exc_info=error, extra={"error_id": error_id})
    return Internal.code, f"something went wrong inside the server; its log has the details under {error_id}."


def as_mcp(error: Exception) -> MCPError:
    """Return an error as a JSON-RPC error."""
    code, sentence = code_and_sentence(error)
    number = INTERNAL_ERROR
    if isinstance(error, CallboardError) and error.status < 500:
        number = INVALID_REQUEST if error.status in (401, 403) else INVALID_PARAMS
    return MCPError(code=number, message=sentence, data={"code": code})


def answering(
    handle: Callable[[Context, P], Awaitable[R]],
) -> Callable[[Context, P], Awaitable[R]]:
    """Return a request's handler whose errors are JSON-RPC errors with a sentence."""

    @functools.wraps(handle)
    async def handled(context: Context, params: P) -> R:
        try:
            return await handle(context, params)
        except MCPError:
            raise
        except Exception as error:
            raise as_mcp(error) from error

    return handled
