"""Results with parts that the protocol does not know: the SDK would refuse the whole result for one of them."""

from __future__ import annotations

from typing import Any

from mcp.types import ListToolsResult
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from config.visible import visible

MALFORMED = "callboard/malformed"
"""Member of the ``_meta`` of a stand-in, with the place at which the tool is malformed."""
MAX_PLACE = 200
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
        result["content"] = [one if _is_known(one) else _named(one) for one in content]
    if protocol and isinstance(result.get("tools"), list):
        with_stand_ins(result, protocol)


def _is_known(content: Any) -> bool:
    """Return whether the SDK knows the type, or there is none to name."""
    kind = content.get("type") if isinstance(content, dict) else None
    return not isinstance(kind, str) or kind in _CONTENT


def _named(content: dict[str, Any]) -> dict[str, Any]:
    shown = visible(content["type"][:MAX_TYPE])
    return {"type": "text", "text": f"[an item of the type '{shown}', which is not known and not shown]"}


def with_stand_ins(result: dict[str, Any], protocol: str) -> None:
    """Put a stand-in for each malformed tool into a result of ``tools/list``, by the protocol of this version.

    A stand-in has the name, and why the tool cannot be used. A tool without a name is left out.
    """
    places = _malformed(result, protocol)
    if places:
        tools = [_stand_in(one, places[at]) if at in places else one for at, one in enumerate(result["tools"])]
        result["tools"] = [one for one in tools if one is not None]


def _malformed(result: dict[str, Any], protocol: str) -> dict[int, str]:
    """Return the first place of each malformed tool, by its number in the list."""
    found: dict[int, str] = {}
    for validate in (
        lambda: validate_server_result("tools/list", protocol, result),
        lambda: ListToolsResult.model_validate(result, by_name=False),
    ):
        try:
            validate()
        except ValidationError as error:
            for one in error.errors(include_url=False, include_context=False, include_input=False):
                within, *place = one["loc"] or ("",)
                if within == "tools" and place and isinstance(place[0], int):
                    found.setdefault(place[0], ".".join(map(str, place[1:]))[:MAX_PLACE])
    return found


def _stand_in(tool: Any, place: str) -> dict[str, Any] | None:
    name = tool.get("name") if isinstance(tool, dict) else None
    if not isinstance(name, str):
        return None
    return {"name": name, "inputSchema": {"type": "object"}, "_meta": {MALFORMED: place}}
