"""`./callboard lock`: requirements.lock holds what pyproject.toml asks for, pinned and hashed."""

from __future__ import annotations

import shutil
import subprocess

import click

from config.errors import SettingInvalid
from web.terminal.cli import ROOT


@click.command()
@click.option("--upgrade", is_flag=True, help="Take newer versions where pyproject.toml allows them.")
def lock(upgrade: bool) -> int:
    """Compile the lock for every platform; the next ./callboard installs it."""
    uv = shutil.which("uv")
    if uv is None:
        raise SettingInvalid("the lock is compiled by uv, which is not on the PATH; install it (docs.astral.sh/uv).")
    command = [
        uv, "pip", "compile", "pyproject.toml", "--output-file", "requirements.lock", "--universal",
        "--generate-hashes", "--all-extras", "--python-version", "3.11", "--no-emit-index-url", "--no-emit-find-links",
        "--quiet", "--custom-compile-command", "./callboard lock", *(["--upgrade"] if upgrade else []),
    ]  # fmt: skip
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if status == 0:
        click.echo("requirements.lock is compiled; read its diff, then run ./callboard check.")
    return status
