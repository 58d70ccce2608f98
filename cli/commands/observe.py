"""`./callboard observe`: feed observers from the log, in a process of their own."""

from __future__ import annotations

import signal
import threading
from typing import Any

import click

from cli import options
from cli.commands.observers import START
from cli.open_runner import open_database_of
from config.at_exit import close_all
from config.errors import CallboardError, SettingInvalid
from config.logs import configure_logging
from observers.tailing.host import ObserverHost
from observers.tailing.tailed import Tailed, tailed_observers


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--from", "start", type=START, help="Where a new observer starts; the default is in its declaration.")
@options.state_dir
def observe(names: tuple[str, ...], start: str | None, **flags: Any) -> int:
    """Feed observers until a signal ends it; several processes with one name share the work."""
    settings = options.apply(**flags)
    observers = [tailed for name in names for tailed in tailed_observers(name, settings, start)]
    if len({tailed.name for tailed in observers}) < len(observers):
        raise click.UsageError("an observer is named twice; name each once.")
    configure_logging(settings, "observe")
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    with open_database_of(settings, create=True) as database:
        host = ObserverHost(settings, database)
        for tailed in observers:
            _start(host, tailed, start)
            if tailed.options is not None and (problem := tailed.options.problem()) is not None:
                click.secho(f"'{tailed.name}': {problem}", fg="yellow", err=True)
        listing = ", ".join(f"{tailed.name} ({tailed.delivery})" for tailed in observers)
        click.echo(f"feeding {listing}; Ctrl-C stops it, and the next one continues where it stopped.", err=True)
        while not stopping.wait(0.5):
            if host.is_idle:
                raise SettingInvalid("no observer is fed any more; the log says why.")
        host.stop()
    close_all()
    return 0


def _start(host: ObserverHost, tailed: Tailed, start: str | None) -> None:
    try:
        is_new = host.start(tailed)
    except CallboardError:
        host.stop()
        raise
    if start is not None and not is_new:
        how = f"`./callboard observers reset {tailed.name} --from {start}` sets its cursors"
        click.echo(f"'{tailed.name}' is not new and continues where it stopped; {how}.", err=True)
