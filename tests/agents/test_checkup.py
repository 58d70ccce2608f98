"""Looking a definition over: what would end a run is named before it runs."""

from typing import Any

import pytest

from agents.checkup import arguments_in, deep_check, problem_of
from agents.models import auto
from config.definitions.errors import DefinitionInvalid
from config.definitions.loading import load_definition
from config.settings import read_settings


@pytest.fixture
def check(tmp_path):
    """Return the problems of a definition with these lines, as (severity, line, field, text)."""

    def check(*lines, environment=None):
        path = tmp_path / "helper.yaml"
        path.write_text("\n".join(["name: A", "system_prompt: x", *lines]))
        mistakes = deep_check(load_definition(path), read_settings(), environment or {})
        return [(problem.severity, problem.line, problem.field, problem.text) for problem in mistakes]

    return check


@pytest.mark.parity
@pytest.mark.parametrize(
    "lines",
    [
        ["model: demo/assistant", "tools: [calculator, clock]"],
        ["model: ollama_chat/whatever"],
        ["model: hosted_vllm/whatever"],
        ["model: openai/whatever", "api_base: http://127.0.0.1:9000/v1"],
    ],
)
def test_what_can_run_has_no_problems(check, lines):
    assert check(*lines) == []


@pytest.mark.parity
def test_a_key_that_is_there_is_no_problem(check):
    assert check("model: openai/gpt-5-mini", environment={"OPENAI_API_KEY": "x"}) == []
    assert check("model: openai/gpt-5-mini", "api_key_env: MINE", environment={"MINE": "x"}) == []


def test_auto_is_never_a_problem(check, monkeypatch):
    monkeypatch.setattr(auto, "OLLAMA_URL", "")

    assert check("model: auto") == []


@pytest.mark.parity
@pytest.mark.parametrize(
    ("lines", "severity", "line", "field", "words"),
    [
        (["model: opnai/gpt-5-mini"], "error", 3, "model", "Did you mean 'openai/gpt-5-mini'?"),
        (["model: atuo"], "error", 3, "model", "Did you mean 'auto'?"),
        (["model: gpt5mini"], "error", 3, "model", "Did you mean 'gpt-5-mini'?"),
        (["model: openai/gpt-5-mni", "api_key_env: HERE"], "warning", 3, "model", "Did you mean 'openai/gpt-5-mini'?"),
        (["model: openai/gpt-5-mini"], "warning", 3, "model", "set OPENAI_API_KEY"),
        (["model: openai/gpt-5-mini", "api_key_env: MINE"], "warning", 4, "api_key_env", "MINE is not set"),
        (
            ["model: azure/own", "api_key_env: HERE", "params: {api_version: 2024-10-21}"],
            "warning",
            3,
            "model",
            "write `api_base: https://RESOURCE.openai.azure.com`",
        ),
        (
            ["model: azure/own", "api_base: https://r.openai.azure.com", "api_key_env: HERE"],
            "warning",
            3,
            "model",
            "Write `params: {api_version: ...}`",
        ),
        (
            ["model: demo/x", "tools:", "  - clock", "  - calculater"],
            "error",
            6,
            "tools[1]",
            "Did you mean 'calculator'?",
        ),
        (["model: demo/x", "tools: ['no.such:tool']"], "error", 4, "tools[0]", "cannot be imported"),
        (
            ["model: demo/x", "tools: [clock]", "tool_overrides:", "  clok: {confirm: true}"],
            "error",
            6,
            "tool_overrides.clok",
            "Did you mean 'clock'?",
        ),
        (
            ["model: demo/x", "tools:", "  - clock", "  - agents.tools.clock:clock"],
            "error",
            6,
            "tools[1]",
            "another tool",
        ),
        (
            ["model: demo/x", "tools: [clock]", "router:", "  - matches: order", "    agent: orders"],
            "error",
            7,
            "router[0].agent",
            "no agent or workflow is called 'orders'",
        ),
        (["model: demo/x", "observers: [sse, loger]"], "error", 4, "observers[1]", "Did you mean 'logger'?"),
        (["model: demo/x", "observers: ['no.such:Observer']"], "error", 4, "observers[0]", "cannot be imported"),
    ],
)
def test_a_problem_is_named_with_line_field_and_remedy(check, lines, severity, line, field, words):
    mistakes = check(*lines, environment={"HERE": "x"})

    assert [problem[:3] for problem in mistakes] == [(severity, line, field)]
    assert words in mistakes[0][3]


