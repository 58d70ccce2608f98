"""`./callboard mcp`: the MCP servers that agents use, and Callboard as a server of other programs."""

from __future__ import annotations

import sys
from typing import Any

import click

from agents.tools.schema import MAX_BYTES
from cli import options
from cli.commands.tools import call_and_follow, typed_arguments
from cli.mcp.login import login, logout
from cli.open_runner import open_runner
from cli.output.json import print_json
from cli.output.table import Form
from config.text.visible import visible


@click.group()
def mcp() -> None:
    """List, try and inspect the MCP servers that agents use; serve agents and tools to MCP clients."""


@mcp.command()
@options.listing
@options.state_dir
def servers(form: Form, **flags: Any) -> int:
    """List the MCP servers: their state in the workers, their pinned tools, and what has changed.

    Starts no server. The exit status is 1 if a file cannot be used.
    """
    from cli.mcp.servers import SERVERS, no_servers, server_rows

    with open_runner(options.apply(**flags), create=True) as runner:
        settings = runner.settings
        rows = server_rows(settings, runner.journal)
        has_workers = bool(runner.journal.stores.workers.alive())
    SERVERS.print(rows, form, empty=no_servers(settings))
    if rows and not has_workers and form in ("table", "wide"):
        click.secho("no worker is alive, so the states are those of the files", err=True, dim=True)
    return 1 if any(row["state"] == "invalid" for row in rows) else 0


@mcp.command()
@click.argument("server", required=False)
@options.as_json
@options.state_dir
def tools(server: str | None, as_json: bool, **flags: Any) -> int:
    """List the tools of SERVER, or of all servers, as agents get them, and which definitions have changed.

    Asks the servers now, and starts those on stdio for it. The exit status is 1 if one does not answer.
    """
    from cli.mcp.servers import no_servers, server_of
    from cli.mcp.tools import ask_all, print_tools, tool_rows, users_of
    from config.definitions.mcp.server import read_servers

    with open_runner(options.apply(**flags), create=True) as runner:
        settings, journal = runner.settings, runner.journal
        servers = read_servers(settings.mcp_servers_folders)[0].values()
        chosen = (
            [definition for definition in servers if not definition.disabled]
            if server is None
            else [server_of(server, settings)]
        )
        answers = journal.loop.run(ask_all(chosen, settings.tenant))
        users = users_of(journal, [definition.id for definition in runner.registry.seen_by(runner.principal)])
        listed = [
            (definition, tool_rows(definition, answer, journal, users), len(answer[0]) + len(answer[1]))
            for definition, answer in zip(chosen, answers, strict=True)
            if not isinstance(answer, str)
        ]
    problems = [answer for answer in answers if isinstance(answer, str)]
    if as_json:
        print_json([row for _, rows, _ in listed for row in rows])
    elif servers and not chosen:
        click.echo("all MCP servers are disabled; remove `disabled: true` from the file of one.")
    elif not chosen:
        click.echo(no_servers(settings))
    for definition, rows, number in listed if not as_json else ():
        print_tools(definition, rows, number)
    for problem in problems:
        click.secho(f"error: {visible(problem)}", err=True, fg="red")
    return 1 if problems else 0


@mcp.command()
@click.argument("server")
@click.argument("tool")
@click.argument("text_argument", metavar="[JSON]", required=False)
@click.option("--arguments", metavar="JSON", help="The same as JSON; - reads them from standard input.")
@click.option(
    "--agent",
    "agent_id",
    type=options.AGENT,
    metavar="A",
    help="The agent as whose tool it is called, with its overrides.",
)
@click.option("--detach", is_flag=True, help="Leave the call to the workers, print its run's id and return.")
@options.no_wait
@options.as_json
@options.state_dir
def call(
    server: str,
    tool: str,
    text_argument: str | None,
    arguments: str | None,
    agent_id: str | None,
    detach: bool,
    no_wait: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Call TOOL of SERVER with JSON, an object; TOOL is its name at the server.

    The call is a run, as those of `tools call`: checked, approved and recorded. The result goes to standard output.
    """
    from cli.mcp.servers import server_of
    from cli.mcp.tools import chosen_tool

    if text_argument is not None and arguments is not None:
        raise click.UsageError("write the arguments once: as JSON behind the tool's name, or as --arguments.")
    text = text_argument if text_argument is not None else arguments if arguments is not None else "{}"
    values = typed_arguments(sys.stdin.read(MAX_BYTES + 1) if text == "-" else text)
    with open_runner(options.apply(**flags), create=True) as runner:
        server_of(server, runner.settings)
        name, agent = chosen_tool(runner, server, tool, agent_id)
        handle = runner.call_tool(name, values, agent=agent, detached=detach)
        return call_and_follow(runner, handle, detach=detach, no_wait=no_wait, as_json=as_json)


@mcp.command()
@click.argument("server")
@options.as_json
@options.state_dir
def inspect(server: str, as_json: bool, **flags: Any) -> int:
    """Connect to SERVER now: what it says of itself, what it has, how long it takes, or why it cannot be used."""
    from cli.mcp.inspection import inspected, print_inspected
    from cli.mcp.servers import server_of

    with open_runner(options.apply(**flags), create=True) as runner:
        chosen = server_of(server, runner.settings)
        facts = runner.journal.loop.run(inspected(chosen, runner.settings.tenant))
    if as_json:
        print_json(facts)
    else:
        print_inspected(facts)
    return 1 if "problem" in facts else 0


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


mcp.add_command(login)
mcp.add_command(logout)
