"""`./callboard backup`: a copy of the database while everything goes on."""

from __future__ import annotations

from pathlib import Path

import click

from config.backup import back_up
from web.terminal import options
from web.terminal.cli import CallerPath
from web.terminal.printed_json import print_json


@click.command()
@click.argument("file", type=CallerPath(dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@options.as_json
@options.state_dir
def backup(file: Path, force: bool, as_json: bool, **flags: object) -> int:
    """Copy the database to FILE while everything runs; docs/operations.md says how to restore it."""
    made = back_up(options.apply(**flags), file, force=force)
    if as_json:
        print_json({"file": str(made.file), "bytes": made.size, "kind": made.kind}, lines=True)
    else:
        click.echo(f"{made.file}: {made.size:,} bytes.")
    return 0