@pytest.mark.parity
def test_all_problems_are_reported_at_once(check):
    mistakes = check("model: nope/x", "tools: [calculater, clok]", "observers: [loger]")

    assert [field for _, _, field, _ in mistakes] == ["model", "tools[0]", "tools[1]", "observers[0]"]


def test_a_definition_that_cannot_be_read_is_a_problem_like_the_others():
    problem = problem_of(DefinitionInvalid("a/b.yaml", 3, "tools[1]", "is odd."))

    assert (problem.severity, problem.line, problem.field, problem.text) == ("error", 3, "tools[1]", "is odd.")
    assert str(problem) == "a/b.yaml:3: tools[1]: is odd."


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"properties": {"a": {}}}, {"a"}),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a"}),
        ({"additionalProperties": False}, set()),
        ({}, None),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, None),
        ({"properties": {"a": {}}, "anyOf": []}, None),
        ({"properties": {"a": {}}, "patternProperties": {"^x": {}}}, None),
    ],
)
def test_the_arguments_of_a_schema_are_known_unless_it_leaves_them_open(schema: Any, arguments: Any) -> None:
    assert arguments_in({"type": "object", **schema}) == arguments


@pytest.mark.parity
@pytest.mark.parametrize(
    ("lines", "severity", "field", "words"),
    [
        (["model: ollama/llama3", "tools: [clock]"], "warning", "model", "write it as ollama_chat/llama3"),
        (["model: perplexity/sonar", "tools: [clock]"], "warning", "model", "LiteLLM passes no tools to"),
        (["model: gpt-5-chat", "tools: [clock]"], "warning", "model", "calls no tools"),
        (["model: openai/text-embedding-3-small"], "error", "model", "lists it for embedding. Name a chat model."),
        (["model: gpt-5-pro"], "warning", "model", "does not stream"),
        (["model: openai/gpt-3.5-turbo", "output_schema: {type: object}"], "warning", "model", "takes no schema"),
        (["model: demo/x", "fallbacks: [openai/gpt-5-mini]"], "warning", "fallbacks[0].model", "set OPENAI_API_KEY"),
        (["model: demo/x", "fallbacks: [opnai/gpt-5-mini]"], "error", "fallbacks[0].model", "Did you mean"),
        (
            ["model: demo/x", "fallbacks:", "  - model: openai/gpt-5-mini", "    api_key_env: MINE"],
            "warning",
            "fallbacks[0].api_key_env",
            "MINE is not set",
        ),
    ],
)
def test_what_a_model_is_known_to_lack_is_named(check, lines, severity, field, words):
    keys = ("OPENAI_API_KEY", "PERPLEXITYAI_API_KEY") if lines[0] != "model: demo/x" else ()

    (problem,) = check(*lines, environment=dict.fromkeys(keys, "x"))

    assert (problem[0], problem[2]) == (severity, field)
    assert words in problem[3]


@pytest.mark.parity
@pytest.mark.parametrize(
    "model",
    ["ollama_chat/own", "hosted_vllm/own", "azure/own", "openrouter/some/new-model", "anthropic/claude-sonnet-4-5"],
)
def test_no_model_that_the_list_does_not_know_is_refused_for_what_it_may_lack(check, model):
    lines = [f"model: {model}", "tools: [clock]", "output_schema: {type: object}", "api_key_env: MINE"]
    azure = {"AZURE_API_BASE": "https://r.openai.azure.com", "AZURE_API_VERSION": "2024-10-21"}

    assert check(*lines, environment={"MINE": "x", **azure}) == []
