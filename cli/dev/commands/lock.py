"""`./callboard lock`: compile the locks, pinned and hashed: two from pyproject.toml, and those of the tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click

from cli.main import SUCCEEDED
from config.errors import SettingInvalid
from config.folders import ROOT

LOCK, TEST_LOCK = "requirements.lock", "requirements-test.lock"
ENVIRONMENTS = ("tests/identity_provider/requirements", "tests/mcp_suite/newest", "tests/mcp_suite/older")
"""What programs of the tests in environments of their own are made of: ``.in`` and ``.lock``."""
PRODUCTION = ("build", "embedded", "postgres")
"""The optional dependencies of pyproject.toml that production has."""


@click.command()
@click.option("--upgrade", is_flag=True, help="Use newer versions where pyproject.toml allows them.")
def lock(upgrade: bool) -> int:
    """Compile the locks for every platform; the next ./callboard installs them.

    requirements.lock is what production runs; requirements-test.lock is what the tests and checks need besides. The
    sign-in provider of the tests, and what they use of MCP, have locks of their own.
    """
    newer = ("--upgrade",) if upgrade else ()
    status = _compile("pyproject.toml", LOCK, *(f"--extra={name}" for name in PRODUCTION), *newer)
    status = status or _compile("pyproject.toml", TEST_LOCK, "--all-extras", "--constraint", LOCK, *newer)
    for name in ENVIRONMENTS:
        status = status or _compile(f"{name}.in", f"{name}.lock", *newer)
    if status == SUCCEEDED:
        _leave_out(ROOT / TEST_LOCK, ROOT / LOCK)
        click.echo(f"{LOCK} and {TEST_LOCK} are compiled; read their diff, then run ./callboard check.")
    return status


def _compile(source: str, name: str, *arguments: str) -> int:
    uv = shutil.which("uv")
    if uv is None:
        raise SettingInvalid("uv, which compiles the locks, is not on the PATH; install it (docs.astral.sh/uv).")
    always = (
        f"pip compile {source} --output-file {name} --universal --generate-hashes --python-version 3.11 "
        "--no-emit-index-url --no-emit-find-links --quiet"
    ).split()
    command = [uv, *always, "--custom-compile-command", "./callboard lock", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def entries(lock: str) -> dict[str, str]:
    """Return a lock's packages: version and platforms, as they stand in the first line -> all lines."""
    packages: dict[str, str] = {}
    first = ""
    for line in lock.splitlines(keepends=True):
        if line[0].isalnum():
            first = line.partition(" \\")[0]
            packages[first] = ""
        if first:  # the lines before the first package are comments
            packages[first] += line
    return packages


def _leave_out(tests: Path, production: Path) -> None:
    """The first lock has no package that the second has, for the same platforms."""
    in_production = entries(production.read_text())
    text = tests.read_text()
    for first, lines in entries(text).items():
        if first in in_production:
            text = text.replace("\n" + lines, "\n")
    tests.write_text(text)
