"""A server's answer as a tool's result."""

from __future__ import annotations

from typing import Any

from mcp.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from config.errors import ToolFailed
from config.redaction import redact_start
from config.text.visible import visible

MAX_MESSAGE = 2000
"""Characters of a failure's text that the model gets."""


def to_value(answer: CallToolResult) -> Any:
    """Return the structured content, or the texts, of an answer; of pictures and sounds what they are.

    Raises:
        ToolFailed: the server says that the call failed.
    """
    if answer.is_error:
        texts = [item.text for item in answer.content if isinstance(item, TextContent)]
        raise ToolFailed(visible(redact_start("\n".join(texts) or "the call failed without a text", MAX_MESSAGE)))
    if answer.structured_content is not None:
        return answer.structured_content
    parts = [to_part(item) for item in answer.content]
    if all(isinstance(part, str) for part in parts):
        return "\n\n".join(parts)
    return parts


def to_part(item: ContentBlock) -> Any:
    if isinstance(item, TextContent):
        return item.text
    if isinstance(item, ImageContent | AudioContent):
        size = len(item.data) * 3 // 4
        return {"type": item.type, "mime_type": item.mime_type, "note": f"{size:,} bytes, which are not shown"}
    if isinstance(item, ResourceLink):
        return {"type": "resource_link", "uri": str(item.uri), "name": item.name}
    inner = item.resource
    text = {"text": inner.text} if isinstance(inner, TextResourceContents) else {"note": "it is not shown"}
    return {"type": "resource", "uri": str(inner.uri)} | text
