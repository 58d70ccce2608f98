"""`./callboard worker`: N worker processes on this machine, each started again when it dies."""

from __future__ import annotations

import contextlib
import os
from urllib.parse import urlsplit

import click

from bus.pulse import wedged_after_s
from config.database import open_database
from config.errors import PoolRefused, RedisUnreachable
from config.migrate import make_folder, require_current
from config.redis_server import require_broker, require_usable
from config.redis_socket import find_running
from config.settings import Settings
from web.terminal import options
from web.terminal.output import Output
from web.terminal.serving import child_environment, worker_command
from web.terminal.supervisor import ChildSpec, Supervisor

POOLS = ("threads", "prefork", "solo")


@click.command()
@click.option("-n", "--number", type=click.IntRange(1, 256), help="Processes; default: one a core.")
@click.option("--pool", help="threads (default), prefork or solo.")
@options.slots
@options.state_dir
@click.option("--quiet", "-q", is_flag=True, help="Show warnings only.")
def worker(number: int | None, pool: str | None, quiet: bool, **flags: object) -> int:
    """Keep worker processes running; on SIGTERM each run ends its step and goes on elsewhere."""
    refuse_pool(pool)
    settings = options.apply(workers=number, **flags)
    make_folder(settings)
    redis_url = redis_url_of(settings)
    require_schema(settings)
    output = Output(settings.state / "logs" / f"worker-{os.getpid()}.log", verbose=not quiet)
    supervisor = Supervisor(output)
    supervisor.listen_to_signals()
    silence_s = wedged_after_s(settings.lease_s)
    with contextlib.closing(output):
        try:
            for index in range(1, settings.workers + 1):
                name = f"worker-{os.getpid()}-{index}"
                environment = child_environment(CALLBOARD_REDIS_URL=redis_url)
                supervisor.keep(
                    ChildSpec(name=name, argv=worker_command(name, pool), env=environment, silence_s=silence_s)
                )
            supervisor.wait()
        finally:
            supervisor.stop()
    return 0


def refuse_pool(pool: str | None) -> None:
    """Only pools a run can be stopped in are used.

    Raises:
        PoolRefused: another one; says which there are.
    """
    if pool is not None and pool not in POOLS:
        why = (
            "patches threads and sockets under the loop agents run on"
            if pool in ("gevent", "eventlet")
            else "is unknown"
        )
        raise PoolRefused(f"pool '{pool}' {why}; use --pool threads (the default), prefork or solo.", pool=pool)


def redis_url_of(settings: Settings) -> str:
    """Return the Redis the processes of this machine use: the configured one, else the state folder's own.

    Raises:
        RedisUnreachable: there is none, or it does not answer.
    """
    if settings.broker_url and urlsplit(settings.broker_url).scheme not in ("redis", "rediss", "unix", "redis+socket"):
        require_broker(settings.broker_url)
    url = settings.redis_url or find_running(settings)
    if url is None:
        raise RedisUnreachable(
            f"no Redis is configured and the state folder's own ({settings.state}) does not answer; "
            "set CALLBOARD_REDIS_URL, or start ./callboard up."
        )
    require_usable(url)
    return url


def require_schema(settings: Settings) -> None:
    """The database answers and has the schema of this code.

    Raises:
        SchemaOld: ``./callboard migrate`` has to be run first.
        DatabaseUnreachable: it does not answer.
    """
    database = open_database(settings.database)
    try:
        require_current(database)
    finally:
        database.close()
