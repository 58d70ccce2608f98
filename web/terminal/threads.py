"""`./callboard threads`: the conversations, and what was said in one."""

from __future__ import annotations

from typing import Any

import click
import orjson

from bus.journal.threads import list_messages, list_threads
from bus.journal.who import Who
from web.terminal import options
from web.terminal.family import Family
from web.terminal.opening import open_runner
from web.terminal.printed_json import print_json
from web.terminal.removing import rm_threads
from web.terminal.transcript import safe

PAGE = 500


@click.command(cls=Family, members={"rm": rm_threads})
@click.argument("thread_id", metavar="[THREAD]", required=False)
@click.option("--search", help="Only threads whose title has this in it.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@options.as_json
@options.state_dir
def threads(thread_id: str | None, search: str | None, limit: int, as_json: bool, **flags: object) -> int:
    """List the threads, the one touched last first; with THREAD, show what was said in it."""
    with open_runner(**flags) as runner, runner.journal.read() as connection:
        if thread_id is None:
            found = list_threads(connection, Who(), search=search, limit=limit)
        else:
            found = list_messages(connection, Who(), thread_id, limit=PAGE)
    if as_json:
        print_json(found)
    elif thread_id is not None:
        for message in found:
            _say(message)
    elif not found:
        click.echo("no threads.")
    else:
        for thread in found:
            going = " ●" if "open_run" in thread else ""
            when = thread["updated_at"][:16].replace("T", " ")
            click.echo(f"{thread['thread_id']}  {when}  {thread['agent']:<12} {safe(thread['title'])}{going}")
    return 0


def _say(message: dict[str, Any]) -> None:
    who = {"user": "you", "assistant": "agent", "tool": message.get("name", "tool"), "error": "·"}[message["role"]]
    text = message.get("content")
    if message["role"] == "tool":
        text = f"{message.get('outcome', '')}: {message.get('result', '')}"
    for call in message.get("tool_calls", ()):
        text = f"{text or ''}\n⚙ {call['name']}({orjson.dumps(call['arguments']).decode()})".strip()
    lines = safe(str(text or "")).splitlines() or [""]
    click.echo(f"{click.style(f'{who:>12}', dim=True)}  {lines[0]}")
    for line in lines[1:]:
        click.echo(f"{'':>12}  {line}")
