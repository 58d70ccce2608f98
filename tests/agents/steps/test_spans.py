"""The spans of a tool's call: stored with its step and sent to the governance engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from agents.testing import AgentKit, Call, Turn
from agents.tools.call_context import current_call
from agents.tools.files import list_files, read_file, write_file
from agents.tools.spans.hooks import enable_hooks, remove_hooks
from agents.tools.tool import tool
from config.database.tables import steps
from tests.agents.governance.engine.engine_server import EngineServer


@tool(effect="pure")
async def open_one(name: str) -> str:
    """Open a file that is not there."""
    return open(current_call().sandbox / name).read()  # what a tool of a user's may do


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    with AgentKit(tools=[read_file, write_file, list_files, open_one]) as agent_kit:
        yield agent_kit


def spans(kit: AgentKit) -> list[list[dict[str, Any]] | None]:
    """Return the spans of each call of a tool, in order; None where none are stored."""
    query = select(steps.c.spans_json).where(steps.c.kind == "tool").order_by(steps.c.number)
    with kit.runner.journal.database.read() as connection:
        contents = connection.execute(query).scalars().all()
    return [orjson.loads(content) if content is not None else None for content in contents]


def test_the_file_tools_make_spans(kit: AgentKit) -> None:
    kit.model.script(
        Turn(calls=[Call(name="write_file", arguments={"path": "a/notes.txt", "text": "abc"})]),
        Turn(calls=[Call(name="read_file", arguments={"path": "a/notes.txt"})]),
        Turn(calls=[Call(name="read_file", arguments={"path": "../secret"})]),
        Turn(text="done"),
    )
    kit.play()

    written, read, refused = spans(kit)
    assert written is not None
    assert read is not None
    assert refused is not None
    assert (written[0]["kind"], written[0]["mode"], written[0]["path"], written[0]["bytes"]) == (
        "file",
        "w",
        "a/notes.txt",
        3,
    )
    assert (read[0]["mode"], read[0]["chars"]) == ("r", 3)
    assert refused[0]["error"] == "PathRefused"


def test_the_contents_of_files_are_in_no_span(kit: AgentKit) -> None:
    kit.model.script(
        Turn(calls=[Call(name="write_file", arguments={"path": "a.txt", "text": "very private"})]), Turn(text="done")
    )
    kit.play()

    assert "very private" not in str(spans(kit))


def test_hooks_see_what_a_tool_does_itself(kit: AgentKit) -> None:
    kit.model.script(Turn(calls=[Call(name="open_one", arguments={"name": "gone.txt"})]), Turn(text="done"))
    enable_hooks()
    try:
        kit.play()
    finally:
        remove_hooks()

    (tool_spans,) = spans(kit)
    assert tool_spans is not None
    assert [(span["name"], span["error"]) for span in tool_spans] == [("open gone.txt", "FileNotFoundError")]


def test_without_hooks_there_are_the_spans_of_our_own_tools_only(kit: AgentKit) -> None:
    kit.model.script(Turn(calls=[Call(name="open_one", arguments={"name": "gone.txt"})]), Turn(text="done"))
    kit.play()

    assert spans(kit) == [None]


def test_spans_can_be_turned_off() -> None:
    with AgentKit(tools=[list_files], settings={"spans": False}) as kit:
        kit.model.script(Turn(calls=[Call(name="list_files", arguments={})]), Turn(text="done"))
        kit.play()

        assert spans(kit) == [None]


@pytest.mark.parity
def test_the_engine_gets_the_spans() -> None:
    with (
        EngineServer() as engine,
        AgentKit(tools=[list_files], settings={"governance_url": engine.url}) as kit,
    ):
        kit.model.script(Turn(calls=[Call(name="list_files", arguments={})]), Turn(text="done"))
        kit.play()

        (completed,) = engine.of("ActivityCompleted", "list_files")
        assert (completed["span_count"], completed["spans"]) == (1, (spans(kit)[0]))


def test_what_guardrails_replace_in_results_is_replaced_in_spans() -> None:
    with AgentKit(tools=[read_file], guardrails={"output": {"pii": "redact"}}) as kit:
        kit.model.script(
            Turn(calls=[Call(name="read_file", arguments={"path": "ann.smith@example.org.txt"})]), Turn(text="done")
        )
        kit.play()

        assert "ann.smith" not in str(spans(kit))
