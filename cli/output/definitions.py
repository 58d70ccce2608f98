"""What the lists of agents and of workflows share: a definition or what is wrong with its file, and its problems."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from agents.registry import AgentRegistry
from bus.journal.stores import AgentVersions
from cli.open_runner import open_database_of
from cli.output.table import Column, Row
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid
from config.definitions.loading import is_of_workflow
from config.errors import CallboardError
from config.settings import Settings
from config.text.visible import visible

if TYPE_CHECKING:
    from agents.checkup import Problem


def look_up(registry: AgentRegistry, agent_id: str) -> AgentDefinition | DefinitionInvalid:
    """Return an agent or a workflow, or what is wrong with its file.

    Raises:
        AgentUnknown: there is no such file.
    """
    try:
        return registry.get(agent_id)
    except DefinitionInvalid as error:
        return error


def listed(registry: AgentRegistry, *, of_workflows: bool, is_all: bool) -> list[AgentDefinition | DefinitionInvalid]:
    """Return the agents, or the workflows, that a list has, and the files of that kind that cannot be used."""
    return [
        definition
        for definition in registry.all()
        if (
            is_of_workflow(definition) == of_workflows
            if isinstance(definition, DefinitionInvalid)
            else definition.is_workflow == of_workflows and (is_all or definition.listed)
        )
    ]


def serving_of(settings: Settings) -> dict[str, int]:
    """Return the versions that serve in place of what files say, by id, and register what the files say.

    There are none where no database is.
    """
    with suppress(CallboardError), open_database_of(settings) as database:
        registry = AgentRegistry(settings.agent_folders, settings.local_principal, AgentVersions(database))
        registry.register()
        return registry.serving()
    return {}


def plain(problem: Problem) -> dict[str, Any]:
    """Return a problem as JSON data."""
    return {name: value for name, value in asdict(problem).items() if value is not None} | {"message": str(problem)}


def has_error(row: Row) -> bool:
    """Return whether every run of a definition fails."""
    return any(problem["severity"] == "error" for problem in row["problems"])


def _mark(row: Row) -> str:
    """Return ✗ if every run of a definition fails, ! if some may, else ✓."""
    return "✗" if has_error(row) else "!" if row["problems"] else "✓"


MARK = Column("", _mark, colour=lambda row: {"✗": "red", "!": "yellow"}.get(_mark(row), "green"))


def print_problems(rows: Sequence[Row]) -> None:
    """Print the problems of definitions on standard error."""
    for row in rows:
        for problem in row["problems"]:
            colour = "red" if problem["severity"] == "error" else "yellow"
            click.echo(f"{click.style(problem['severity'], fg=colour)}: {visible(problem['message'])}", err=True)
