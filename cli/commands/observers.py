"""`./callboard observers`: list the observers that tail the log, and pause, reset and remove them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import click

from bus.journal.tailing import ObserverCursors, dead_letters, feed_again, observer_states
from cli import options
from cli.open_runner import open_database_of
from cli.options import CommandGroup
from cli.output.durations import lasting
from cli.output.json import print_json
from cli.output.table import Column, Form, Note, Row, Table
from config.clock import epoch_ms, stamp
from config.database.engine import Database
from config.text.names import did_you_mean
from observers.tailing.declared import START_FORM, is_start


class Start(click.ParamType[str]):
    """Where an observer starts."""

    name = "PLACE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_start(str(value)):
            self.fail(f"'{str(value)[:80]}' has to be {START_FORM}.", param, ctx)
        return str(value)


START = Start()


@click.command()
@click.argument("name")
@options.state_dir
def pause(name: str, **flags: Any) -> int:
    """Feed the observer no further, within a second; the log is kept for it."""
    with open_database_of(options.apply(**flags)) as database:
        ObserverCursors(database).pause(name, is_paused=True)
    click.echo(f"'{name}' is paused; `./callboard observers resume {name}` continues.")
    return 0


@click.command()
@click.argument("name")
@options.state_dir
def resume(name: str, **flags: Any) -> int:
    """Feed the observer again, from where it was paused."""
    with open_database_of(options.apply(**flags)) as database:
        ObserverCursors(database).pause(name, is_paused=False)
    click.echo(f"'{name}' continues.")
    return 0


@click.command()
@click.argument("name")
@click.option("--from", "start", type=START, required=True, help=f"Where it continues: {START_FORM}.")
@options.yes
@options.state_dir
def reset(name: str, start: str, yes: bool, **flags: Any) -> int:
    """Set the observer's cursors, back to feed it the past again, or forward to leave events out."""
    with open_database_of(options.apply(**flags)) as database:
        if not yes:
            options.confirm(f"set '{name}' to {start}? It gets what follows from there, also what it has had.")
        position = ObserverCursors(database).reset(name, start)
    click.echo(f"'{name}' continues behind position {position}.")
    return 0


@click.command("rm")
@click.argument("name")
@options.yes
@options.state_dir
def remove(name: str, yes: bool, **flags: Any) -> int:
    """Forget the observer, its cursors and its letters; the log is kept for it no longer."""
    with open_database_of(options.apply(**flags)) as database:
        if not yes:
            options.confirm(f"forget the cursors and letters of '{name}'?")
        ObserverCursors(database).remove(name)
    click.echo(f"'{name}' is forgotten.")
    return 0


def _next(letter: Row) -> str:
    if letter["next_ms"] is None:
        return "dead"
    wait = lasting(max(0, letter["next_ms"] - epoch_ms()))
    return "again when it is resumed" if letter["is_paused"] else f"again in {wait}"


LETTERS = Table(
    "id",
    (
        Column("LETTER", "id", is_number=True),
        Column("RUN", "run_id"),
        Column("EVENT", "seq", worth=60, is_number=True),
        Column("TYPE", "type", worth=80),
        Column("ATTEMPTS", "attempts", worth=70, is_number=True),
        Column("FIRST", lambda letter: stamp(letter["first_ms"]), worth=50, is_time=True, is_number=True),
        Column("NEXT", _next, colour=lambda letter: "red" if letter["next_ms"] is None else "yellow"),
    ),
    notes=lambda letter: [(letter["error"], None)],
)


@click.command()
@click.argument("name")
@options.listing
@options.state_dir
def letters(name: str, form: Form, **flags: Any) -> int:
    """List the deliveries that failed: those that are tried again, and dead letters."""
    with open_database_of(options.apply(**flags)) as database:
        _require(database, name)
        with database.read() as connection:
            rows = dead_letters(connection, name)
            state = next(state for state in observer_states(connection) if state.name == name)
    if form == "json":
        print_json([_as_json(row) for row in rows])
        return 0
    empty = f"no delivery to '{name}' has failed. It is {_behind(asdict(state))}."
    LETTERS.print([row | {"is_paused": state.state == "paused"} for row in rows], form, empty=empty)
    return 0


