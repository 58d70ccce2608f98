"""`./callboard discord`: a bot of Discord whose messages start runs; a client of a running Callboard."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from cli import options
from cli.main import CallerPath
from config.errors import BadRequest
from config.folders import ROOT
from config.logs import configure_logging
from observers.channels.table import load_channels

CLIENT = ROOT / "clients" / "python"
"""The client that this checkout has; its version fits the server's, an installed one may be older."""


@click.command()
@click.option("--config", "file", type=CallerPath(dir_okay=False), help="Default: config/channels.yaml.")
@options.host
@click.option("--port", type=options.WholeNumber(1, 65535), default=8003, help="Of /health and /ready; default 8003.")
@options.state_dir
def discord(file: Path | None, host: str | None, port: int, state_dir: Path | None) -> None:
    """Answer persons on Discord with an agent, until Ctrl-C or SIGTERM (docs/channels.md)."""
    settings = options.apply(state_dir=state_dir)
    file = file or ROOT / "config" / "channels.yaml"
    if not file.exists():
        raise BadRequest(f"{file} does not exist; docs/channels.md shows what it has, --config names another one.")
    fields = load_channels(file)
    configure_logging(settings, "discord")
    sys.path.insert(0, str(CLIENT))
    from observers.channels.process import serve_discord

    asyncio.run(serve_discord(file, fields, settings.state, host or "127.0.0.1", port))
