"""`./callboard web`: serve HTTP and the page, without workers; several may run behind a load balancer."""

from __future__ import annotations

import os

import click

from bus.identity.credentials.certificates import require_tls_files
from cli import options
from cli.doctor.authentication import NO_CREDENTIAL, lets_no_one_in
from cli.supervisor import serving
from config.database.migrate import make_folder, require_schema
from config.redis.server import find_running


@click.command()
@options.host
@options.port
@options.state_dir
@options.no_auth
@options.tls_certificate
@options.tls_key
def web(**flags: object) -> None:
    """Serve until a signal ends it; this process becomes gunicorn."""
    settings = options.apply(**flags)
    serving.require_loopback(settings)
    require_tls_files(settings)
    make_folder(settings)
    require_schema(settings)
    environment = serving.child_environment(serving.web_environment(settings))
    if settings.redis_url or find_running(settings.state):
        environment["CALLBOARD_REDIS_URL"] = serving.redis_url_of(settings)
    else:
        click.echo("warning: no Redis; viewers and workers poll the database, so both are slower.", err=True)
    listener = serving.bind(settings, "web")
    os.set_inheritable(listener.fileno(), True)
    click.echo(f"Callboard's web process serves {serving.address_of(listener, settings)}", err=True)
    if lets_no_one_in(settings):
        click.echo(f"warning: {NO_CREDENTIAL}", err=True)
    command = serving.gunicorn_command(listener)
    os.execve(command[0], command, environment)
