"""Each command of the README can be typed as it stands; tests/journeys/test_readme.py types those that end."""

from __future__ import annotations

import re
import shlex
import shutil

import click
import pytest

from cli.main import cli
from config.folders import ROOT
from tests.test_docs import examples

README = (ROOT / "README.md").read_text()


def commands() -> list[str]:
    """Return the lines of the README's shell examples, without comments; a comment that is a command counts as well."""
    lines = [line for block in examples(README, "sh") for line in block.splitlines()]
    printed = [line.removeprefix("# ") for line in lines if line.startswith("# .venv/")]
    typed = [re.sub(r"\s+#.*", "", line) for line in lines if line and not line.startswith("#")]
    return [*typed, *printed]


def programs(line: str) -> list[list[str]]:
    """Return the words of each program of a pipe."""
    return [shlex.split(part) for part in line.split(" | ")]


def test_there_are_commands():
    assert len(commands()) > 15
    assert any(line.startswith(".venv/bin/celery") for line in commands())


@pytest.mark.parametrize("line", commands())
def test_what_is_typed_is_there(line):
    for program, *words in programs(line):
        if program == "export":
            assert re.fullmatch(r"CALLBOARD_[A-Z_]+=\S+", words[0])
        elif "/" in program:
            assert (ROOT / program).exists(), f"{program} is not in the project's folder"
        else:
            assert shutil.which(program), f"{program} is not on the PATH"
        files = [word for word in words if word.endswith(".txt")]
        assert [file for file in files if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("line", [line for line in commands() if "./callboard" in line])
def test_the_terminal_takes_the_words(line):
    _, name, *words = next(words for words in programs(line) if words[0] == "./callboard")

    command = cli.get_command(click.Context(cli), name)

    assert command is not None
    command.make_context(name, words, resilient_parsing=False)
