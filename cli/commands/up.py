"""`./callboard up`: starts Redis, web and workers, the same processes as in production."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import ssl
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

import click

from bus.identity.credentials.certificates import require_tls_files
from bus.liveness import wedged_after_s
from cli import options
from cli.supervisor import serving
from cli.supervisor.embedded_redis import EmbeddedRedis, plan
from cli.supervisor.output import Output
from cli.supervisor.pid_lock import PidLock
from cli.supervisor.supervisor import Child, ChildSpec, Supervisor, after, supervising
from config.database.migrate import make_folder, migrate
from config.errors import CallboardError
from config.private_files import PRIVATE_UMASK, require_private
from config.redis.errors import RedisUnreachable
from config.redis.server import require_broker, require_usable
from config.settings import Settings

SLOW_PAGE_S = 60.0
"""Seconds without an answer of the page after which `up` says so; it waits further."""

FOLDER_GONE = (
    "was deleted or moved while `up` runs; nothing is accepted. Move it back, or stop `up` and start it again: what "
    "only the deleted files had is lost then."
)
FOLDER_BACK = "is back."


@click.command()
@options.host
@options.port
@options.state_dir
@click.option("--workers", type=options.WholeNumber(1, 256), help="Worker processes; default: one a core.")
@options.slots
@options.queues
@options.no_auth
@options.tls_certificate
@options.tls_key
@click.option("--open", "open_page", is_flag=True, help="Open the page in a browser.")
@click.option("--verbose", "-v", is_flag=True, help="Show all output of the processes.")
def up(open_page: bool, verbose: bool, **flags: object) -> int:
    """Start Redis, web and workers, and print the page's address when it answers."""
    settings = options.apply(**flags)
    serving.require_loopback(settings)
    require_tls_files(settings)
    make_folder(settings)
    require_private(settings.state)
    lock = PidLock(settings.state / "up.lock")
    owner = lock.take()
    if owner is not None:
        address = serving.page_address(owner.address, settings)
        click.echo(f"Callboard is already up at {address} (process {owner.pid}, state folder {settings.state}).")
        click.echo(f"It keeps the settings it was started with; `kill -INT {owner.pid}` stops it, then start it anew.")
        return 0
    redis = None if settings.redis_url else plan(settings)
    is_one_process = settings.redis_url is None and redis is None
    output = Output(settings.state / "logs" / "up.log", verbose=verbose)
    with contextlib.closing(output), serving.bind(settings, "up") as listener:
        _warn_of_observers(settings, output)
        address = serving.address_of(listener, settings)
        lock.announce(address, 1 if is_one_process else settings.workers)
        look = FolderWatch(lock, settings, output).look
        announce = partial(_announce, settings, serving.page_address(address, settings), output, open_page)
        try:
            if is_one_process:
                from cli.supervisor.one_process import serve

                serve(settings, listener, output, announce, look)
            else:
                _serve(settings, listener, redis, output, announce, look)
        finally:
            lock.release()
    return 0


def _warn_of_observers(settings: Settings, output: Output) -> None:
    """Say which observers the workers will not feed."""
    if not settings.observed:
        return
    from observers.tailing.tailed import tailed_observers  # it imports the journal, which `up` itself does not need

    for name in settings.observed:
        try:
            tailed_observers(name, settings)
        except CallboardError as error:
            output.warn(f"no worker feeds the observer '{name[:80]}': {error}")


