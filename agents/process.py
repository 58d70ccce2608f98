"""What one process needs to accept and execute runs: opened on first use, and reset in a forked child."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from agents.governance.guardrails.guardrails import guard_of, guardrails_of
from agents.governance.policy.policy_yaml import PolicySource
from agents.models.keys import ModelKeys
from agents.registry import AgentRegistry
from agents.tools.execution.executor import allow_threads
from agents.tools.mcp.stores import journal_source
from agents.tools.tool import Tool
from bus.celery_app import Publisher
from bus.journal import Journal
from bus.redis_wire import with_running_redis
from bus.sealing import sealer_of
from config.database.migrate import require_current
from config.forks import after_fork, leave_to_parent
from config.settings import Settings, settings
from observers.base import AgentObserver

if TYPE_CHECKING:
    from bus.journal.clients import RecordedCalls


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """The journal and the registry of this process."""

    settings: Settings
    journal: Journal
    registry: AgentRegistry
    local_observers: dict[str, tuple[AgentObserver, ...]] = field(default_factory=dict)
    """Observers given as objects, by the id of their inline run."""
    replays: dict[str, RecordedCalls] = field(default_factory=dict)
    """Of threads in which a test replays a run: the outcomes that its calls get, by the thread's id."""
    policies: PolicySource = field(default_factory=PolicySource)
    """The policy of the runs that begin; by default the shipped rules alone."""
    tools: Mapping[str, Tool] = field(default_factory=dict)
    """Tools given as objects, by name; they take precedence over plugins and dotted paths."""
    model_keys: ModelKeys = field(default_factory=ModelKeys)
    """The keys of models, as far as they are missing here."""


_process: Process | None = None
_opening = threading.Lock()


def current_process(with_settings: Settings | None = None) -> Process:
    """Return this process's journal and registry, opened at the first call and reopened for other settings.

    Raises:
        SchemaOld, SchemaNew: the database has another schema than this code.
    """
    global _process
    with _opening:
        if _process is None or with_settings not in (None, _process.settings):
            _process = open_process(with_settings or settings())
        return _process


@journal_source
def opened_process() -> Process | None:
    """Return this process's journal and registry, or None where nothing has opened them."""
    return _process


def open_process(with_settings: Settings) -> Process:
    """Return a journal and a registry for these settings.

    If they name no Redis and `up` runs on the same state folder, its Redis is used, so that live events arrive.

    Raises:
        SettingInvalid: the deployment's guardrails or its keys for originals cannot be used.
    """
    guardrails_of(with_settings)
    sealer_of(with_settings)
    allow_threads(with_settings.tool_threads)
    with_settings = with_running_redis(with_settings)
    journal = Journal(with_settings, publish=Publisher(with_settings), guard=partial(guard_of, with_settings))
    require_current(journal.database)
    return Process(
        settings=with_settings,
        journal=journal,
        registry=AgentRegistry(
            with_settings.agent_folders, with_settings.local_principal, journal.stores.agent_versions
        ),
        policies=PolicySource(with_settings.policy_places),
    )


def use_process(process: Process | None) -> None:
    """Set the result of ``current_process``, so that a Runner and the handler in one process share one journal."""
    global _process
    with _opening:
        _process = process


@after_fork
def _forget() -> None:
    global _process, _opening
    leave_to_parent(_process)
    _process, _opening = None, threading.Lock()
