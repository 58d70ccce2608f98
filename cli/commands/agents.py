"""`./callboard agents`: list the agents and check whether each can run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from agents.errors import WORKFLOW_MISSED
from agents.registry import AgentRegistry
from cli import options
from cli.commands.agent_versions import diff, promote, rollback, versions_of
from cli.options import CommandGroup
from cli.output.definitions import has_error, listed, look_up, mark_of_row, plain, print_problems, serving_of
from cli.output.json import print_json
from cli.output.transcript import fit
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid
from config.settings import Settings
from config.text.visible import visible

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
    definitions = [_look_up(registry, agent_id) for agent_id in agent_ids]
    definitions = definitions or listed(registry, of_workflows=False, is_all=is_all)
    serving = {} if quick else serving_of(settings)
    rows = [_row(settings, definition, serving, deep=not quick) for definition in definitions]
    if as_json:
        print_json(rows)
    else:
        _print(rows, settings)
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


def _print(rows: list[dict[str, Any]], settings: Settings) -> None:
    if not rows:
        folders = ", ".join(str(folder) for folder in settings.agent_folders)
        click.echo(f"There are no agents in {folders}; add a YAML file, its name is the agent's id.")
        return
    cells = [_cells(row) for row in rows]
    width = max(len(name) for name, _, _ in cells)
    model_width = max(len(model) for _, model, _ in cells)
    for row, (name, model, summary) in zip(rows, cells, strict=True):
        click.echo(f"{mark_of_row(row)} {name:<{width}}  {model:<{model_width}}  {summary}")
    print_problems(rows)


def _cells(row: dict[str, Any]) -> tuple[str, str, str]:
    """Return name, model and description; only the name for a file that cannot be read."""
    serves = f"version {row['version']} serves" if row["version"] is not None else ""
    if row["id"] is None:
        return visible(Path(row["file"]).stem), "", f"does not load; {serves}" if serves else "does not load"
    description = visible((row["description"] or "").split("\n")[0])
    summary = fit(description, MAX_DESCRIPTION_CHARS)
    return row["id"], visible(row["model"]), f"{summary} ({serves})".lstrip() if serves else summary