def _serve(
    settings: Settings,
    listener: socket.socket,
    redis: EmbeddedRedis | None,
    output: Output,
    announce: Callable[[], None],
    look: Callable[[], None],
) -> None:
    """Keep the processes running until a signal ends them; ``redis`` is None if one is configured."""
    if settings.redis_url:
        require_usable(settings.redis_url)
    if settings.broker_url and settings.broker_url != settings.redis_url:
        require_broker(settings.broker_url)
    with supervising(output, output.note) as supervisor:
        child = _keep_redis(supervisor, redis, output) if redis else None
        migrate(settings)
        if redis and child:
            _wait_for_redis(redis, child)
        redis_url = redis.url if redis else str(settings.redis_url)
        environment = partial(
            serving.child_environment, CALLBOARD_REDIS_URL=redis_url, CALLBOARD_OBSERVE=serving.observed(settings)
        )
        spec = partial(ChildSpec, silence_s=wedged_after_s(settings.lease_s))
        command, web_env = serving.gunicorn_command(listener), environment(serving.web_environment(settings))
        web = supervisor.keep(spec(name="web", argv=command, env=web_env, pass_fds=(listener.fileno(),)))
        if not wait_for_page(serving.address_of(listener, settings), web, supervisor, output):
            return
        announce()
        for number in range(1, settings.workers + 1):
            name = f"worker-{number}"
            command = serving.worker_command(name, None)
            supervisor.keep(spec(name=name, argv=command, env=environment(), essential=False))
        supervisor.wait(look)


class FolderWatch:
    """Says once when the state folder is deleted or moved under the running processes, and once when it is back."""

    def __init__(self, lock: PidLock, settings: Settings, output: Output) -> None:
        self._lock = lock
        self._folder = settings.state
        self._output = output
        self._was_in_place = True

    def look(self) -> None:
        """Compare the folder's lock file with the one that this process holds."""
        is_in_place = self._lock.is_in_place()
        if is_in_place != self._was_in_place:
            self._was_in_place = is_in_place
            self._output.warn(f"the state folder {self._folder} {FOLDER_BACK if is_in_place else FOLDER_GONE}")


def _announce(settings: Settings, address: str, output: Output, open_page: bool) -> None:
    """Print the line of `up`: the page's address, and the model that `model: auto` selects."""
    from agents.models.auto import BY_KEY, DEMO, resolve_model
    from cli.doctor.authentication import NO_CREDENTIAL, lets_no_one_in

    model = resolve_model("auto", os.environ)
    remedy = f", which is not a language model (set one of {', '.join(BY_KEY)}, or start Ollama)"
    output.say(f"Callboard is up at {address} · model auto is {model}{remedy if model == DEMO else ''}")
    if lets_no_one_in(settings):
        output.warn(NO_CREDENTIAL)
    if open_page:
        serving.open_page(address, settings)


def wait_for_page(address: str, web: Child, supervisor: Supervisor, output: Output) -> bool:
    """Return True when the page answers, False when a signal asked to stop before; say so if it takes long.

    Raises:
        CHILD_HOPELESS: the web process ends at each start.
    """
    note = f"the page does not answer after {SLOW_PAGE_S:g} s; see logs/up.log in the state folder."
    with after(SLOW_PAGE_S, output.warn, note):
        while not supervisor.stop_asked.wait(0.02):
            web.raise_if_hopeless()
            if _answers(address):
                web.ready.set()
                return True
    return False


def _keep_redis(supervisor: Supervisor, redis: EmbeddedRedis, output: Output) -> Child:
    def prepare(child: Child) -> None:
        redis.clear()
        if child.quick_deaths == 2 and not child.ready.is_set():
            folder = redis.set_aside()
            output.warn(f"the embedded Redis could not read its data; it was moved to {folder}. Nothing is lost.")

    spec = ChildSpec(name="redis", argv=redis.argv, before=prepare, parent_died=signal.SIGTERM, umask=PRIVATE_UMASK)
    return supervisor.keep(spec)


def _wait_for_redis(redis: EmbeddedRedis, child: Child) -> None:
    try:
        redis.wait_until_it_answers()
    except RedisUnreachable:
        child.raise_if_hopeless()
        raise
    child.ready.set()


def _answers(address: str) -> bool:
    """Return whether the page answers; the socket is bound, so this waits for the web process."""
    with contextlib.closing(_connection(address)) as connection:
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status < 500
        except ssl.SSLError as error:  # it asks for a client certificate, so it serves
            return error.reason == "TLSV13_ALERT_CERTIFICATE_REQUIRED"
        except (OSError, http.client.HTTPException):
            return False


def _connection(address: str) -> http.client.HTTPConnection:
    """Return a connection to our own process, whose certificate names the address that users see."""
    parts = urlsplit(address)
    host = parts.hostname or "127.0.0.1"
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=2.0)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(host, parts.port, timeout=2.0, context=context)
