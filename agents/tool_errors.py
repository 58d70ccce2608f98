"""Errors of a tool call, which the model gets as its result."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from types import MappingProxyType

from config.errors import ModelVisible
from config.text.names import did_you_mean

MAX_LISTED = 20
"""Most names in a sentence, which the model reads too."""


class ArgumentsInvalid(ModelVisible):
    """The arguments are not JSON or do not fit the schema; the function was not called."""

    code = "arguments_invalid"
    status = 422
    over_http = True
    seed_name = "INPUT_VALIDATION_FAILED"
    remedy = "The model corrects what the sentence names, and calls again."


TOOL_NOT_OFFERED = ModelVisible.row(
    "tool_not_offered",
    "The agent has no tool of this name.",
    status=404,
    over_http=True,
    remedy="Use a name that `./callboard tools` lists for the agent.",
)


def tool_not_offered(name: str, offered_names: Iterable[str]) -> ModelVisible:
    names = list(offered_names)
    listing = ", ".join(names[:MAX_LISTED]) or "none"
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return TOOL_NOT_OFFERED(
        f"There is no tool '{name}'.{did_you_mean(name, names)} The agent's tools: {listing}{more}.", name=name
    )


ROLE_MISSING = ModelVisible.row(
    "role_missing",
    "The tool may be called by principals with certain roles only, and the run's has none of them.",
    status=403,
    over_http=True,
    seed_name="UNAUTHORIZED",
    remedy="A principal with one of the roles that the sentence names may call it.",
)


def role_missing(name: str, needed: Iterable[str]) -> ModelVisible:
    roles = ", ".join(sorted(needed))
    return ROLE_MISSING(f"Not done: '{name}' may be called by principals with the role {roles} only.", name=name)


GOLDEN_CONTEXT_MISSING = ModelVisible.row(
    "golden_context_missing",
    (
        "The run was started without a context that says for which application and environment it works, and "
        "the deployment requires one, or what its row has is none. The tool was not called."
    ),
    status=403,
    over_http=True,
    text=(
        "GoldenContext not set in workflow memo: the run's row has no context, so '{name}' was not called. Start the "
        "run again."
    ),
    remedy="An earlier release, or another program, has started the run; start it again ([contexts](contexts.md)).",
)

CALL_BLOCKED = ModelVisible.row(
    "call_blocked",
    "The policy blocks the call; the tool was not called.",
    status=403,
    over_http=True,
    remedy="Read the rule that the sentence names; it, or the call, has to change.",
)

CALL_REJECTED = ModelVisible.row(
    "call_rejected",
    "A person rejected the call; the tool was not called.",
    status=403,
    over_http=True,
    remedy="Ask the person, or make another call.",
)


class ToolTimeout(ModelVisible):
    """The tool did not return in time and was abandoned."""

    code = "tool_timeout"
    remedy = "Allow more time by the tool's `timeout_s` or the agent's `timeouts.tool_s`, or make the tool faster."


SANDBOX_FULL = ModelVisible.row(
    "sandbox_full",
    "The file would exceed the quota of the sandbox, in bytes or in files.",
    remedy="The model removes files or writes less.",
)


STORAGE_FULL = ModelVisible.row(
    "storage_full",
    "The disk of the worker's state folder has no space or no inodes left, or cannot be written; nothing was changed "
    "there.",
    remedy="Make room on the disk of the state folder, or make it writable; the sentence says what it lacks.",
)
STORAGE_PROBLEMS = MappingProxyType(
    {
        errno.ENOSPC: "its disk has no space, or no inodes, left",
        errno.EDQUOT: "the quota of its disk is used up",
        errno.EROFS: "its disk is read-only",
    }
)
"""The system's numbers of errors that mean it, in words."""


def storage_full(problem: str, error: OSError) -> ModelVisible:
    number = error.errno or 0
    reason = STORAGE_PROBLEMS.get(number, os.strerror(number).lower())
    return STORAGE_FULL(f"{problem}: {reason}. The operator of the worker has to mend that.", reason=reason)


class PathRefused(ModelVisible):
    """A path is outside of the sandbox, or names no plain file in it."""

    code = "path_refused"
    remedy = "The model names a plain file in the sandbox."


class OutputUnfit(ModelVisible):
    """The tool returned something that does not fit its output schema; the call was made."""

    code = "output_unfit"
    remedy = "Mend the tool, or its `output_schema`; look at the other side before you call it again."


class QuestionInvalid(ModelVisible):
    """A question to a person has no text, or a form that cannot be shown."""

    code = "question_invalid"
    remedy = "Ask with a text, and with a form of named fields."


class McpServerDown(ModelVisible):
    """The MCP server cannot be started or reached, or does not speak the protocol; the call was not made."""

    code = "mcp_server_down"
    remedy = "`./callboard doctor` starts every server and says what is wrong with it ([MCP servers](mcp-servers.md))."


class McpLoginNeeded(McpServerDown):
    """The MCP server wants a person's login, and the tenant has none, or it has ended; the call was not made."""

    code = "mcp_login_needed"
    remedy = "Run `./callboard mcp login` with the server's name ([MCP servers](mcp-servers.md#logins))."
