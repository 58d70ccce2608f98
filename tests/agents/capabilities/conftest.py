"""A folder of capabilities, and the tools made of them."""

import sys

import pytest
import yaml

from agents import catalogue
from agents.catalogue import find_tool
from config.settings import Settings

WHOLE = {
    "name": "Count words",
    "description": "Count the words of a text.",
    "version": "1.2.0",
    "maintainer": "team@example.org",
    "kind": "transformer",
    "effect": "pure",
    "input_schema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
    "runner": {"type": "process", "command": [sys.executable, "./count.py"]},
}
COUNT = """
import json, sys

text = json.load(sys.stdin)["text"]
json.dump({"words": len(text.split())}, sys.stdout)
"""


@pytest.fixture
def folder(tmp_path):
    capabilities = tmp_path / "capabilities"
    capabilities.mkdir()
    (capabilities / "count.py").write_text(COUNT)
    return capabilities


@pytest.fixture
def declare(folder):
    """Write a capability's file."""

    def declare(capability_id="count_words", ending=".yaml", **changes):
        fields = {name: value for name, value in (WHOLE | changes).items() if value is not None}
        (folder / f"{capability_id}{ending}").write_text(yaml.safe_dump(fields))
        catalogue.forget()

    yield declare
    catalogue.forget()


@pytest.fixture
def settings(folder, tmp_path):
    return Settings(state_dir=tmp_path / "state", capabilities_dir=str(folder))


@pytest.fixture
def find(settings):
    return lambda name="count_words": find_tool(name, settings)
