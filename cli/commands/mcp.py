"""`./callboard mcp serve`: serve agents and tools to an MCP client on standard input and output."""

from __future__ import annotations

from typing import Any

import click

from cli import options
from cli.opening import open_runner


@click.group()
def mcp() -> None:
    """Serve agents and their tools to clients of the Model Context Protocol."""


@mcp.command()
@options.state_dir
def serve(**flags: Any) -> None:
    """Serve agents and their tools on standard input and output, for the MCP client that starts this command.

    Standard output has protocol messages only; what is wrong is written to standard error. Workers execute the runs;
    where there are none, this process does.
    """
    settings = options.apply(**flags)
    with open_runner(settings, create=True) as runner:
        from cli.mcp.stdio import serve as serve_client

        serve_client(runner)
