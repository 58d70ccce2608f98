"""`./callboard lock`: compile requirements.lock, pinned and hashed, from pyproject.toml."""

from __future__ import annotations

import shutil
import subprocess

import click

from config.errors import SettingInvalid
from config.folders import ROOT


@click.command()
@click.option("--upgrade", is_flag=True, help="Use newer versions where pyproject.toml allows them.")
def lock(upgrade: bool) -> int:
    """Compile the lock for every platform; the next ./callboard installs it."""
    uv = shutil.which("uv")
    if uv is None:
        raise SettingInvalid("uv, which compiles the lock, is not on the PATH; install it (docs.astral.sh/uv).")
    always = (
        "pip compile pyproject.toml --output-file requirements.lock --universal --generate-hashes --all-extras "
        "--python-version 3.11 --no-emit-index-url --no-emit-find-links --quiet"
    ).split()
    command = [uv, *always, "--custom-compile-command", "./callboard lock", *(["--upgrade"] if upgrade else [])]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if status == 0:
        click.echo("requirements.lock is compiled; read its diff, then run ./callboard check.")
    return status
