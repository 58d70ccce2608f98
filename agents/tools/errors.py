"""Errors of a tool call, which the model gets as its result."""

from __future__ import annotations

from config.errors import ModelVisible


class ArgumentsInvalid(ModelVisible):
    code = "arguments_invalid"


class ToolTimeout(ModelVisible):
    code = "tool_timeout"


class SandboxFull(ModelVisible):
    """The write would exceed the sandbox's quota."""

    code = "sandbox_full"


class PathRefused(ModelVisible):
    """A path leads out of the sandbox, or is not a plain file beneath it."""

    code = "path_refused"
