"""The names of the first design in a blueprint: its activity, its registry, and the two contexts of a run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agents.capabilities.folder import create_capability_registry
from agents.catalogue import forget
from agents.handle import RunHandle
from agents.testing import AgentKit
from agents.workflows.blueprint import execute_dagger_capability
from config.errors import CallboardError
from config.tracing import traced
from tests.agents.capabilities.conftest import COUNT, WHOLE
from tests.agents.test_contexts import ANN, SETTINGS, TRACE_ID, change, error_of, with_settings, work_on
from tests.agents.workflows import blueprints
from tests.agents.workflows.flows import until
from tests.agents.workflows.test_blueprints import CALLS, book, cancel

BLUEPRINT: dict[str, Any] = {
    "blueprint": f"{blueprints.__name__}:FirstDesignBlueprint",
    "signals": {"shipped": {}},
}


@pytest.fixture
def kit() -> Any:
    CALLS.clear()
    with AgentKit(settings=SETTINGS) as agent_kit:
        agent_kit.workflow(tools=[book, cancel], **BLUEPRINT)
        yield agent_kit


def started(kit: AgentKit, **options: Any) -> RunHandle:
    data = {"cap_id": "book", "input": {"what": "room"}, **options.pop("data", {})}
    with traced(TRACE_ID):
        return kit.start("flow", data, principal=ANN, **options)


def test_the_activity_of_the_first_design_is_one_recorded_call_with_the_contexts_of_the_run(kit: AgentKit) -> None:
    handle = started(kit)
    until(handle, "waiting")
    kit.runner.signal(handle.run_id, "shipped", None, principal=ANN)

    output = handle.result(5).output
    assert output == {"booked": {"id": "room"}, "app": "shop", "roles": ["operator"], "trace": TRACE_ID}
    assert CALLS == ["book room"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"ctx": {"environment": "test"}}, "the context and the trace of its run, and no others"),
        ({"more": {"trace_id": "0" * 32}}, "the context and the trace of its run, and no others"),
        ({"more": {"run_as": "root"}}, "its calls are made as 'ann', who started it"),
        ({"cap_id": "boook"}, "'boook' is not among its tools ('book', 'cancel')"),
    ],
)
def test_a_call_for_another_context_trace_or_principal_is_not_made(kit: AgentKit, data: Any, words: str) -> None:
    handle = started(kit, data=data)

    assert (handle.result(5).status, handle.result(5).reason, CALLS) == ("failed", "blueprint_failed", [])
    assert words in (error_of(handle) or ("", ""))[1]


def test_the_activity_is_called_from_the_logic_of_a_blueprint_alone() -> None:
    with pytest.raises(CallboardError, match="from the logic of a blueprint's run"):
        asyncio.run(execute_dagger_capability(cap_id="book", input={"what": "room"}))


@pytest.mark.parametrize(
    ("missing", "code", "sentence"),
    [
        ("context_json", "golden_context_missing", "GoldenContext not set in workflow memo: "),
        ("credential", "security_context_missing", "SecurityContext not set in workflow memo: "),
        ("trace_id", "security_context_missing", "SecurityContext not set in workflow memo: "),
    ],
)
@pytest.mark.parity
@pytest.mark.parametrize("name", ["BookingBlueprint", "StubbornBlueprint"])
def test_a_blueprint_without_a_required_context_makes_no_call(
    kit: AgentKit, missing: str, code: str, sentence: str, name: str
) -> None:
    kit.workflow(tools=[book, cancel], blueprint=f"{blueprints.__name__}:{name}")
    handle = started(kit, detached=True)
    change(kit, handle, **{missing: None})
    with_settings(kit, require_contexts=True)

    work_on(handle)

    assert (handle.result(5).status, CALLS) == ("failed", [])
    problem = error_of(handle) or ("", "")
    assert (problem[0], problem[1].startswith(sentence)) == (code, True), problem


@pytest.mark.parity
def test_a_blueprint_calls_what_the_registry_of_the_first_design_has(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNT)
    (tmp_path / "count_words.yaml").write_text(json.dumps(WHOLE))
    forget()
    with AgentKit(settings={"capabilities_dir": str(tmp_path)}) as kit:
        registry = create_capability_registry(kit.settings)
        kit.workflow(tools=list(registry), **BLUEPRINT)
        data = {"cap_id": "count_words", "input": {"text": "one two"}, "more": {"run_as": None}}
        handle = kit.start("flow", data)
        until(handle, "waiting")
        kit.runner.signal(handle.run_id, "shipped", None)

        assert handle.result(5).output["booked"] == {"words": 2}
    forget()
