from pathlib import Path

import pytest
from pydantic import SecretStr

from agents.governance.guardrails.guardrails import Guardrails, guardrails_of
from agents.process import open_process
from config.definitions.errors import DefinitionInvalid
from config.definitions.guardrails.checks import Checks, GuardrailFields, PatternCheck
from config.definitions.loading import load_definition
from config.errors import SettingInvalid
from config.settings import Settings

AGENT = "name: A\nmodel: demo/assistant\nsystem_prompt: Hi.\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "guardrails.yaml"


@pytest.fixture
def deployed(settings: Settings, file: Path) -> Settings:
    return settings.model_copy(update={"guardrails_file": str(file)})


def test_of_the_deployment_s_and_the_agent_s_checks_the_stricter_count(deployed, file):
    file.write_text("input: {pii: redact, max_chars: 100}\noutput: {secrets: block}\n")
    ticket = PatternCheck(name="ticket", pattern="T-[0-9]+")
    agent = GuardrailFields(input=Checks(pii="off", max_chars=500, patterns=(ticket,)), arguments="pass")

    guardrails = guardrails_of(deployed, agent)

    assert (guardrails.input.pii, guardrails.input.max_chars, guardrails.input.patterns) == ("redact", 100, (ticket,))
    assert (guardrails.output.secrets, guardrails.output.pii, guardrails.arguments) == ("block", "off", "refuse")


def test_an_edited_file_counts_from_the_next_run_on(deployed, file):
    file.write_text("input: {pii: redact}\n")
    assert Guardrails(guardrails_of(deployed)).check_input("a@example.org").redacted_input == "[redacted]"

    file.write_text("input: {pii: block} # edited\n")

    result = Guardrails(guardrails_of(deployed)).check_input("a@example.org")
    assert (result.validation_passed, result.redacted_input, result.reasons) == (False, None, ("blocked: email",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("input: {pii: maybe}\n", "input.pii"),
        ("inputs: {}\n", "inputs"),
        ("output: {patterns: [{name: a, pattern: '(a'}]}\n", "output.patterns"),
        ("- a list\n", "has no fields; begin with `input: ...` or `output: ...`."),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_place(deployed, file, text, problem):
    if text is not None:
        file.write_text(text)

    with pytest.raises(SettingInvalid, match="CALLBOARD_GUARDRAILS_FILE") as caught:
        guardrails_of(deployed)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("{input: {secrets: off}}", "guardrails.input.secrets"),
        ("{input: {pii_kinds: [names]}}", "guardrails.input.pii_kinds"),
        ("{outputs: {}}", "Known fields: input, output, arguments"),
        ("{output: {paterns: []}}", "Did you mean 'patterns'"),
        ("{output: {patterns: [{name: x, patern: y}]}}", "Did you mean 'pattern'"),
        ("{output: {patterns: [{name: x, pattern: '(a+)+\\1'}]}}", "linear time"),
        ("{output: {max_chars: 0}}", "guardrails.output.max_chars"),
    ],
)
def test_an_agent_s_section_that_cannot_be_used_is_refused(tmp_path, section, problem):
    path = tmp_path / "agent.yaml"
    path.write_text(f"{AGENT}guardrails: {section}\n")

    with pytest.raises(DefinitionInvalid) as caught:
        load_definition(path)
    assert problem in str(caught.value)


def test_a_process_does_not_open_with_a_file_or_a_key_that_cannot_be_used(deployed, settings):
    with pytest.raises(SettingInvalid, match="CALLBOARD_GUARDRAILS_FILE"):
        open_process(deployed)
    with pytest.raises(SettingInvalid, match="CALLBOARD_SEAL_KEYS"):
        open_process(settings.model_copy(update={"seal_keys": SecretStr("short")}))
