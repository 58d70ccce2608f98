"""Decisions about calls with many arguments are made on threads, and other runs are executed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.governance.engine import governance
from agents.governance.engine.answer import redact_for_engine
from agents.governance.policy.local import LocalPolicy
from agents.testing import AgentKit, Call, Turn
from agents.tools import results
from agents.tools import schema as tool_arguments
from agents.tools.tool import tool
from tests.agents.governance.engine.engine_server import EngineServer

pytestmark = pytest.mark.parity

MANY, FEWER = 60_000, 8_000
"""Arguments of calls: of one that an engine is shown in part, and of one that it may change."""
POLICY = """
rules:
  - name: one
    verdict: constrain
    reason: It is long.
    timeout_s: 60
    when: {tools: [store]}
    condition: "'k1' in arguments.pairs"
"""
Seen = dict[str, set[bool]]


@tool(effect="pure")
def store(pairs: dict[str, int]) -> dict[str, int]:
    """Keep pairs."""
    return dict(list(pairs.items())[:FEWER])


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """The functions that examined much data, each with whether that was on the thread of a running loop."""
    by_name: Seen = {}

    def watch(owner: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            if any(is_large(arg) for arg in args):
                by_name.setdefault(name, set()).add(is_on_loop())
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, watched)

    watch(governance, "redact_for_engine")
    watch(governance, "merged")
    watch(tool_arguments, "schema_errors")
    watch(results, "schema_errors")
    watch(LocalPolicy, "decide")
    return by_name


def is_large(value: Any) -> bool:
    data = getattr(value, "arguments", value)
    return isinstance(data, dict) and any(
        isinstance(part, dict) and len(part) >= FEWER for part in (data, *data.values())
    )


def is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@pytest.fixture
def engine() -> Iterator[EngineServer]:
    with EngineServer() as server:
        yield server


@pytest.fixture
def kit(engine: EngineServer, tmp_path: Path) -> Iterator[AgentKit]:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    settings = {"governance_url": engine.url, "governance_policy": "fail_open", "policy": str(file)}
    with AgentKit(tools=[store], settings=settings) as agent_kit:
        yield agent_kit


def test_no_decision_about_a_large_call_is_made_on_the_loop(kit: AgentKit, seen: Seen) -> None:
    pairs = {f"k{number}": number for number in range(MANY)}
    kit.model.script(Turn(calls=[Call(name="store", arguments={"pairs": pairs})]), Turn(text="Done."))

    played = kit.play()

    assert played.results("store") == [dict(list(pairs.items())[:FEWER])]
    assert seen == {"decide": {False}, "schema_errors": {False}, "redact_for_engine": {False}}


def test_what_an_engine_changes_of_a_large_call_is_examined_on_a_thread(
    kit: AgentKit, engine: EngineServer, seen: Seen
) -> None:
    pairs = {f"k{number}": number for number in range(FEWER)}
    changed = pairs | {"k1": -1}

    def respond(event: dict[str, Any]) -> dict[str, Any]:
        if event.get("activity_type") != "store":
            return {"action": "continue"}
        kind = "activity_input" if event["event_type"] == "ActivityStarted" else "activity_output"
        redacted = [{"pairs": changed}] if kind == "activity_input" else changed | {"k2": -2}
        guardrails = {"input_type": kind, "redacted_input": redacted, "validation_passed": True}
        return {"action": "continue", "guardrails_result": guardrails}

    engine.respond = respond
    kit.model.script(Turn(calls=[Call(name="store", arguments={"pairs": pairs})]), Turn(text="Done."))

    played = kit.play()

    assert played.results("store") == [changed | {"k2": -2}]
    assert seen == {"decide": {False}, "schema_errors": {False}, "redact_for_engine": {False}, "merged": {False}}


def test_another_run_is_executed_during_a_decision(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's view of the call is held back until a run that began after it has ended."""
    original = redact_for_engine
    ended: list[Any] = []
    other = kit.agent("other")

    def waiting(value: Any) -> Any:
        if is_large(value) and not ended:
            handle = kit.run("Hello", other)
            ended.append(handle.result(30))
        return original(value)

    monkeypatch.setattr(governance, "redact_for_engine", waiting)
    pairs = {f"k{number}": number for number in range(FEWER)}
    calls = [Turn(calls=[Call(name="store", arguments={"pairs": pairs})])]
    kit.model.script(*calls, Turn(text="Hello."), Turn(text="Done."))

    kit.play()

    assert len(ended) == 1
