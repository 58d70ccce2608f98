"""`./callboard check`: the checks before each commit, in under 60 seconds."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import click

from cli.dev.checks import group_of_tests, run_all, static_checks
from cli.dev.own_files import own_files
from cli.main import FAILED, SUCCEEDED
from config.folders import FOLDERS, ROOT

ALWAYS = ("tests/test_docs.py", "tests/test_house.py", "tests/test_readme.py", "tests/test_words.py")
"""Tests that read every file, and so are always selected."""
IGNORED = (".md",)
"""Extensions of files that only the tests of ``ALWAYS`` read."""
_TOPS = frozenset({*FOLDERS, "tests"})
_TOP = "|".join(sorted(_TOPS))
_FROM = re.compile(rf"^[ \t]*from[ \t]+((?:{_TOP})\b[\w.]*)[ \t]+import[ \t]+(\([^()]*|[^\n(]*)", re.MULTILINE)
_NAMED = re.compile(rf"""(?:^[ \t]*import[ \t]+|["'])((?:{_TOP})(?:[.:]\w+)+)""", re.MULTILINE)
"""``import room.module``, or a string that begins so; parsing every file takes seconds."""


def tests_of_change() -> list[str] | None:
    """Return the test files that the difference from main can affect, committed or not; None for all of them."""
    base = _git("merge-base", "HEAD", "main")
    differing = _git("diff", "--name-only", base[0]) if base else None
    if differing is None:
        return None
    own, tests = set(own_files().kept), select_tests(differing)
    return tests and [name for name in tests if name in own]


def select_tests(changed: Iterable[str]) -> list[str] | None:
    """Return the test files that a change of these files can affect, or None for all of them."""
    files = [name for name in changed if not name.endswith(IGNORED)]
    if any(not name.endswith(".py") or not (ROOT / name).exists() for name in files):
        return None  # data, or a deleted file, whose importers are unknown
    if any(name.partition("/")[0] not in _TOPS or name.endswith("conftest.py") for name in files):
        return None
    graph = import_graph()
    touched, waiting = set(files), list(files)
    while waiting:
        new = graph.get(waiting.pop(), set()) - touched
        touched |= new
        waiting += new
    tests = {name for name in touched if Path(name).name.startswith("test_")}
    return sorted(tests.union(name for name in ALWAYS if (ROOT / name).exists()))


@cache
def import_graph() -> dict[str, set[str]]:
    """Return for each file the files that import it; a test also imports the ``conftest.py`` files above it."""
    importers: dict[str, set[str]] = {}
    for top in sorted(_TOPS):
        for path in (ROOT / top).rglob("*.py"):
            for imported in {*_imported_by(path.read_text()), *_conftests_above(path)}:
                importers.setdefault(imported, set()).add(str(path.relative_to(ROOT)))
    return importers


def _imported_by(text: str) -> Iterator[str]:
    for module, names in _FROM.findall(text):
        for name in re.findall(r"\w+", names):
            yield from _files_of(f"{module}.{name}")
    for name in _NAMED.findall(text):
        yield from _files_of(name.replace(":", "."))


@cache
def _files_of(name: str) -> tuple[str, ...]:
    """Return the files that ``import name`` runs: the packages on the way, and the module."""
    parts = name.split(".")
    places = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    files = (f"{stem}{ending}" for stem in places for ending in (".py", "/__init__.py"))
    return tuple(file for file in files if (ROOT / file).is_file())


def _conftests_above(path: Path) -> Iterator[str]:
    for folder in path.relative_to(ROOT).parents:
        if (ROOT / folder / "conftest.py").is_file():
            yield str(folder / "conftest.py")


def _git(*words: str) -> list[str] | None:
    ran = subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.stdout.split("\n")[:-1] if ran.returncode == 0 else None


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--fix", is_flag=True, help="Format, and apply the linter's fixes.")
@click.option("--static", is_flag=True, help="Skip the tests.")
@click.option("--changed", is_flag=True, help="Only the tests that the changes against main can affect.")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def check(fix: bool, static: bool, changed: bool, pytest_args: tuple[str, ...]) -> int:
    """Check format, lint, import rules and types, and run the unit tests; the rest of the line goes to pytest."""
    checks = static_checks(fix=fix)
    files = (tests_of_change() if changed else None) or ()
    tests = [] if static else [group_of_tests("unit", (*pytest_args, *files))]
    if fix:  # one after another: each writes the files that the next one reads
        is_well = all([run_all(part) for part in (checks, tests) if part])
    else:
        is_well = run_all([*checks, *tests], beside=len(checks) + 1)
    return SUCCEEDED if is_well else FAILED
