"""Tools with the names that the suite's server scenarios call."""

from __future__ import annotations

import time
from typing import Any

from agents.tools import current_call, tool


@tool(effect="pure")
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool(effect="pure")
def test_error_handling() -> str:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


@tool(effect="pure")
def test_tool_with_progress() -> str:
    """Take some time; the run's events are the progress."""
    time.sleep(0.1)
    return "done"


@tool(effect="pure")
def test_logging_tool() -> str:
    """Return a text; a client that asks for no log gets none."""
    return "done"


@tool(effect="pure")
def test_streaming_elicitation() -> str:
    """Ask for a name during the call."""
    return test_input_required_result_elicitation()


@tool(effect="pure")
def test_input_required_result_elicitation() -> str:
    """Ask for a name."""
    return f"Hello, {_asked('name', 'What is your name?')}!"


@tool(effect="pure")
def test_input_required_result_request_state() -> str:
    """Ask for a confirmation."""
    return f"state-ok: {_asked('ok', 'Please confirm', 'boolean')}"


@tool(effect="pure")
def test_input_required_result_tampered_state() -> str:
    """Ask for a confirmation."""
    return f"confirmed: {_asked('ok', 'Please confirm', 'boolean')}"


@tool(effect="pure")
def test_input_required_result_multi_round() -> str:
    """Ask two questions, one after the other."""
    name = _asked("name", "Step 1: What is your name?")
    return f"{name} likes {_asked('color', 'Step 2: What is your favorite color?')}"


@tool(effect="pure")
def test_reconnection() -> str:
    """Return a text."""
    return "Reconnection test completed successfully"


@tool(effect="pure")
def test_elicitation(message: str) -> str:
    """Ask for a name and an address."""
    form = {
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    }
    return f"User response: {current_call().ask(form, message)}"


@tool(effect="pure")
def test_elicitation_sep1034_defaults() -> str:
    """Ask with defaults."""
    form = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
    }
    return f"Elicitation completed: {current_call().ask(form, 'Who is it?')}"


@tool(effect="pure")
def test_elicitation_sep1330_enums() -> str:
    """Ask with each kind of choice."""
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]
    form = {
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    }
    return f"Elicitation completed: {current_call().ask(form, 'Which ones?')}"


TOOLS = [f"{__name__}:{name}" for name in list(globals()) if name.startswith("test_")]
"""All of them, as an agent names them."""


SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""Of a tool whose schema the suite compares; it is an MCP server's, since those of functions are made of types."""
SCHEMA_TOOL = "json_schema_2020_12_tool"


def _asked(field: str, text: str, kind: str = "string") -> Any:
    form = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return current_call().ask(form, text)[field]
