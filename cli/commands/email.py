"""`./callboard email`: a mailbox whose mails start runs; a client of a running Callboard."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import click

from cli import options
from cli.channel_start import start_of
from cli.main import CallerPath


@click.command()
@click.option("--config", "file", type=CallerPath(dir_okay=False), help="Default: config/channels.yaml.")
@options.host
@click.option("--port", type=options.WholeNumber(1, 65535), default=8005, help="Of /health and /ready; default 8005.")
@options.state_dir
def email(file: Path | None, host: str | None, port: int, state_dir: Path | None) -> None:
    """Answer the mails of a mailbox with an agent, until Ctrl-C or SIGTERM (docs/channels.md)."""
    start = start_of("email", file, state_dir)
    from observers.channels.process import serve_channel

    asyncio.run(serve_channel(start, host or "127.0.0.1", port, partial(click.echo, err=True)))
