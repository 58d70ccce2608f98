"""Results with parts that the protocol does not know: the SDK would refuse the whole result for one of them."""

from __future__ import annotations

from typing import Any

from mcp.types import Tool
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from agents.tools.mcp.catalogue.lists import MAX_ITEMS
from config.text.visible import visible

MALFORMED = "callboard/malformed"
"""Member of the ``_meta`` of a stand-in, with the place at which the tool is malformed."""
MAX_PLACE = 200
MAX_FAULTS = 200
"""Faults of one error that are read for the place of the first."""
MAX_TYPE = 80
"""Characters of an unknown type of content."""
_CONTENT = frozenset({"text", "image", "audio", "resource", "resource_link"})


def mend(result: dict[str, Any], protocol: str) -> None:
    """Make a result one that the SDK does not refuse for a part; ``protocol`` is empty before it is agreed upon.

    Without its type it is a complete one, as the protocol of 2026 asks of clients. Of a call's content an item of an
    unknown type is named in its place, and malformed tools get stand-ins.
    """
    result.setdefault("resultType", "complete")
    content = result.get("content")  # no other result that a server gives has it
    if isinstance(content, list) and not all(map(_is_known, content)):
        result["content"] = [item if _is_known(item) else _named(item) for item in content]
    if protocol and isinstance(result.get("tools"), list):
        with_stand_ins(result, protocol)


def _is_known(content: Any) -> bool:
    """Return whether the SDK knows the type, or there is none to name."""
    kind = content.get("type") if isinstance(content, dict) else None
    return not isinstance(kind, str) or kind in _CONTENT


def _named(content: dict[str, Any]) -> dict[str, Any]:
    type_name = visible(content["type"][:MAX_TYPE])
    return {"type": "text", "text": f"[an item of the type '{type_name}', which is not known and not shown]"}


def with_stand_ins(result: dict[str, Any], protocol: str) -> None:
    """Put a stand-in for each malformed tool into a result of ``tools/list``, by the protocol of this version.

    A stand-in has the name, and why the tool cannot be used. A tool without a name is left out, and so are those that
    would not be read (``MAX_ITEMS``). One tool is judged at a time, so that no error has the faults of all.
    """
    frame, entries = {**result, "resultType": "complete"}, []
    for tool in result["tools"][:MAX_ITEMS]:
        location = _fault(tool, frame, protocol)
        entry = tool if location is None else _stand_in(tool, location)
        if entry is not None:
            entries.append(entry)
    result["tools"] = entries


def _fault(tool: Any, frame: dict[str, Any], protocol: str) -> str | None:
    """Return the first place at which a tool is malformed, None where it is not; ``frame`` is its list's result."""
    frame["tools"] = [tool]
    try:
        Tool.model_validate(tool, by_name=False)
    except ValidationError as error:
        return place_of(error)
    try:
        validate_server_result("tools/list", protocol, frame)
    except ValidationError as error:
        location = place_of(error)
        return None if location and not location.startswith("tools.0") else location.removeprefix("tools.0").lstrip(".")
    return None


def place_of(error: ValidationError) -> str:
    """Return the first place of an error; empty where it has too many faults to be read, each costs a kilobyte."""
    if error.error_count() > MAX_FAULTS:
        return ""
    loc = error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"]
    return ".".join(map(str, loc))[:MAX_PLACE]


def _stand_in(tool: Any, location: str) -> dict[str, Any] | None:
    name = tool.get("name") if isinstance(tool, dict) else None
    if not isinstance(name, str):
        return None
    return {"name": name, "inputSchema": {"type": "object"}, "_meta": {MALFORMED: location}}
