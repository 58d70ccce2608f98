"""`./callboard migrate`: the database has the schema this code needs."""

from __future__ import annotations

import click

from config.migrate import HEAD
from config.migrate import migrate as bring_to_head
from web.terminal import options


@click.command()
@options.state_dir
def migrate(**flags: object) -> int:
    """Bring the database to the newest schema; harmless when it is there, and from several machines at once."""
    changed = bring_to_head(options.apply(**flags))
    click.echo(f"The database is {'now ' if changed else 'already '}at schema {HEAD}.")
    return 0
