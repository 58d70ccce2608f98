"""What one process needs to accept and work off runs: opened on first use, forgotten in a forked child."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from agents.registry import AgentRegistry
from bus.celery_app import Publisher
from bus.journal.journal import Journal
from config.forks import after_fork, leave_to_parent
from config.migrate import require_current
from config.redis_socket import with_running_redis
from config.settings import Settings, settings
from observers.base import AgentObserver


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """The journal and the registry of this process."""

    settings: Settings
    journal: Journal
    registry: AgentRegistry
    guests: dict[str, tuple[AgentObserver, ...]] = field(default_factory=dict)
    """Observers given as objects, by the synchronous run they were given for."""


_process: Process | None = None
_opening = threading.Lock()


def process(with_settings: Settings | None = None) -> Process:
    """Return this process's things; opened when first asked for, and again where they have other settings.

    Raises:
        SchemaOld, SchemaNew: the database does not fit this code.
    """
    global _process
    with _opening:
        if _process is None or with_settings not in (None, _process.settings):
            _process = open_process(with_settings or settings())
        return _process


def open_process(with_settings: Settings) -> Process:
    """Return a journal and a registry for these settings.

    Where they name no Redis and `up` runs on the same state folder, its Redis is used: events arrive as they happen.
    """
    with_settings = with_running_redis(with_settings)
    journal = Journal(with_settings, publish=Publisher(with_settings))
    require_current(journal.database)
    return Process(settings=with_settings, journal=journal, registry=AgentRegistry(with_settings.agent_folders))


def use_process(given: Process | None) -> None:
    """Make ``given`` this process's things: a Runner and the handler in one process share one journal."""
    global _process
    with _opening:
        _process = given


@after_fork
def _forget() -> None:
    global _process, _opening
    leave_to_parent(_process)
    _process, _opening = None, threading.Lock()
