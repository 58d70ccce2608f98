"""`./callboard worker`: runs worker processes on this machine, and restarts each that ends."""

from __future__ import annotations

import contextlib
import os
import threading
from functools import partial

import click

from bus.errors import POOL_REFUSED
from bus.liveness import wedged_after_s
from cli import options
from cli.supervisor.output import Output
from cli.supervisor.serving import child_environment, redis_url_of, worker_command
from cli.supervisor.supervisor import Child, ChildSpec, supervising
from config.database.migrate import make_folder, require_schema

POOLS = ("threads", "prefork", "solo")


@click.command()
@click.option("-n", "--number", type=options.WholeNumber(1, 256), help="Processes; default: one a core.")
@click.option("--pool", help="threads (default), prefork or solo.")
@options.slots
@options.queues
@options.state_dir
@click.option("--quiet", "-q", is_flag=True, help="Show warnings only.")
def worker(number: int | None, pool: str | None, quiet: bool, **flags: object) -> int:
    """Keep worker processes running; on SIGTERM each run ends its step and continues on another worker."""
    refuse_pool(pool)
    settings = options.apply(workers=number, **flags)
    make_folder(settings)
    redis_url = redis_url_of(settings)
    require_schema(settings)
    log = settings.state / "logs" / f"worker-{os.getpid()}.log"
    output = Output(log, verbose=not quiet, command="worker")
    environment = child_environment(CALLBOARD_REDIS_URL=redis_url)
    spec = partial(ChildSpec, env=environment, silence_s=wedged_after_s(settings.lease_s))
    with contextlib.closing(output), supervising(output, output.note) as supervisor:
        if not quiet:
            processes = "1 worker process is" if settings.workers == 1 else f"{settings.workers} worker processes are"
            output.say(f"{processes} starting; what they log is in {log}. Ctrl-C stops them.")
        for index in range(1, settings.workers + 1):
            name = f"worker-{os.getpid()}-{index}"
            child = supervisor.keep(spec(name=name, argv=worker_command(name, pool)))
            if not quiet:
                threading.Thread(target=_say_ready, args=(child, output), daemon=True).start()
        supervisor.wait()
    return 0


def _say_ready(child: Child, output: Output) -> None:
    child.ready.wait()
    output.say(f"{child.spec.name} is ready to take runs")


def refuse_pool(pool: str | None) -> None:
    """Check that the pool can run agents.

    Raises:
        POOL_REFUSED: it cannot; the message names those that can.
    """
    if pool is not None and pool not in POOLS:
        patches = "patches threads and sockets under the loop agents run on"
        why = patches if pool in ("gevent", "eventlet") else "is unknown"
        raise POOL_REFUSED(f"pool '{pool}' {why}; use --pool threads (the default), prefork or solo.", pool=pool)
