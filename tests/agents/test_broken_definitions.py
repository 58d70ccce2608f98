"""A definition or a tool that breaks while it is loaded is broken itself, says so, and disturbs no other."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agents import compatibility
from agents.catalogue import find_tool, tools_of
from agents.checkup import deep_check, problem_of
from agents.process import current_process
from agents.registry import AgentRegistry
from agents.testing import AgentKit
from config.definitions import agent as definitions
from config.definitions.agent import AgentDefinition, DefinitionFields
from config.definitions.errors import DefinitionInvalid, ToolUnknown
from config.definitions.loading import load_definition, pinned_definition
from config.settings import read_settings
from handlers.worker.process import rehearse
from tests.agents.broken_tools import KINDS
from web.api.agents import agent_data

CHAIN: dict[str, Any] = {f"a{number}": {"$ref": f"#/$defs/a{number + 1}"} for number in range(1500)} | {"a1500": {}}
CHAINED: dict[str, Any] = {"type": "object", "$ref": "#/$defs/a0", "$defs": CHAIN}


def written(folder: Path, fields: Any, name: str = "broken") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(fields))
    return path


def fields(**more: Any) -> dict[str, Any]:
    return {"name": "A", "model": "demo/assistant", "system_prompt": "x", **more}


@pytest.mark.parametrize("keyword", ["$ref", "not", "allOf"])
def test_a_schema_of_chained_references_breaks_its_own_definition(tmp_path: Path, keyword: str) -> None:
    chain: dict[str, Any] = {"a1200": {}}
    for number in range(1200):
        step: Any = {"$ref": f"#/$defs/a{number + 1}"}
        chain[f"a{number}"] = step if keyword == "$ref" else {keyword: [step] if keyword == "allOf" else step}
    written(tmp_path, fields(output_schema={"type": "object", "$ref": "#/$defs/a0", "$defs": chain}))
    written(tmp_path, fields(), "fine")

    error, fine = AgentRegistry([tmp_path]).all()

    assert isinstance(error, DefinitionInvalid)
    assert "follow one another more than 128 times" in str(error)
    assert isinstance(fine, AgentDefinition)


@pytest.mark.parametrize("raised", [RecursionError("too deep"), MemoryError(), BaseException("a panic of Rust")])
def test_whatever_reading_a_definition_raises_is_its_own_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    def check(schema: object) -> None:
        raise raised

    monkeypatch.setattr(definitions, "check_schema", check)
    path = written(tmp_path, fields(output_schema={"type": "object"}))

    with pytest.raises(DefinitionInvalid, match=f"cannot be read \\({type(raised).__name__}"):
        load_definition(path)
    with pytest.raises(DefinitionInvalid, match="cannot be read"):
        pinned_definition("broken", "digest", path.read_text())


def test_a_file_whose_name_is_no_text_can_still_be_reported(tmp_path: Path) -> None:
    (tmp_path / "\udcff.yaml").write_text("name: A")

    (error,) = AgentRegistry([tmp_path]).all()

    assert isinstance(error, DefinitionInvalid)
    assert b"udcff" in orjson.dumps({"detail": str(error), "file": error.facts["file"]})


@pytest.mark.parametrize("kind", KINDS)
def test_a_thing_that_is_no_tool_is_refused_with_a_sentence(tmp_path: Path, kind: str) -> None:
    path = f"tests.agents.broken_tools:{kind}"
    agent = load_definition(written(tmp_path, fields(tools=[path])))

    with pytest.raises(ToolUnknown):
        find_tool(path, read_settings())
    with pytest.raises(ToolUnknown):
        tools_of(agent, read_settings())
    (problem,) = deep_check(agent, read_settings(), {})
    assert (problem.severity, problem.field) == ("error", "tools[0]")


def test_a_function_without_a_signature_says_what_to_do() -> None:
    with pytest.raises(ToolUnknown, match=r"its arguments cannot be read; wrap it in a Python function"):
        find_tool("tests.agents.broken_tools:smallest", read_settings(tool_modules=".,builtins"))


def test_a_broken_plugin_hides_no_other_tool(caplog: pytest.LogCaptureFixture) -> None:
    chosen = read_settings(
        plugins="nowhere_at_all:x, tests.agents.broken_tools:smallest, tests.agents.sample_tools:add"
    )

    assert find_tool("add", chosen).name == "add"
    assert "nowhere_at_all:x" in caplog.text


def test_a_check_that_fails_is_a_problem_of_its_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import agents.checkup

    def broken(*_: object) -> str:
        raise RuntimeError("surprise")

    monkeypatch.setattr(agents.checkup, "resolve_model", broken)
    agent = load_definition(written(tmp_path, fields(tools=["calculater"])))

    problems = deep_check(agent, read_settings(), {})

    assert [problem.code for problem in problems] == ["internal", "tool_unknown"]
    assert "its models could not be checked (RuntimeError: surprise)" in problems[0].text


@pytest.mark.parametrize("tool", ["builtins:min", "pip:main", *(f"tests.agents.broken_tools:{kind}" for kind in KINDS)])
def test_a_run_of_a_broken_agent_ends_with_the_true_reason_and_another_is_unhurt(kit: AgentKit, tool: str) -> None:
    kit.agent("broken", tools=[tool])
    kit.agent("fine", tools=["clock"])
    broken, fine = kit.run(agent_id="broken"), kit.run(agent_id="fine")

    assert broken.result(timeout_s=20).status == "failed"
    assert broken.result(timeout_s=20).reason == "tool_unknown"
    assert fine.result(timeout_s=20).status == "succeeded"


def test_what_loading_an_agent_raises_ends_its_run_alone(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    kit.agent("broken")
    real = compatibility.load_agent

    def load(process: Any, agent_id: str, digest: str = "") -> Any:
        if agent_id == "broken":
            raise RecursionError("too deep")
        return real(process, agent_id, digest)

    monkeypatch.setattr(compatibility, "load_agent", load)
    kit.agent("fine")
    kit.runner.journal.loop.run(rehearse(current_process()))  # as a worker begins

    assert kit.run(agent_id="broken").result(timeout_s=20).reason == "internal"
    assert kit.run(agent_id="fine").result(timeout_s=20).status == "succeeded"


# --- anything at all in a file ----------------------------------------------------------------------

texts = st.text(max_size=30)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
KEYWORDS = ("$ref", "allOf", "anyOf", "not", "properties", "items", "type", "pattern", "$defs", "if", "enum", "$schema")
references = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/%", "#/~2", "#a", "x:y"])
schemas = st.recursive(
    st.fixed_dictionaries({"$ref": references}) | st.just({"type": "object"}) | values,
    lambda inner: st.dictionaries(st.sampled_from(KEYWORDS) | texts, inner | st.lists(inner, max_size=3), max_size=4),
    max_leaves=20,
)
paths = st.sampled_from(["clock", "builtins:min", "os:system", "a..b:c", "tests.agents.broken_tools:exploding", "x:y"])
NAMES = tuple(DefinitionFields.model_fields)
anything = st.dictionaries(st.sampled_from(NAMES) | texts, values, max_size=5)
nearly = st.fixed_dictionaries(
    {"name": st.just("A") | texts, "model": st.just("demo/x") | texts, "system_prompt": st.just("x") | texts},
    optional={
        "tools": st.lists(paths | texts, max_size=3),
        "output_schema": schemas.filter(lambda s: isinstance(s, dict)),
        "params": st.dictionaries(texts, values, max_size=3),
        "tool_overrides": st.dictionaries(texts, values, max_size=2),
        "api_base": texts | st.sampled_from(["http://[", "http://h:99999", "http://x:y@h"]),
        "timeouts": values,
        "starters": values,
        "observers": st.lists(texts, max_size=2),
        "history_chars": values,
        "max_iterations": values,
    },
)
documents = (
    (anything | nearly).map(json.dumps)
    | (anything | nearly).map(lambda fields: yaml.safe_dump(fields, allow_unicode=True))
    | st.text(max_size=200)
)


@pytest.mark.parity
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(documents)
@example(json.dumps(fields(output_schema=CHAINED)))
@example(json.dumps(fields(api_base="http://[")))
@example('name: "\\ud800"\nmodel: "\\ud800"\nsystem_prompt: x')
def test_loading_any_file_raises_its_own_error_only(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fuzz.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))

    try:
        agent = load_definition(path)
    except DefinitionInvalid as error:
        message = str(problem_of(error))
    else:
        message = str(agent_data(agent))
        assert pinned_definition(agent.id, agent.digest, agent.content_json).digest == agent.digest
        with suppress(ToolUnknown, DefinitionInvalid):
            tools_of(agent, read_settings())
    assert orjson.dumps(message)
