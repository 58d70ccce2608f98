"""Errors of an agent's definition and of the names in it."""

from __future__ import annotations

from config.errors import Permanent


class DefinitionInvalid(Permanent):
    """An agent's YAML cannot be used; the message has file, line, field and remedy."""

    code = "definition_invalid"
    status = 422

    def __init__(self, file: str, line: int | None, field: str | None, problem: str) -> None:
        file = file.encode("utf-8", "backslashreplace").decode()  # a file's name may be no text
        where = file if line is None else f"{file}:{line}"
        what = f" {field}:" if field else ""
        super().__init__(f"{where}:{what} {problem}", file=file, line=line, field=field)


class ToolUnknown(Permanent):
    code = "tool_unknown"


class PluginUnknown(Permanent):
    code = "plugin_unknown"
