"""Each command of the README and of its next page can be typed as it stands; the README is one screen, with proofs.

tests/journeys/test_readme.py types the commands that end.
"""

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
STARTED = (ROOT / "docs" / "getting-started.md").read_text()
MOST_LINES = 75
"""Of the README: one screen."""
MOST_LINKS = 8
"""At its end: more would be a table of contents, which docs/README.md is."""


def test_the_readme_is_one_screen():
    assert len(README.splitlines()) <= MOST_LINES
    assert len(re.findall(r"\]\(docs/", README.partition("## Read on")[2])) == MOST_LINKS


def test_each_sentence_for_a_celery_user_is_linked_to_the_test_that_shows_it():
    claims = README.partition("## What a Celery user looks for")[2].partition("\n## ")[0].split("\n- ")[1:]

    assert len(claims) == 5
    for claim in claims:
        tests = re.findall(r"\]\((tests/[\w/]+\.py)\)", claim)
        assert tests, claim
        assert [path for path in tests if not (ROOT / path).exists()] == []


def commands() -> list[str]:
    """Return the lines of the pages' shell examples, without comments; a comment that is a command counts as well."""
    lines = [line for page in (README, STARTED) for block in examples(page, "sh") for line in block.splitlines()]
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
