"""`./callboard workers`: list the living workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from bus.journal.stores import Workers
from cli import options
from cli.mcp.servers import state_text
from cli.open_runner import open_database_of
from cli.output.json import print_json
from config.text.visible import visible


@click.command()
@options.as_json
@options.state_dir
def workers(as_json: bool, **flags: object) -> int:
    """List the living workers: machine, process, runs, queues, given-up calls that have not ended, MCP servers."""
    with open_database_of(options.apply(**flags)) as database:
        fleet = Workers(database).alive()
    if as_json:
        print_json(fleet)
    elif not fleet:
        click.echo("no worker is alive; start one with `./callboard up` or `./callboard worker`.")
    else:
        for worker in fleet:
            _say(worker)
    return 0


def _say(worker: Mapping[str, Any]) -> None:
    queues = ", ".join(map(visible, worker["queues"])) or "its default queue"
    process = f"{visible(worker['host'])} process {worker['pid']}"
    click.echo(f"{process}  {worker['pool']}  {worker['busy']} of {worker['slots']} runs  {queues}")
    for observer, number in worker["dropped"].items():
        click.secho(f"  {number} events were dropped for observer {visible(observer)}, which is too slow", fg="yellow")
    for tool, number in worker["abandoned"].items():
        click.secho(f"  {number} calls of {visible(tool)} were given up and have not ended", fg="yellow")
    for variables, agents in worker["missing_keys"].items():
        click.secho(f"  {visible(variables)} is not set; {', '.join(map(visible, agents))} need it", fg="yellow")
    for name, server_state in worker["mcp_servers"].items():
        if server_state["state"] != "disabled":
            click.echo(f"  MCP server {visible(name)}: {state_text(server_state)}")
