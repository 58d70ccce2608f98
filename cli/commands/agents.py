"""`./callboard agents`: list the agents and check whether each can run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agents.registry import AgentRegistry
from bus.journal.stores import AgentVersions
from cli import options
from cli.commands.agent_versions import diff, promote, rollback, versions_of
from cli.open_runner import open_database_of
from cli.options import CommandGroup
from cli.output.json import print_json
from cli.output.transcript import fit
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid
from config.errors import CallboardError
from config.settings import Settings
from config.text.visible import visible

if TYPE_CHECKING:
    from agents.checkup import Problem

MAX_DESCRIPTION_CHARS = 60


@click.command(
    cls=CommandGroup, members={"versions": versions_of, "diff": diff, "promote": promote, "rollback": rollback}
)
@click.argument("agent_ids", metavar="[AGENT]...", nargs=-1)
@click.option("--quick", is_flag=True, help="Read the files only; import no tool and ask for no model.")
@click.option("--all", "is_all", is_flag=True, help="Also those that no list has (`listed: false`).")
@options.as_json
def agents(agent_ids: tuple[str, ...], quick: bool, is_all: bool, as_json: bool) -> int:
    """List the agents, and check the file, the model and the tools of each; say which versions serve."""
    settings = options.apply()
    registry = AgentRegistry(settings.agent_folders)
    definitions = [_look_up(registry, agent_id) for agent_id in agent_ids] or [
        definition
        for definition in registry.all()
        if is_all or isinstance(definition, DefinitionInvalid) or definition.listed
    ]
    serving = {} if quick else _serving(settings)
    rows = [_row(settings, definition, serving, deep=not quick) for definition in definitions]
    if as_json:
        print_json(rows)
    else:
        _print(rows, settings)
    return 1 if any(map(_has_error, rows)) else 0


def _look_up(registry: AgentRegistry, agent_id: str) -> AgentDefinition | DefinitionInvalid:
    try:
        return registry.get(agent_id)
    except DefinitionInvalid as error:
        return error


def _serving(settings: Settings) -> dict[str, int]:
    """Return the versions that serve in place of what files say, by agent, and register what the files say.

    There are none where no database is.
    """
    with suppress(CallboardError), open_database_of(settings) as database:
        registry = AgentRegistry(settings.agent_folders, settings.local_principal, AgentVersions(database))
        registry.register()
        return registry.serving()
    return {}


def _row(
    settings: Settings, definition: AgentDefinition | DefinitionInvalid, serving: Mapping[str, int], *, deep: bool
) -> dict[str, Any]:
    from agents.checkup import deep_check, problem_of

    if isinstance(definition, DefinitionInvalid):
        problem = problem_of(definition)
        version = serving.get(Path(problem.file).stem)
        return {"id": None, "file": problem.file, "version": version, "problems": [_plain(problem)]}
    return {
        "version": serving.get(definition.id),
        "id": definition.id,
        "name": definition.name,
        "model": definition.model,
        "description": definition.description,
        "tools": list(definition.tools),
        "problems": [_plain(problem) for problem in deep_check(definition, settings, None, serving)] if deep else [],
    }


def _plain(problem: Problem) -> dict[str, Any]:
    return {name: value for name, value in asdict(problem).items() if value is not None} | {"message": str(problem)}


def _has_error(row: dict[str, Any]) -> bool:
    return any(problem["severity"] == "error" for problem in row["problems"])


def _print(rows: list[dict[str, Any]], settings: Settings) -> None:
    if not rows:
        folders = ", ".join(str(folder) for folder in settings.agent_folders)
        click.echo(f"There are no agents in {folders}; add a YAML file, its name is the agent's id.")
        return
    cells = [_cells(row) for row in rows]
    width = max(len(name) for name, _, _ in cells)
    model_width = max(len(model) for _, model, _ in cells)
    for row, (name, model, summary) in zip(rows, cells, strict=True):
        click.echo(f"{_mark(row)} {name:<{width}}  {model:<{model_width}}  {summary}")
    for row in rows:
        for problem in row["problems"]:
            colour = "red" if problem["severity"] == "error" else "yellow"
            click.echo(f"{click.style(problem['severity'], fg=colour)}: {visible(problem['message'])}", err=True)


def _mark(row: dict[str, Any]) -> str:
    """Return ✗ if every run of the agent fails, ! if some may, else ✓."""
    if _has_error(row):
        return click.style("✗", fg="red")
    return click.style("!", fg="yellow") if row["problems"] else click.style("✓", fg="green")


def _cells(row: dict[str, Any]) -> tuple[str, str, str]:
    """Return name, model and description; only the name for a file that cannot be read."""
    serves = f"version {row['version']} serves" if row["version"] is not None else ""
    if row["id"] is None:
        return visible(Path(row["file"]).stem), "", f"does not load; {serves}" if serves else "does not load"
    description = visible((row["description"] or "").split("\n")[0])
    summary = fit(description, MAX_DESCRIPTION_CHARS)
    return row["id"], visible(row["model"]), f"{summary} ({serves})".lstrip() if serves else summary
