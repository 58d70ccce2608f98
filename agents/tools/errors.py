"""Errors of a tool call, which the model gets as its result."""

from __future__ import annotations

from config.errors import ModelVisible


class ArgumentsInvalid(ModelVisible):
    """The arguments are not JSON or do not fit the schema; the function was not called."""

    code = "arguments_invalid"
    seed_name = "INPUT_VALIDATION_FAILED"
    remedy = "The model corrects what the sentence names, and calls again."


class ToolTimeout(ModelVisible):
    """The tool did not return in time and was abandoned."""

    code = "tool_timeout"
    remedy = "Allow more time by the tool's `timeout_s` or the agent's `timeouts.tool_s`, or make the tool faster."


class SandboxFull(ModelVisible):
    """The file would exceed the quota of the sandbox, in bytes or in files."""

    code = "sandbox_full"
    remedy = "The model removes files or writes less."


class PathRefused(ModelVisible):
    """A path is outside of the sandbox, or names no plain file in it."""

    code = "path_refused"
    remedy = "The model names a plain file in the sandbox."


class OutputUnfit(ModelVisible):
    """The tool returned something that does not fit its output schema; the call was made."""

    code = "output_unfit"
    remedy = "Mend the tool, or its `output_schema`; look at the other side before you call it again."
