"""`./callboard up`: everything a newcomer needs, and the same processes as in production."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import threading
import time
import webbrowser
from collections.abc import Iterator
from urllib.parse import urlsplit

import click

from bus.pulse import wedged_after_s
from config.errors import RedisUnreachable
from config.migrate import make_folder, migrate
from config.private_files import PRIVATE_UMASK, require_private
from config.redis_server import require_broker, require_usable
from config.settings import Settings
from web.terminal import options
from web.terminal.embedded_redis import EmbeddedRedis, plan
from web.terminal.output import Output
from web.terminal.pid_lock import PidLock
from web.terminal.serving import (
    address_of,
    bind,
    child_environment,
    gunicorn_command,
    require_loopback,
    web_environment,
    worker_command,
)
from web.terminal.supervisor import GRACE_S, Child, ChildSpec, Supervisor

PAGE_TIMEOUT_S = 60.0


@click.command()
@options.host
@options.port
@options.state_dir
@click.option("--workers", type=click.IntRange(1, 256), help="Worker processes; default: one a core.")
@options.slots
@options.no_auth
@click.option("--open", "open_page", is_flag=True, help="Open the page in a browser.")
@click.option("--verbose", "-v", is_flag=True, help="Show everything the processes say.")
def up(open_page: bool, verbose: bool, **flags: object) -> int:
    """Start Redis, web and workers, and print the page's address when it answers."""
    settings = options.apply(**flags)
    require_loopback(settings)
    make_folder(settings)
    require_private(settings.state)
    lock = PidLock(settings.state / "up.lock")
    owner = lock.take()
    if owner is not None:
        click.echo(f"Callboard is already up at {owner.address} (process {owner.pid}, state folder {settings.state}).")
        return 0
    output = Output(settings.state / "logs" / "up.log", verbose=verbose)
    with contextlib.closing(output), bind(settings, "up") as listener:
        address = address_of(listener, settings.host)
        lock.announce(address, _workers(settings))
        try:
            _serve(settings, listener, address, output, open_page)
        finally:
            lock.release()
    return 0


def _workers(settings: Settings) -> int:
    """Return how many workers there will be: without a Redis everything is one process."""
    return settings.workers if settings.redis_url or plan(settings) else 1


def _serve(settings: Settings, listener: socket.socket, address: str, output: Output, open_page: bool) -> None:
    redis = None if settings.redis_url else plan(settings)
    if settings.redis_url is None and redis is None:
        from web.terminal.one_process import serve

        serve(settings, listener, address, output, open_page)
        return
    _require_servers(settings)
    with _supervisor(output) as supervisor:
        environment = child_environment(CALLBOARD_REDIS_URL=redis.url if redis else str(settings.redis_url))
        child = _keep_redis(supervisor, redis, output) if redis else None
        migrate(settings)
        if redis and child:
            _wait_for_redis(redis, child)
        silence_s = wedged_after_s(settings.lease_s)
        web = supervisor.keep(
            ChildSpec(
                name="web",
                argv=gunicorn_command(listener),
                env=environment,
                whole_env=web_environment(settings),
                pass_fds=(listener.fileno(),),
                silence_s=silence_s,
            )
        )
        if not wait_for_page(address, web, supervisor):
            return
        announce(address, output, open_page)
        for number in range(1, settings.workers + 1):
            name = f"worker-{number}"
            command = worker_command(name, None)
            supervisor.keep(ChildSpec(name=name, argv=command, env=environment, essential=False, silence_s=silence_s))
        supervisor.wait()


def announce(address: str, output: Output, open_page: bool) -> None:
    """The one line of `up` is printed: where the page is, and what `model: auto` means today."""
    output.say(f"Callboard is up at {address}{_model_note()}")
    if open_page:
        webbrowser.open(address)


def wait_for_page(address: str, web: Child | None, supervisor: Supervisor) -> bool:
    """Return True when the page answers, False when somebody asked to stop before.

    Raises:
        ChildHopeless: the web process ends as soon as it is started.
    """
    until = time.monotonic() + PAGE_TIMEOUT_S
    while not supervisor.stop_asked.is_set() and time.monotonic() < until:
        if web is not None:
            web.raise_if_hopeless()
        if _answers(address):
            if web is not None:
                web.ready.set()
            return True
        supervisor.stop_asked.wait(0.02)
    return not supervisor.stop_asked.is_set()


@contextlib.contextmanager
def _supervisor(output: Output) -> Iterator[Supervisor]:
    supervisor = Supervisor(output)
    supervisor.listen_to_signals()
    try:
        yield supervisor
    finally:
        patience = threading.Timer(
            1.5, output.note, (f"stopping: runs get up to {GRACE_S:g} s to end; Ctrl-C again ends them now",)
        )
        patience.start()
        supervisor.stop()
        patience.cancel()


def _require_servers(settings: Settings) -> None:
    if settings.redis_url:
        require_usable(settings.redis_url)
    if settings.broker_url and settings.broker_url != settings.redis_url:
        require_broker(settings.broker_url)


def _keep_redis(supervisor: Supervisor, redis: EmbeddedRedis, output: Output) -> Child:
    holder: list[Child] = []

    def prepare() -> None:
        redis.clear()
        if holder and holder[0].quick_deaths == 2 and not holder[0].ready.is_set():
            place = redis.set_aside()
            output(
                "up", f"WARNING the embedded Redis could not read its data; it was moved to {place}. Nothing is lost."
            )

    spec = ChildSpec(name="redis", argv=redis.argv, before=prepare, parent_died=signal.SIGTERM, umask=PRIVATE_UMASK)
    holder.append(supervisor.keep(spec))
    return holder[0]


def _wait_for_redis(redis: EmbeddedRedis, child: Child) -> None:
    try:
        redis.wait_until_it_answers()
    except RedisUnreachable:
        child.raise_if_hopeless()
        raise
    child.ready.set()


def _answers(address: str) -> bool:
    """Tell whether the page answers; the socket is bound, so this waits for the process behind it."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=2.0)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status < 500
    except OSError:
        return False
    except http.client.HTTPException:
        return False
    finally:
        connection.close()


def _model_note() -> str:
    """Return which model `model: auto` means now, for the line of `up`."""
    from agents.models.auto import BY_KEY, DEMO, resolve_model

    model = resolve_model("auto", os.environ)
    if model != DEMO:
        return f" · model auto is {model}"
    keys = ", ".join(BY_KEY)
    return f" · model auto is {model}, which is not a language model (set one of {keys}, or start Ollama)"
