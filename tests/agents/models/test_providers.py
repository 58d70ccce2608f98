"""Providers LiteLLM cannot know are named in an error before it is imported; those it may know never are."""

import subprocess
import sys

import pytest

from agents.models.errors import MODEL_UNKNOWN
from agents.models.lite import litellm_module
from agents.models.providers import require_possible_provider
from config.definitions.agent import AgentDefinition
from config.definitions.loading import load_definition
from config.folders import ROOT
from tests.raising import raises


@pytest.fixture
def agent(tmp_path):
    def write(more: str = "") -> AgentDefinition:
        (tmp_path / "some.yaml").write_text(f"name: Some\nmodel: auto\nsystem_prompt: You.\n{more}")
        return load_definition(tmp_path / "some.yaml")

    return write


@pytest.mark.parametrize("model", ["opnai/gpt-5-mini", "nosuchprovider/foo"])
def test_a_provider_that_no_list_has_is_refused(agent, model):
    with raises(MODEL_UNKNOWN, match="names no provider LiteLLM knows; write it as provider/model"):
        require_possible_provider(agent(), model)


@pytest.mark.parity
def test_what_litellm_may_know_is_left_to_it(agent):
    litellm = litellm_module()
    providers = [f"{getattr(provider, 'value', provider)}/some-model" for provider in litellm.provider_list]

    for model in [*providers, *litellm.model_cost, "gpt-5-mini", "gdc/x", "someone/their-model:5c7d5dc6dd8bf75c1a"]:
        require_possible_provider(agent(), model)
    require_possible_provider(agent("api_base: http://127.0.0.1:1/v1\n"), "nosuchprovider/foo")


@pytest.mark.parity
def test_litellm_is_not_imported_to_find_out():
    code = "import sys; from agents.models.providers import _is_named; assert not _is_named('nosuchprovider'); "
    code += "assert 'litellm' not in sys.modules"

    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
