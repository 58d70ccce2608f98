"""What `up` and `web` share: they bind the address first, so that an error is reported at once."""

from __future__ import annotations

import errno
import os
import socket
import sys
import webbrowser
from collections.abc import Mapping
from urllib.parse import urlsplit

from bus.identity.credentials.local_token import local_token
from bus.redis_wire import with_running_redis
from config.egress.origins import host_of, is_loopback
from config.errors import Permanent, SettingInvalid, Topic
from config.folders import ROOT
from config.private_files import open_private
from config.redaction.provider_keys import without_keys
from config.redis.errors import RedisUnreachable
from config.redis.server import require_broker, require_usable
from config.settings import Settings

BACKLOG = 2048
ROOT_WARNING = "ignore:You're running the worker with superuser privileges"
"""Celery's warning about root, ten lines a worker, which is usual in a container."""

PORT_IN_USE = Permanent.row(
    "port_in_use",
    "Another process listens there.",
    status=500,
    topic=Topic.MACHINE,
    over_http=False,
    remedy="The sentence names a free port.",
)


def require_loopback(settings: Settings) -> None:
    """Return if the host is loopback, authentication is required, or ``no_auth`` is set.

    Raises:
        SettingInvalid: other machines could reach the page, and no credential would be asked for that may be sent to
            them.
    """
    if settings.serves_others:
        return
    is_none = settings.auth == "none"
    problem = "asks for no credential" if is_none else "is for the users of one machine"
    without = "--no-auth" if is_none else "CALLBOARD_AUTH=none with --no-auth"
    if not is_loopback(settings.host):
        raise SettingInvalid(
            f"host {settings.host} is reachable from other machines, and CALLBOARD_AUTH={settings.auth} {problem}. "
            f"Set CALLBOARD_AUTH=required, use 127.0.0.1 behind a proxy that authenticates, or set {without}."
        )
    if settings.public_url and not is_loopback(host_of(settings.public_url).strip("[]")):
        raise SettingInvalid(
            f"CALLBOARD_PUBLIC_URL is {settings.public_url}, so a proxy passes on requests of other machines, and "
            f"CALLBOARD_AUTH={settings.auth} {problem}. Set CALLBOARD_AUTH=required, or {without} behind a proxy that "
            "authenticates."
        )


def redis_url_of(settings: Settings) -> str:
    """Return the URL of the Redis for this machine's processes: the configured one, else the state folder's own.

    Raises:
        RedisUnreachable: there is none, or it does not answer.
    """
    if settings.broker_url and urlsplit(settings.broker_url).scheme not in ("redis", "rediss", "unix", "redis+socket"):
        require_broker(settings.broker_url)
    url = with_running_redis(settings).redis_url
    if url is None:
        raise RedisUnreachable(
            f"no Redis is configured and the state folder's own ({settings.state}) does not answer; "
            "set CALLBOARD_REDIS_URL, or start ./callboard up."
        )
    require_usable(url)
    return url


def bind(settings: Settings, command: str) -> socket.socket:
    """Return a listening socket on the settings' host and port, which children may inherit.

    Raises:
        PORT_IN_USE: another process listens there.
        SettingInvalid: the host is not an address of this machine, or the port needs more rights.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise SettingInvalid(f"host '{settings.host}' is not an address ({error}); use 127.0.0.1.") from error
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise _bind_error(settings, command, error) from error
    return listener


def address_of(listener: socket.socket, settings: Settings) -> str:
    """Return the bound socket's URL for a browser."""
    host, scheme = settings.host, "https" if settings.tls_certificate else "http"
    visible_host = "127.0.0.1" if host == "0.0.0.0" else "::1" if host == "::" else host
    return f"{scheme}://{f'[{visible_host}]' if ':' in visible_host else visible_host}:{listener.getsockname()[1]}"


def page_address(address: str, settings: Settings, route: str = "") -> str:
    """Return what a person opens: with the installation's token in the fragment where it is asked for.

    Browsers do not send the fragment, and the page removes it. ``route`` is what the page shows, such as ``/board``.
    """
    if settings.auth != "local":
        return f"{address}/#{route}" if route else address
    return f"{address}/#token={local_token(settings)}{f'&to={route}' if route else ''}"