@click.command()
@click.argument("name")
@click.argument("ids", metavar="[LETTER...]", type=int, nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All of them.")
@options.state_dir
def feed(name: str, ids: tuple[int, ...], is_all: bool, **flags: Any) -> int:
    """Deliver dead letters once more, and now those that are tried again later."""
    if is_all == bool(ids):
        raise click.UsageError(f"name letters, as `./callboard observers letters {name}` lists them, or --all.")
    with open_database_of(options.apply(**flags)) as database:
        _require(database, name)
        with database.write() as connection:
            count = feed_again(connection, name, None if is_all else ids)
    if not count and ids:
        raise click.UsageError(f"'{name}' has no such letter; `./callboard observers letters {name}` lists them.")
    which = "1 is" if count == 1 else f"{count} are"
    click.echo(f"{which} delivered again; `./callboard observers letters {name}` says what became of that.")
    return 0


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    next_ms = row["next_ms"]
    times = {"first_at": stamp(row["first_ms"]), "next_at": stamp(next_ms) if next_ms is not None else None}
    return {name: value for name, value in row.items() if not name.endswith("_ms")} | times


def _require(database: Database, name: str) -> None:
    """Check that there is such an observer, with a suggestion where the name is misspelt."""
    with database.read() as connection:
        names = [state.name for state in observer_states(connection)]
    if name not in names:
        raise click.UsageError(f"no observer '{name[:80]}' tails the log.{did_you_mean(name, names)}")


def _behind(state: Row) -> str:
    if not state["behind_s"]:
        return "up to date"
    count = "1 event" if state["behind"] == 1 else f"{state['behind']} events"
    return f"{lasting(int(state['behind_s'] * 1000))} behind" + (f" ({count} at most)" if state["behind"] else "")


def _notes(state: Row) -> Iterator[Note]:
    if state["retrying"]:
        is_one = state["retrying"] == 1
        yield (
            "1 failed delivery is tried again" if is_one else f"{state['retrying']} failed deliveries are tried again",
            "yellow",
        )
    if state["dead"]:
        letters_, them = ("1 dead letter", "it") if state["dead"] == 1 else (f"{state['dead']} dead letters", "them")
        yield f"{letters_}; `./callboard observers letters {state['name']}` lists {them}", "red"
    if state["dropped"]:
        yield f"{state['dropped']} events were dropped", "yellow"
    if state["state"] == "stopped":
        yield f"no process feeds it; `./callboard observe {state['name']}` does", None


def _all_notes(state: Row) -> Iterator[Note]:
    yield from _notes(state)
    yield f"class: {state['class_path']}", None
    for part, names in state["selection"].items():
        yield f"{part}: {', '.join(names)}", None
    yield f"position: {state['position']}", None
    for thread, count in Counter((each["host"], each["pid"], each["version"]) for each in state["threads"]).items():
        host, pid, version = thread
        threads = f", {count} threads" if count > 1 else ""
        yield f"fed by {host} process {pid}, release {version}{threads}", None


_COLOURS = {"running": "green", "stopped": "red"}
OBSERVERS = Table(
    "name",
    (
        Column("OBSERVER", "name"),
        Column("STATE", "state", colour=lambda state: _COLOURS.get(state["state"], "yellow")),
        Column("DELIVERY", "delivery", worth=50),
        Column("DELIVERED", "delivered", worth=60, is_number=True),
        Column("BEHIND", _behind),
    ),
    _notes,
)
MEMBERS = {"pause": pause, "resume": resume, "reset": reset, "rm": remove, "letters": letters, "feed": feed}


@click.command(cls=CommandGroup, members=MEMBERS)
@click.argument("name", required=False)
@options.listing
@options.state_dir
def observers(name: str | None, form: Form, **flags: Any) -> int:
    """List the observers that tail the log: how far each is, who feeds it, and what it did not take."""
    with open_database_of(options.apply(**flags)) as database:
        if name is not None:
            _require(database, name)
        with database.read() as connection:
            states = [state for state in observer_states(connection) if name in (None, state.name)]
    table = OBSERVERS if name is None else replace(OBSERVERS, notes=_all_notes)
    rows = [asdict(state) for state in states]
    table.print(rows, form, empty="no observer tails the log; `./callboard observe NAME` starts one.")
    return 0
