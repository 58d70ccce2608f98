"""`./callboard web`: the HTTP doors and the page, alone; put as many as you like behind a load balancer."""

from __future__ import annotations

import os

import click

from config.migrate import make_folder
from config.redis_socket import find_running
from web.terminal import options
from web.terminal.serving import (
    address_of,
    bind,
    child_environment,
    gunicorn_command,
    require_loopback,
    web_environment,
)
from web.terminal.worker import redis_url_of, require_schema


@click.command()
@options.host
@options.port
@options.state_dir
@options.no_auth
def web(**flags: object) -> None:
    """Serve until told to stop; this process becomes gunicorn."""
    settings = options.apply(**flags)
    require_loopback(settings)
    make_folder(settings)
    require_schema(settings)
    environment = child_environment()
    if settings.redis_url or find_running(settings):
        environment["CALLBOARD_REDIS_URL"] = redis_url_of(settings)
    else:
        click.echo("warning: no Redis; viewers read the database, runs wait for a worker that does the same.", err=True)
    listener = bind(settings, "web")
    os.set_inheritable(listener.fileno(), True)
    click.echo(f"Callboard's web process serves {address_of(listener, settings.host)}", err=True)
    command = gunicorn_command(listener)
    os.execve(command[0], command, {**web_environment(settings), **environment})
