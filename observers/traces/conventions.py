"""What OpenTelemetry's conventions for generative AI, HTTP and databases call the facts of a step; attributes' values.

Names are those of the repository semantic-conventions-genai (gen_ai.*, mcp.*) and of semantic-conventions 1.41; what
they have no name for begins with ``callboard.``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import orjson

from config.redaction import redact_start
from config.text.visible import one_line

Attribute = str | int | float | bool
MAX_LABEL, MAX_TEXT, MAX_CONTENT = 200, 2_000, 16_000
"""Characters of a name; of an address or a statement; and of an argument, a result or a message."""
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""Providers whose well-known name is not the one before the ``/`` of a model."""
_USAGE = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}


def step_facts(step: Any) -> dict[str, Attribute]:
    facts: dict[str, Any] = {"callboard.step.kind": step.kind, "callboard.step.status": step.status}
    facts |= {"callboard.node.path": step.node, "callboard.step.attempts": step.attempt if step.attempt > 1 else None}
    match step.kind:
        case "model" | "sample":
            facts |= {"gen_ai.operation.name": "chat", **model_attributes(step.name), "gen_ai.request.stream": True}
        case "tool":
            facts |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": step.name}
            facts |= {"gen_ai.tool.call.id": step.call_id, "gen_ai.tool.type": "function"}
        case "node":
            facts["callboard.node.type"] = step.name
        case _:
            pass
    return present(facts)


def step_name(step: Any) -> str:
    match step.kind:
        case "model" | "sample":
            return label_of(f"chat {step.name.partition('/')[2] or step.name}")
        case "tool":
            return label_of(f"execute_tool {step.name}")
        case "node" | "wait":
            return label_of(f"node {(step.node or step.name).rpartition('/')[2]}")
        case _:
            return label_of(f"{step.kind} {step.name}")


def model_attributes(model: str) -> dict[str, str]:
    """Return what the conventions say of a model, which LiteLLM names ``provider/model``."""
    if not model:
        return {}
    provider, slash, name = model.partition("/")
    provider_name = _PROVIDERS.get(provider, provider) if slash else "_OTHER"
    return {"gen_ai.provider.name": provider_name, "gen_ai.request.model": name or model}


def usage_attributes(usage: Mapping[str, Any] | None) -> dict[str, Attribute]:
    counts = usage if isinstance(usage, Mapping) else {}
    return {_USAGE[name]: count for name, count in counts.items() if name in _USAGE and isinstance(count, int)}


def operation_attributes(operation: Mapping[str, Any], *, has_content: bool) -> dict[str, Attribute]:
    """Return what the conventions say of HTTP, databases and files; texts of it only with the content."""
    facts: dict[str, Any] = {}
    match operation.get("kind"):
        case "http":
            url = text_of(str(operation.get("url", "")), MAX_TEXT)
            facts = {"http.request.method": operation.get("method"), "url.full": url if has_content else _bare(url)}
            facts |= {"http.response.status_code": operation.get("status"), "server.address": _host(url)}
        case "sql":
            facts = {"db.system.name": operation.get("system"), "db.namespace": operation.get("database")}
            facts |= {"db.operation.name": operation.get("name"), "db.response.returned_rows": operation.get("rows")}
            facts["db.query.text"] = operation.get("statement") if has_content else None
        case "file":
            facts = {"file.path": operation.get("path"), "callboard.file.mode": operation.get("mode")}
        case _:
            pass
    return labels_of(present(facts), MAX_TEXT)


def _bare(url: str) -> str:
    return re.split(r"[?#]", url, maxsplit=1)[0]


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def spoken(role: str, text: str | None, calls: Sequence[object] = ()) -> str:
    """Return a message in the form of the conventions: its text, and the names of the tools that it calls."""
    parts: list[dict[str, Any]] = [] if text is None else [{"type": "text", "content": text}]
    parts += [{"type": "tool_call", "name": label_of(name)} for name in calls]
    message: dict[str, Any] = {"role": role, "parts": parts}
    if role == "assistant":
        message["finish_reason"] = "tool_call" if calls else "stop"
    return orjson.dumps([message]).decode()


# --- values


def ms_of(at: object) -> float | None:
    """Return a time of UTC, as events and operations have it, in milliseconds since 1970; None where it is none."""
    try:
        return datetime.fromisoformat(str(at)).timestamp() * 1000 if at else None
    except (ValueError, OverflowError):
        return None


def number_of(value: object) -> float:
    return float(value) if isinstance(value, int | float) and value == value else 0.0


def json_of(text: str | None) -> Any:
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None


def present(facts: Mapping[str, Any]) -> dict[str, Attribute]:
    return {name: value for name, value in facts.items() if value is not None}


def labels_of(facts: Mapping[str, Attribute], max_chars: int = MAX_LABEL) -> dict[str, Attribute]:
    """Return attributes whose texts are lines without secrets, of bounded length."""
    return {name: label_of(value, max_chars) if isinstance(value, str) else value for name, value in facts.items()}


def label_of(value: object, max_chars: int = MAX_LABEL) -> str:
    return one_line(text_of(str(value), max_chars))[:max_chars]


def text_of(text: str, max_chars: int) -> str:
    """Return a text without secrets, truncated, which any program can decode."""
    return redact_start(text, max_chars).encode("utf-8", "replace").decode()
