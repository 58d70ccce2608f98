"""Writes the heads of the audit log outside the database: to this process's log, and to observers that want them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from bus.identity.audit.anchors import WORDS, AuditHead
from bus.identity.audit.due_heads import KnownHeads
from config.database.engine import Database
from config.definitions.errors import PluginUnknown
from config.settings import Settings
from observers.base import AgentObserver
from observers.discovery import OBSERVERS, observers_for
from observers.invoker import queue_of
from observers.queue import name_of

log = logging.getLogger(__name__)


def write_audit_heads(head_store: KnownHeads, database: Database, settings: Settings) -> int:
    """Write the heads that are due in this process, which has one ``known``, and return how many."""
    heads = head_store.due(database)
    for head in heads:
        log.info(WORDS, extra=head.facts())
    for observer in _wanting(settings) if heads else ():
        for head in heads:
            queue_of(observer).call(partial(_give, observer, head))
    return len(heads)


def _wanting(settings: Settings) -> Iterable[AgentObserver]:
    """Return the installed observers that override the hook, each once."""
    by_id: dict[int, AgentObserver] = {}
    for name in OBSERVERS.names(settings):
        try:
            if OBSERVERS.find(name, settings).on_audit_head is not AgentObserver.on_audit_head:
                observer = observers_for([name], settings)[0]
                by_id[id(observer)] = observer
        except PluginUnknown as error:
            log.warning("observer '%s' does not get the heads of the audit log: %s", name, error)
    return by_id.values()


def _give(observer: AgentObserver, head: AuditHead) -> None:
    try:
        observer.on_audit_head(head)
    except BaseException as error:  # also SystemExit: an observer ends nothing but its own work
        log.warning("observer '%s' raised %s for a head of the audit log", name_of(observer), type(error).__name__)
