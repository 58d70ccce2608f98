"""`./callboard tools`: list the tools of the agents; `tools call` makes one call without an agent's turn."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from agents.compatibility import LoadedAgent, try_load
from agents.errors import ArgumentsInvalid
from agents.handle import RunHandle
from agents.process import Process, current_process
from agents.runner import Runner
from agents.tools.schema import MAX_BYTES, parse_arguments
from bus.journal.stores import LoadedTool
from cli import options
from cli.open_runner import open_runner
from cli.options import CommandGroup
from cli.output.following import follow, leave_to_workers
from cli.output.table import Column, Form, Table
from cli.output.transcript import WAITING
from config.text.visible import visible
from handlers.worker.tool_catalogue import loaded_tools


@click.command()
@click.argument("name")
@click.argument("arguments", metavar="[JSON]", default="{}")
@click.option(
    "--agent",
    "agent_id",
    type=options.AGENT,
    metavar="A",
    help="The agent whose tool it is; default CALLBOARD_DEFAULT_AGENT.",
)
@click.option("--detach", is_flag=True, help="Leave the call to the workers, print its run's id and return.")
@options.no_wait
@options.grant
@options.as_json
@options.state_dir
def call(
    name: str,
    arguments: str,
    agent_id: str | None,
    detach: bool,
    no_wait: bool,
    grant: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Call the tool NAME of an agent with JSON, an object; - reads it from standard input.

    The result goes to standard output, progress to standard error; --json prints the events of the call's run.
    Ctrl-C stops the call.
    """
    values = typed_arguments(sys.stdin.read(MAX_BYTES + 1) if arguments == "-" else arguments)
    with open_runner(options.apply(**flags), create=True) as runner:
        handle = runner.call_tool(name, values, agent_id=agent_id, detached=detach, grant=grant)
        return call_and_follow(runner, handle, detach=detach, no_wait=no_wait, as_json=as_json)


def call_and_follow(runner: Runner, handle: RunHandle, *, detach: bool, no_wait: bool, as_json: bool) -> int:
    """Print what becomes of an accepted call, and return the exit status."""
    if detach:
        return leave_to_workers(runner, handle, as_json)
    status = follow(handle, as_json=as_json, is_stoppable=True, no_wait=no_wait)
    if status != WAITING:  # a run that waits for a person has nothing to settle
        with contextlib.suppress(TimeoutError):
            runner.settle(5.0)
    return status


def typed_arguments(text: str) -> dict[str, Any]:
    """Return the arguments that were typed.

    Raises:
        UsageError: they are no JSON object.
    """
    try:
        return parse_arguments(text)
    except ArgumentsInvalid as error:
        raise click.UsageError(str(error)) from error


TOOLS = Table(
    "name",
    (
        Column("TOOL", "name"),
        Column("EFFECT", "effect", worth=90),
        Column("AGENTS", lambda tool: ", ".join(tool["agents"]), worth=80),
        Column("TIMEOUT", lambda tool: f"{tool['timeout_s']:g} s", is_wide=True, is_number=True),
        Column("DESCRIPTION", lambda tool: tool["description"].split("\n")[0]),
    ),
)


@click.command(cls=CommandGroup, members={"call": call})
@click.option("--agent", "agent_id", type=options.AGENT, metavar="A", help="Only the tools of this agent.")
@options.listing
@options.state_dir
def tools(agent_id: str | None, form: Form, **flags: Any) -> int:
    """List the tools of the agents, as this process loads them, with what a call of each may change."""
    with open_runner(options.apply(**flags), create=True) as runner:
        if agent_id is not None:
            runner.registry.get(agent_id)
        chosen = [tool.id for tool in runner.registry.seen_by(runner.principal) if agent_id in (None, tool.id)]
        loaded = sorted(loaded_tools(_loadable(current_process(), chosen)), key=lambda tool: (tool.name, tool.digest))
    rows = [_shown(tool) for tool in loaded]
    TOOLS.print(rows, form, empty="These agents have no tools; name some under `tools:` of a definition.")
    return 0


def _loadable(process: Process, agent_ids: list[str]) -> list[LoadedAgent]:
    """Return the agents that can be loaded; the others are warned of."""
    loaded = []
    for agent_id in agent_ids:
        agent = try_load(process, agent_id)
        if isinstance(agent, tuple):
            loaded.append(agent)
        else:
            click.secho(visible(f"warning: agent '{agent_id}' is left out: {agent}"), err=True, fg="yellow")
    return loaded


def _shown(tool: LoadedTool) -> dict[str, Any]:
    facts = {name: getattr(tool, name) for name in ("name", "description", "input_schema", "effect", "timeout_s")}
    return facts | {"agents": sorted(tool.agents)}
