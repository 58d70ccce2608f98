"""The two locks: what production runs, and what only tests and checks need."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from cli.dev.commands.lock import LOCK, TEST_LOCK, _leave_out, entries
from config.folders import FOLDERS, ROOT
from config.settings.project import project


def pins(name: str) -> dict[str, str]:
    """Return the packages of a lock by name, each with its version and its condition."""
    return {line.partition("==")[0]: line for line in entries((ROOT / name).read_text())}


def imported(modules: Iterable[str]) -> Iterator[tuple[Path, str]]:
    """Yield which of these top-level modules production's files import, wherever in the file."""
    module_names = set(modules)
    named = re.compile(rf"\b(?:{'|'.join(map(re.escape, module_names))})\b")
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        if not named.search(text := path.read_text()):  # parsing every file takes a second
            continue
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            tops = (name.partition(".")[0] for name in names)
            yield from ((path.relative_to(ROOT), top) for top in tops if top in module_names)


@pytest.mark.parity
def test_production_imports_nothing_that_only_the_tests_install():
    only_tests = set(pins(TEST_LOCK)) - set(pins(LOCK))
    brought = packages_distributions().items()
    modules = [module for module, packages in brought if set(map(str.lower, packages)) & only_tests]

    imports = [(str(path), name) for path, name in imported(modules)]

    assert "pytest" in modules

    assert imports == [], "add it to `dependencies` of pyproject.toml, then run ./callboard lock"


def test_every_dependency_of_the_project_is_in_its_lock():
    extras = project()["optional-dependencies"]
    names = {extra: {re.split(r"[^\w-]", line)[0] for line in lines} for extra, lines in extras.items()}
    production = {re.split(r"[^\w-]", line)[0] for line in project()["dependencies"]}

    assert production | names["build"] | names["embedded"] | names["postgres"] <= set(pins(LOCK))
    assert names["test"] <= set(pins(TEST_LOCK)) | set(pins(LOCK))
    assert names["docs"] <= set(pins(TEST_LOCK))
    assert {"pytest", "mypy", "playwright", "zensical"}.isdisjoint(pins(LOCK)), "`up` installs what this lock names"


def test_no_package_has_two_versions():
    both = set(pins(LOCK)) & set(pins(TEST_LOCK))

    versions = [[pins(name)[package].partition(" ;")[0] for name in (LOCK, TEST_LOCK)] for package in sorted(both)]

    assert [pair for pair in versions if len(set(pair)) > 1] == []


def test_a_package_that_the_tests_need_on_more_platforms_stays_in_their_lock(tmp_path):
    production, tests = tmp_path / "production", tmp_path / "tests"
    production.write_text("a==1 \\\n    --hash=sha256:0\nb==1 ; sys_platform == 'win32' \\\n    --hash=sha256:0\n")
    tests.write_text(
        "# head\na==1 \\\n    --hash=sha256:0\n    # via c\nb==1 \\\n    --hash=sha256:0\nc==1 \\\n    --hash\n"
    )

    _leave_out(tests, production)

    assert tests.read_text() == "# head\nb==1 \\\n    --hash=sha256:0\nc==1 \\\n    --hash\n"


@pytest.mark.parametrize("name", ["callboard", "tests/locked_environment.py"])
def test_a_complete_lock_is_installed_without_looking_for_dependencies(name: str) -> None:
    """The pip of Python 3.11 refuses a hashed lock in which a package asks for another's extra, as in `newest.lock`."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if '"--require-hashes"' in line]

    assert lines
    assert all('"--no-deps", "--require-hashes"' in line for line in lines)
