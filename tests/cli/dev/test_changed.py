"""Which tests a change selects: those that import it, directly or not, or all of them."""

from __future__ import annotations

import pytest

from cli.dev.commands.check import ALWAYS, import_graph, select_tests


@pytest.mark.parity
def test_a_changed_module_selects_the_tests_that_import_it_through_others() -> None:
    selected = select_tests(["config/clock.py"])

    assert selected is not None
    assert {"tests/bus/journal/test_threads.py", "tests/web/test_runs.py"} <= set(selected)


@pytest.mark.parity
def test_a_changed_test_selects_itself_and_those_that_read_every_file() -> None:
    assert select_tests(["tests/cli/test_quoted.py"]) == sorted(["tests/cli/test_quoted.py", *ALWAYS])


def test_a_document_selects_those_that_read_every_file() -> None:
    assert select_tests(["docs/tools.md"]) == sorted(ALWAYS)


@pytest.mark.parametrize("name", ["pyproject.toml", "web/static/app.js", "bus/no_such_file.py", "tests/conftest.py"])
def test_what_is_not_in_the_import_graph_selects_all(name: str) -> None:
    assert select_tests([name]) is None


def test_a_module_named_in_a_string_counts_as_imported() -> None:
    assert "bus/messages/run_agent.py" in import_graph()["handlers/run_agent.py"]
