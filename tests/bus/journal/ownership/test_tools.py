"""The catalogue of tools: what living workers have loaded, on each database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import update

from bus.journal.ownership.tools import LoadedTool, ToolMetadata, Tools
from bus.journal.ownership.workers import ALIVE_MS, Workers
from config.database.engine import Database
from config.database.tables import tools
from tests.bus.journal.ownership.test_workers import age, row


def tool(name: str = "clock", **fields: Any) -> LoadedTool:
    defaults: dict[str, Any] = {
        "description": "Tells the time.",
        "input_schema": {"type": "object"},
        "effect": "pure",
        "timeout_s": 60.0,
        "agents": ("assistant",),
    }
    return LoadedTool(name=name, **(defaults | fields))


def start(database: Database, worker_id: str, *loaded: LoadedTool) -> None:
    Workers(database).renew(row(worker_id))
    Tools(database).replace(worker_id, loaded)


ALL = ("a", "assistant", "b", "c", "other")


def names(database: Database, agents: Sequence[str] = ALL) -> list[tuple[str, list[str]]]:
    return [(entry["name"], entry["agents"]) for entry in Tools(database).listed(agents)]


def test_the_tools_of_living_workers_are_listed_once(database: Database) -> None:
    start(database, "own_1", tool(), tool("files", agents=("a", "b")))
    start(database, "own_2", tool(agents=("other",)), tool("files", agents=("b",)))

    assert names(database) == [("clock", ["assistant", "other"]), ("files", ["a", "b"])]


def test_a_tool_goes_with_the_last_worker_that_has_it(database: Database) -> None:
    start(database, "own_1", tool(), tool("old"))
    start(database, "own_2", tool(), tool("new"))

    Workers(database).forget("own_1")
    after_the_end = names(database)
    start(database, "own_3", tool("old"))
    age(database, "own_3", ALIVE_MS + 1)

    assert after_the_end == names(database) == [("clock", ["assistant"]), ("new", ["assistant"])]


def test_without_a_living_worker_the_tools_of_the_last_ones_are_listed(database: Database) -> None:
    start(database, "own_1", tool("old"))
    start(database, "own_2", tool())
    Workers(database).forget("own_1")
    Workers(database).forget("own_2")
    without = names(database)
    start(database, "own_3", tool("new"))

    assert without == [("clock", ["assistant"])]
    assert names(database) == [("new", ["assistant"])]


def test_two_versions_of_a_tool_have_two_digests(database: Database) -> None:
    start(database, "own_1", tool(), tool(effect="unsafe", agents=("b",)), tool(timeout_s=5.0, agents=("c",)))

    entries = Tools(database).listed(ALL)

    assert len({entry["digest"] for entry in entries}) == 3
    assert {entry["effect"] for entry in entries} == {"pure", "unsafe"}


def test_the_tools_of_some_agents_are_listed_with_those_agents(database: Database) -> None:
    start(database, "own_1", tool(agents=("a", "b")), tool("files", agents=("a",)))

    assert names(database, ["b"]) == [("clock", ["b"])]


def test_a_worker_without_tools_lists_none(database: Database) -> None:
    start(database, "own_1")

    assert names(database) == []


def test_the_metadata_is_listed_and_part_of_the_digest(database: Database) -> None:
    tool_metadata = ToolMetadata(
        version="2.0.0", maintainer="a@example.org", roles=("operator",), secrets=("TOKEN",), hosts=()
    )
    start(database, "own_1", tool(), tool(metadata=tool_metadata))

    plain, rich = sorted(Tools(database).listed(ALL), key=lambda entry: str(entry["version"]))

    assert plain["digest"] != rich["digest"]
    assert (plain["version"], plain["classification"], plain["hosts"]) == ("1.0.0", "INTERNAL", None)
    assert (rich["version"], rich["roles"], rich["secrets"], rich["hosts"]) == ("2.0.0", ["operator"], ["TOKEN"], [])


def test_a_row_of_an_older_release_has_the_usual_metadata(database: Database) -> None:
    start(database, "own_1", tool())
    with database.write() as connection:
        connection.execute(update(tools).values(metadata_json=None))

    (entry,) = Tools(database).listed(ALL)

    assert (entry["version"], entry["needs_approval"], entry["labels"]) == ("1.0.0", False, [])
