"""`./callboard workers`: list the living workers."""

from __future__ import annotations

from collections.abc import Iterator

import click

from bus.journal.stores import Workers
from cli import options
from cli.mcp.servers import state_text
from cli.open_runner import open_database_of
from cli.output.table import Column, Form, Note, Row, Table


def _load(worker: Row) -> str:
    return f"{worker['busy']} of {worker['slots']}"


def _queues(worker: Row) -> str:
    return ", ".join(worker["queues"]) or "its default queue"


def _notes(worker: Row) -> Iterator[Note]:
    for observer, number in worker["dropped"].items():
        yield f"{number} events were dropped for observer {observer}, which is too slow", "yellow"
    for tool, number in worker["abandoned"].items():
        yield f"{number} calls of {tool} were given up and have not ended", "yellow"
    for variables, agents in worker["missing_keys"].items():
        needs = "needs" if len(agents) == 1 else "need"
        yield f"{variables} is not set; {', '.join(agents)} {needs} it", "yellow"
    for name, server_state in worker["mcp_servers"].items():
        if server_state["state"] != "disabled":
            yield f"MCP server {name}: {state_text(server_state)}", None


WORKERS = Table(
    "worker_id",
    (
        Column("WORKER", "worker_id"),
        Column("HOST", "host", worth=90),
        Column("PROCESS", "pid", worth=80, is_number=True),
        Column("POOL", "pool", worth=50),
        Column("RUNS", _load),
        Column("QUEUES", _queues),
    ),
    _notes,
)


@click.command()
@click.argument("worker_id", type=options.WORKER, required=False, metavar="[WORKER]")
@options.listing
@options.state_dir
def workers(worker_id: str | None, form: Form, **flags: object) -> int:
    """List the living workers: machine, process, runs, queues, given-up calls that have not ended, MCP servers."""
    with open_database_of(options.apply(**flags)) as database:
        fleet = [row for row in Workers(database).alive() if worker_id in (None, row["worker_id"])]
    if worker_id is not None and not fleet:
        raise click.UsageError(f"no living worker is '{worker_id[:80]}'; `./callboard workers` lists them.")
    empty = "no worker is alive; start one with `./callboard up` or `./callboard worker`."
    WORKERS.print(fleet, form, empty=empty)
    return 0
