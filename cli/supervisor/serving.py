"""What `up` and `web` share: the address is bound before anything else runs, so that what is wrong is said at once."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import sys
from pathlib import Path

from config.errors import PortInUse, SettingInvalid
from config.provider_keys import without_keys
from config.settings import Settings

ROOT = Path(__file__).resolve().parent.parent.parent
BACKLOG = 2048
ROOT_WARNING = "ignore:You're running the worker with superuser privileges"
"""Celery's remark about root, ten lines a worker; in a container it is no news."""

FOR_CELERY = {"prefork": "processes"}
"""Celery takes ``--pool prefork`` for its own default and prefers the configured pool; by this name it is meant."""


def require_loopback(settings: Settings) -> None:
    """The page is served to this machine only, or somebody said that this is not wanted.

    Raises:
        SettingInvalid: another address, and nobody is asked who they are.
    """
    if not settings.no_auth and not is_loopback(settings.host):
        raise SettingInvalid(
            f"host {settings.host} is reachable from other machines, and Callboard does not ask yet who is calling: "
            "whoever reaches the page can run your agents. Use 127.0.0.1 behind a proxy that asks, or say --no-auth."
        )


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(settings: Settings, command: str) -> socket.socket:
    """Return a listening socket on the settings' host and port, which children may inherit.

    Raises:
        PortInUse: somebody else listens there.
        SettingInvalid: the host is not of this machine, or the port needs rights we have not.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as wrong:
        raise SettingInvalid(f"host '{settings.host}' is no address ({wrong}); use 127.0.0.1.") from wrong
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as wrong:
        listener.close()
        raise _bind_error(settings, command, wrong) from wrong
    return listener


def address_of(listener: socket.socket, host: str) -> str:
    """Return the URL a browser takes for the bound socket."""
    shown = "127.0.0.1" if host == "0.0.0.0" else "::1" if host == "::" else host
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{listener.getsockname()[1]}"


def gunicorn_command(listener: socket.socket) -> tuple[str, ...]:
    """Return the command of a web process on an inherited socket."""
    config = str(ROOT / "web" / "gunicorn_conf.py")
    return (*python("gunicorn"), "--config", config, "--bind", f"fd://{listener.fileno()}", "web.app:create_app()")


def worker_command(name: str, pool: str | None) -> tuple[str, ...]:
    """Return the command of a worker process; everything else is in Celery's configuration."""
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    chosen = ("--pool", FOR_CELERY.get(pool, pool)) if pool else ()
    return (*python("celery"), "--quiet", "-A", "bus.celery_app", "worker", *quiet, "--hostname", f"{name}@%h", *chosen)


def python(module: str) -> tuple[str, ...]:
    """Return how a module of the environment is run from the root."""
    return (sys.executable, "-P", "-m", module)


def child_environment(**extra: str) -> dict[str, str]:
    """Return what a child needs to find the rooms, and ``extra``."""
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    warnings = ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), ROOT_WARNING)))
    return {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": warnings,
        **extra,
    }


def web_environment(settings: Settings) -> dict[str, str]:
    """Return this environment as a web process gets it: without the keys of providers (docs/decisions/0026)."""
    from agents.registry import AgentRegistry  # brings jsonschema and yaml, which most commands can do without
    from config.definitions import AgentDefinition

    agents = AgentRegistry(settings.agent_folders).all()
    named = {agent.api_key_env for agent in agents if isinstance(agent, AgentDefinition) and agent.api_key_env}
    return without_keys(os.environ, named)


def clean_environment() -> dict[str, str]:
    """Return this environment without Callboard's settings, for what tries the defaults on a state of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CALLBOARD_")}
    return {**kept, **child_environment(CALLBOARD_NO_CONFIG="1")}


def _bind_error(settings: Settings, command: str, wrong: OSError) -> PortInUse | SettingInvalid:
    where = f"{settings.host}:{settings.port}"
    if wrong.errno == errno.EADDRINUSE:
        free = settings.port + 1 if settings.port < 65535 else 8000
        return PortInUse(
            f"{where} is in use; choose another port: ./callboard {command} --port {free}", port=settings.port
        )
    if wrong.errno == errno.EACCES:
        return SettingInvalid(f"port {settings.port} may not be bound by this user; choose one above 1023.")
    return SettingInvalid(f"{where} cannot be bound ({wrong.strerror}); use an address of this machine, as 127.0.0.1.")
