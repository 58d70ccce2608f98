"""`./callboard migrate` and `backup`: bring the database to the schema this code needs; copy it while it is in use."""

from __future__ import annotations

from pathlib import Path

import click

from cli import options
from cli.main import CallerPath
from cli.output.json import print_json
from config.database.backup import back_up
from config.database.migrate import HEAD
from config.database.migrate import migrate as bring_to_head


@click.command()
@options.state_dir
def migrate(**flags: object) -> int:
    """Bring the database to the newest schema; safe to repeat, and to run on several machines at once."""
    changed = bring_to_head(options.apply(**flags))
    click.echo(f"The database is {'now ' if changed else 'already '}at schema {HEAD}.")
    return 0


@click.command()
@click.argument("file", type=CallerPath(dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@options.as_json
@options.state_dir
def backup(file: Path, force: bool, as_json: bool, **flags: object) -> int:
    """Copy the database to FILE while everything runs; docs/operations.md says how to restore it."""
    copy = back_up(options.apply(**flags), file, force=force)
    if as_json:
        print_json({"file": str(copy.file), "bytes": copy.size, "kind": copy.kind}, lines=True)
    else:
        click.echo(f"{copy.file}: {copy.size:,} bytes.")
    return 0