def run_route(run_id: str) -> str:
    """Return the place of the page that shows a run."""
    return f"/run/{run_id}"


def open_page(page: str, settings: Settings) -> None:
    """Open the page in a browser; other users of the machine, who see its command line, do not see the token."""
    if "#token=" in page:
        file = settings.state / "open.html"
        with os.fdopen(open_private(file), "w") as stream:
            stream.truncate()
            stream.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={page}">\n')
        page = file.as_uri()
    webbrowser.open(page)


def gunicorn_command(listener: socket.socket) -> tuple[str, ...]:
    """Return the command of a web process on an inherited socket."""
    config = str(ROOT / "web" / "gunicorn_conf.py")
    return (*python("gunicorn"), "--config", config, "--bind", f"fd://{listener.fileno()}", "web.app:create_app()")


def worker_command(name: str, pool: str | None) -> tuple[str, ...]:
    """Return the command of a worker process; other options are in Celery's configuration."""
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    # Celery takes ``--pool prefork`` for its default and prefers the configured pool; ``processes`` selects prefork.
    chosen = ("--pool", "processes" if pool == "prefork" else pool) if pool else ()
    return (*python("celery"), "--quiet", "-A", "bus.celery_app", "worker", *quiet, "--hostname", f"{name}@%h", *chosen)


def python(module: str) -> tuple[str, ...]:
    """Return the command that runs a module of this environment."""
    return (sys.executable, "-P", "-m", module)


def child_environment(inherited: Mapping[str, str] = os.environ, **extra: str) -> dict[str, str]:
    """Return the inherited environment with what a child needs to import Callboard, and ``extra``."""
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    warnings = ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), ROOT_WARNING)))
    path = os.pathsep.join(dict.fromkeys(paths))
    return {**inherited, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": warnings, **extra}


_OF_WORKERS = ("CALLBOARD_GOVERNANCE_API_KEY", "OPENBOX_API_KEY", "CALLBOARD_TRACES_HEADERS")
"""Secrets of workers that ``without_keys`` takes for settings."""


def observed(settings: Settings) -> str:
    """Return what the workers of `up` feed from the log: ``metrics`` too, unless the setting is written as nothing."""
    is_chosen = "observe" in settings.model_fields_set
    return ",".join([*settings.observed, "metrics"]) if settings.observed or not is_chosen else ""


def web_environment(settings: Settings) -> dict[str, str]:
    """Return this environment without the workers' secrets, for a web process (docs/decisions/0026)."""
    from agents.registry import AgentRegistry  # imports jsonschema and yaml, which most commands do not need
    from config.definitions.agent import AgentDefinition
    from config.definitions.webhooks.definition import read_webhooks

    agents = AgentRegistry(settings.agent_folders).all()
    usable = [agent for agent in agents if isinstance(agent, AgentDefinition)]
    named = {agent.api_key_env for agent in usable} | {
        model.api_key_env for agent in usable for model in agent.fallbacks
    }
    keys = {variable for variable in named if variable}
    webhooks, _ = read_webhooks(settings.webhooks_folders)
    references = (reference for webhook in webhooks.values() for reference in webhook.secret)
    needed = {reference.removeprefix("env:") for reference in references if reference.startswith("env:")}
    return without_keys(os.environ, keys | {*settings.sql_variables.values(), *_OF_WORKERS}, needed - keys)


def clean_environment() -> dict[str, str]:
    """Return this environment without Callboard's settings, for a process with default settings."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("CALLBOARD_")}
    return child_environment(variables, CALLBOARD_NO_CONFIG="1")


def _bind_error(settings: Settings, command: str, error: OSError) -> Permanent:
    where = f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRINUSE:
        free = settings.port + 1 if settings.port < 65535 else 8000
        sentence = f"{where} is in use; choose another port: ./callboard {command} --port {free}"
        return PORT_IN_USE(sentence, port=settings.port)
    if error.errno == errno.EACCES:
        return SettingInvalid(f"this user may not bind port {settings.port}; choose one above 1023.")
    return SettingInvalid(f"{where} cannot be bound ({error.strerror}); use an address of this machine: 127.0.0.1.")
