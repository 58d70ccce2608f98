"""`./callboard agents`: list the agents and check whether each can run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import orjson

from agents.compatibility import try_load
from agents.errors import WORKFLOW_MISSED
from agents.models.auto import resolve_model
from agents.process import current_process
from agents.registry import AgentRegistry
from cli import options
from cli.commands.agent_versions import VERSIONS, diff, promote, rollback, versions_of
from cli.open_runner import open_runner
from cli.options import CommandGroup
from cli.output.definitions import MARK, has_error, listed, look_up, plain, print_problems, serving_of
from cli.output.json import print_json
from cli.output.question import effect_words
from cli.output.quoted import INDENT, columns, hanging
from cli.output.table import Column, Form, Row, Table
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid
from config.settings import Settings
from config.text.visible import visible
from web.doctor.agents import hidden_files


def _summary(row: Row) -> str:
    serves = f"version {row['version']} serves" if row["version"] is not None else ""
    if row["id"] is None:
        return f"does not load; {serves}" if serves else "does not load"
    summary = (row["description"] or "").split("\n")[0]
    return f"{summary} ({serves})".lstrip() if serves else summary


AGENTS = Table(
    "id",
    (
        MARK,
        Column("AGENT", lambda row: row["id"] or Path(row["file"]).stem),
        Column("MODEL", "model", worth=80),
        Column("TOOLS", lambda row: ", ".join(row["tools"]), is_wide=True),
        Column("DESCRIPTION", _summary),
    ),
)


@click.command("show")
@click.argument("agent_id", type=options.AGENT, metavar="AGENT")
@options.as_json
@options.state_dir
def show(agent_id: str, as_json: bool, **flags: object) -> int:
    """Show AGENT: its model, tools, limits, versions and problems. The exit status is 1 if no run can succeed."""
    with open_runner(options.apply(**flags), create=True) as runner:
        registry = runner.registry
        definition = _look_up(registry, agent_id)
        registry.register()
        row = _row(runner.settings, definition, registry.serving(), deep=True) | {
            "versions": registry.versions(agent_id)
        }
        loaded = try_load(current_process(), agent_id)
        tools = loaded[1].values() if isinstance(loaded, tuple) else ()
    facts = [{"name": tool.name, "effect": str(tool.effect), "timeout_s": tool.timeout_s} for tool in tools]
    if isinstance(definition, AgentDefinition):
        row |= {"file": definition.file, "definition": orjson.loads(definition.content_json), "tools": facts}
    if as_json:
        print_json(row)
    else:
        _print_agent(row, definition)
        print_problems([row])
    return 1 if has_error(row) else 0


def _print_agent(row: dict[str, Any], definition: AgentDefinition | DefinitionInvalid) -> None:
    if isinstance(definition, DefinitionInvalid):
        return
    click.secho(f"{visible(definition.name)} ({definition.id})", bold=True)
    for line in visible(definition.description).splitlines():
        click.echo(hanging(INDENT + line, columns() or 80))
    model, limits = resolve_model(definition.model, os.environ), definition.timeouts
    facts = {
        "file": definition.file,
        "model": definition.model if model == definition.model else f"{definition.model}, which is {model}",
        "fallbacks": ", ".join(fallback.model for fallback in definition.fallbacks),
        "address": definition.api_base,
        "rounds": f"at most {definition.max_iterations} with tools",
        "timeouts": f"first token {limits.first_token_s:g} s, call {limits.total_s:g} s, tool {limits.tool_s:g} s",
        "if busy": definition.if_busy,
        "queue": definition.queue or "the default queue",
        "observers": ", ".join(definition.observers),
    }
    for name, fact in facts.items():
        if fact:
            click.echo(hanging(f"{INDENT}{name:<10} {visible(str(fact))}", columns() or 80))
    for title, table, rows in (("Tools", AGENT_TOOLS, row["tools"]), ("Versions", VERSIONS, row["versions"])):
        if rows:
            click.secho(f"\n{title}", bold=True)
            table.print(rows, "table")


AGENT_TOOLS = Table(
    "name",
    (
        Column("TOOL", "name"),
        Column("TIMEOUT", lambda tool: f"{tool['timeout_s']:g} s" if tool["timeout_s"] else None, is_number=True),
        Column("EFFECT", lambda tool: effect_words(tool["effect"]) or tool["effect"]),
    ),
)
MEMBERS = {"show": show, "versions": versions_of, "diff": diff, "promote": promote, "rollback": rollback}


@click.command(cls=CommandGroup, members=MEMBERS)
@click.argument("agent_ids", type=options.AGENT, metavar="[AGENT]...", nargs=-1)
@click.option("--quick", is_flag=True, help="Read the files only; import no tool and ask for no model.")
@click.option("--all", "is_all", is_flag=True, help="Also those that no list has (`listed: false`).")
@options.listing
def agents(agent_ids: tuple[str, ...], quick: bool, is_all: bool, form: Form) -> int:
    """List the agents, and check the file, the model and the tools of each; say which versions serve."""
    settings = options.apply()
    registry = AgentRegistry(settings.agent_folders)
    definitions = [_look_up(registry, agent_id) for agent_id in agent_ids]
    definitions = definitions or listed(registry, of_workflows=False, is_all=is_all)
    serving = {} if quick else serving_of(settings)
    rows = [_row(settings, definition, serving, deep=not quick) for definition in definitions]
    folders = ", ".join(str(folder) for folder in settings.agent_folders)
    AGENTS.print(rows, form, empty=f"There are no agents in {folders}; add a YAML file, its name is the agent's id.")
    if form in ("table", "wide"):
        print_problems(rows)
        for _, sentence in hidden_files(registry, agent_ids):
            click.echo(f"{click.style('warning', fg='yellow')}: {visible(sentence)}", err=True)
    return 1 if any(map(has_error, rows)) else 0


def _look_up(registry: AgentRegistry, agent_id: str) -> AgentDefinition | DefinitionInvalid:
    """Return an agent, or what is wrong with its file.

    Raises:
        AgentUnknown: there is none.
        WORKFLOW_MISSED: the id is a workflow's.
    """
    definition = look_up(registry, agent_id)
    if isinstance(definition, AgentDefinition) and definition.is_workflow:
        problem = f"'{agent_id}' is a workflow; `./callboard workflows {agent_id}` shows it."
        raise WORKFLOW_MISSED(problem=problem)
    return definition


def _row(
    settings: Settings, definition: AgentDefinition | DefinitionInvalid, serving: Mapping[str, int], *, deep: bool
) -> dict[str, Any]:
    from agents.checkup import deep_check, problem_of

    if isinstance(definition, DefinitionInvalid):
        problem = problem_of(definition)
        version = serving.get(Path(problem.file).stem)
        return {"id": None, "file": problem.file, "version": version, "problems": [plain(problem)]}
    return {
        "version": serving.get(definition.id),
        "id": definition.id,
        "name": definition.name,
        "model": definition.model,
        "description": definition.description,
        "tools": list(definition.tools),
        "problems": [plain(problem) for problem in deep_check(definition, settings, None, serving)] if deep else [],
    }
