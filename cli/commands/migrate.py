"""`./callboard migrate`: bring the database to the schema this code needs."""

from __future__ import annotations

import click

from cli import options
from config.database.migrate import HEAD
from config.database.migrate import migrate as bring_to_head


@click.command()
@options.state_dir
def migrate(**flags: object) -> int:
    """Bring the database to the newest schema; safe to repeat, and to run on several machines at once."""
    changed = bring_to_head(options.apply(**flags))
    click.echo(f"The database is {'now ' if changed else 'already '}at schema {HEAD}.")
    return 0
