"""Checks of the agents' versions, and of the waiting runs whose version no worker can continue."""

from __future__ import annotations

from contextlib import suppress

from agents.registry import AgentRegistry
from bus.journal.readers import Runs
from bus.journal.stores import AgentVersions
from config.database.engine import Database
from config.definitions.errors import DefinitionInvalid
from config.settings import Settings
from config.text.visible import visible
from web.doctor import Verdicts, ok, warn
from web.doctor.database import reading_database

SHOWN_RUNS = 20
"""Waiting runs that are named; the others are counted."""


@reading_database
def check_versions(settings: Settings, database: Database) -> Verdicts:
    """Yield which agents serve another version than their file says; ``check_agents`` says what is wrong with files."""
    registry = AgentRegistry(settings.agent_folders, settings.local_principal, AgentVersions(database))
    served = [agent for agent in registry.usable() if agent.version is not None]
    for agent in served:
        if agent.problem:
            yield warn(
                f"{agent.id}: its file cannot be used, so version {agent.version} serves; mend {agent.file}, or say "
                f"which version should: `./callboard agents promote {agent.id} VERSION`"
            )
        elif _digest_in_file(registry, agent.id) != agent.digest:
            yield ok(f"{agent.id}: version {agent.version} is stable, and its file says another")
    if not served:
        yield ok("new runs get what the agents' files say")


def _digest_in_file(registry: AgentRegistry, agent_id: str) -> str:
    with suppress(DefinitionInvalid):
        return registry.in_file(agent_id).digest
    return ""


@reading_database
def check_waiting_runs(settings: Settings, database: Database) -> Verdicts:
    """Yield the runs that wait since no worker that lives has the definition, the tools or the code they need."""
    rows = Runs(database).waiting_for_code(SHOWN_RUNS + 1)
    for row in rows[:SHOWN_RUNS]:
        lacks = visible(row.detail or "its worker's code does not fit its journal.").rstrip(".")
        yield warn(
            f"{row.id} of '{row.agent_id}' waits for a worker that can continue it: {lacks}. Start one that can, or "
            f"move the run to today's version: `./callboard runs upgrade {row.id}`"
        )
    if len(rows) > SHOWN_RUNS:
        yield warn("more runs wait for other code: `./callboard runs --why` names them")
    if not rows:
        yield ok("none waits for other code")
