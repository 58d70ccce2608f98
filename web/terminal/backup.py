"""`./callboard backup`: a copy of the database while everything goes on."""

from __future__ import annotations

from pathlib import Path

import click
import orjson

from config.backup import back_up
from web.terminal import options
from web.terminal.cli import CallerPath


@click.command()
@click.argument("file", type=CallerPath(dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@options.as_json
@options.state_dir
def backup(file: Path, force: bool, as_json: bool, **flags: object) -> int:
    """Copy the database to FILE while everything runs; docs/operations.md says how to restore it."""
    made = back_up(options.apply(**flags), file, force=force)
    if as_json:
        click.echo(orjson.dumps({"file": str(made.file), "bytes": made.size, "kind": made.kind}).decode())
    else:
        click.echo(f"{made.file}: {made.size:,} bytes.")
    return 0
