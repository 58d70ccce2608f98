"""`./callboard threads`: list the threads, show the messages of one, and its summaries."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click
import orjson

from agents.prompt import check_thread_id
from cli import options
from cli.commands.remove import rm_threads
from cli.open_runner import open_runner
from cli.options import CommandGroup
from cli.output.json import print_json
from cli.output.quoted import Quoted, fit
from cli.output.table import Column, Form, Table
from config.text.visible import visible

PAGE = 500
"""Most messages of a thread that are shown."""
UNDONE = "The turn below was undone: no model gets it."
MAX_NAME_CHARS = 64


@click.command("fork")
@click.argument("thread_id", type=options.THREAD, metavar="THREAD")
@click.option(
    "--at",
    "message",
    metavar="N",
    type=options.WholeNumber(1, 2**31 - 1),
    required=True,
    help="The number of the last message that the fork gets.",
)
@click.option("--as", "new_thread_id", metavar="NAME", help="A name for the fork; default: a new id.")
@options.as_json
@options.state_dir
def fork(thread_id: str, message: int, new_thread_id: str | None, as_json: bool, **flags: object) -> int:
    """Make a thread with copies of the first messages of another one."""
    with open_runner(options.apply(**flags)) as runner:
        if new_thread_id is not None:
            check_thread_id(new_thread_id)
        branch = runner.journal.clients.fork(runner.principal, thread_id, message, new_thread_id)
    if as_json:
        print_json(asdict(branch))
        return 0
    earlier = "" if branch.at == message else f" (message {message} belongs to a call whose result is behind it)"
    copied = f"{branch.messages} messages of {visible(branch.forked_from)}, up to number {branch.at}"
    click.echo(f"{branch.thread_id} has {copied}{earlier}.")
    click.echo(f'Continue it: ./callboard run AGENT "..." --thread {branch.thread_id}')
    return 0


@click.command("summaries")
@click.argument("thread_id", type=options.THREAD, metavar="THREAD")
@click.option(
    "--drop", type=options.SUMMARY, metavar="SUMMARY", help="Let this one count no more; --restore takes it back."
)
@click.option("--restore", type=options.SUMMARY, metavar="SUMMARY", help="Let this one count again.")
@options.as_json
@options.state_dir
def thread_summaries(thread_id: str, drop: str | None, restore: str | None, as_json: bool, **flags: object) -> int:
    """Show what models are given in place of old messages of THREAD, the newest first."""
    if drop is not None and restore is not None:
        raise click.UsageError("--drop and --restore exclude each other; run the command once for each.")
    with open_runner(options.apply(**flags)) as runner:
        store, principal = runner.journal.stores.summaries, runner.principal
        changed = drop or restore
        if changed is not None:
            store.drop(principal, thread_id, changed, is_dropped=drop is not None)
        rows = store.of_thread(principal, thread_id)
    if as_json:
        print_json(rows)
        return 0
    if not rows:
        click.echo("no summaries.")
    for row in rows:
        click.echo("\n".join(_summary_lines(row)))
    return 0


def _summary_lines(row: dict[str, Any]) -> list[str]:
    """Return a summary: what it replaces, who made it at which cost, its text and its facts."""
    cost = f", ${row['cost_usd']:.4f}" if "cost_usd" in row else ""
    gone = f", dropped by {row['dropped_by']}" if "dropped_at" in row else ""
    which = f"messages {row['from_number']}-{row['upto_number']} for {row['agent']}"
    head = f"{row['summary_id']}  {row['created_at'][:16].replace('T', ' ')}  {which}, by {row['model']}{cost}{gone}"
    facts = [f"{name}: {value}" for name, value in row["pinned"].items()]
    return [visible(head), *(f"  {visible(line)}" for line in [*row["text"].splitlines(), *facts, *row["calls"]])]


THREADS = Table(
    "thread_id",
    (
        Column("THREAD", "thread_id"),
        Column("AGENT", "agent", worth=90),
        Column("AGE", "updated_at", worth=80, is_time=True, is_number=True),
        Column("RUN", lambda thread: "● open" if "open_run" in thread else None, worth=85, colour=lambda _: "green"),
        Column("OWNER", "principal", is_wide=True),
        Column("TITLE", "title"),
    ),
)


@click.command(cls=CommandGroup, members={"fork": fork, "rm": rm_threads, "summaries": thread_summaries})
@click.argument("thread_id", type=options.THREAD, metavar="[THREAD]", required=False)
@click.option("--search", help="Only threads with this in their title or messages.")
@click.option("--limit", type=options.WholeNumber(1, 1000), default=20, show_default=True)
@options.listing
@options.state_dir
def threads(thread_id: str | None, search: str | None, limit: int, form: Form, **flags: object) -> int:
    """List the threads, most recently used first; with THREAD, show its messages."""
    with open_runner(options.apply(**flags)) as runner:
        if thread_id is None:
            rows = runner.journal.readers.threads.newest(runner.principal, search=search, limit=limit + 1)
        else:
            rows = runner.journal.readers.threads.messages(runner.principal, thread_id, limit=PAGE + 1)
            lost = runner.journal.readers.threads.undelivered(runner.principal, thread_id)
    page = rows[: limit if thread_id is None else PAGE]
    if thread_id is None:
        THREADS.print(page, form, empty="no threads.")
    elif form == "json":
        print_json(page)
    else:
        _converse(page, lost)
    if len(rows) > len(page):
        click.secho(_more(thread_id, limit), err=True, dim=True)
    return 0


def _more(thread_id: str | None, limit: int) -> str:
    if thread_id is None:
        return f"these are the {limit} threads used last; there are more: --limit, --search."
    where = f"GET /v1/threads/{visible(thread_id)}/messages"
    return f"these are the first {PAGE} messages; there are more: the page and {where} show them."


def _converse(page: list[dict[str, Any]], lost: list[dict[str, Any]]) -> None:
    """Print the messages, an undone turn below a line that says so, and behind a run the texts that no model got."""
    for number, message in enumerate(page):
        before = page[number - 1] if number else {}
        after = page[number + 1] if number + 1 < len(page) else {}
        if message.get("undone") and message["turn"] != before.get("turn"):
            _say({"role": "error", "content": UNDONE})
        _say(message)
        for text in lost if message["run_id"] != after.get("run_id") else ():
            if text["run_id"] == message["run_id"]:
                _say({"role": "undelivered", "content": text["content"]})


def _say(message: dict[str, Any]) -> None:
    """Print a message: on a terminal below its author with a bar before each line, else in two columns."""
    who, text = _speaker(message), _text(message)
    if sys.stdout.isatty():
        click.secho(who, dim=True)
        quoted = Quoted(sys.stdout)
        quoted.write(text)
        quoted.end()
        return
    for number, line in enumerate(visible(text).splitlines() or [""]):
        click.echo(f"{'' if number else who:>12}  {line}")


def _speaker(message: dict[str, Any]) -> str:
    """Return the author; for a tool its name as the model wrote it, which may name no tool."""
    tool = fit(visible(" ".join(str(message.get("name", "tool")).split())), MAX_NAME_CHARS)
    names = {"user": "you", "assistant": "agent", "tool": tool, "error": "·", "undelivered": "undelivered"}
    return names[message["role"]]


def _text(message: dict[str, Any]) -> str:
    text = message.get("content")
    if message["role"] == "tool":
        text = f"{message.get('outcome', '')}: {message.get('result', '')}"
    for call in message.get("tool_calls", ()):
        text = f"{text or ''}\n⚙ {call['name']}({orjson.dumps(call['arguments']).decode()})".strip()
    return str(text or "")
