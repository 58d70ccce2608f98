"""The Celery applications of this process: where their brokers and results are, and the open connections to them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from kombu.transport import TRANSPORT_ALIASES

from bus.celery_tasks.results import DatabaseResults, RedisResults
from bus.celery_tasks.sender import TaskSender
from bus.celery_tasks.state import TaskState
from bus.redis_wire import RedisAddress
from config.definitions.celery_tasks import CeleryApplication, load_application
from config.definitions.errors import DefinitionInvalid, ToolUnknown
from config.definitions.yaml_lines import yaml_files
from config.forks import after_fork, leave_to_parent
from config.redis.url import broker_form, each_url, redis_form
from config.settings import Settings
from config.watched_files import FileStamp, stamp_of

DATABASE = "db+"
READABLE = "write redis://…, rediss://…, or db+ and a SQLAlchemy URL"


class Results(Protocol):
    """The result backend of an application; to be used on the loop."""

    async def states(self, task_ids: Collection[str]) -> Mapping[str, TaskState]:
        """Return the state of each task; raises ``Retryable`` where the backend does not answer."""

    async def incarnation(self) -> str | None:
        """Return what changes when the backend may have lost entries before they expire; None where it does not say.

        Raises ``Retryable`` where the backend does not answer.
        """

    async def subscribe(self, task_id: str, listener: Callable[[], None]) -> bool:
        """Call ``listener`` when a task's state changes; returns whether changes arrive."""

    def unsubscribe(self, task_id: str, listener: Callable[[], None]) -> None:
        """Call ``listener`` no more."""

    def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApplicationAddress:
    """Where an application is reached."""

    broker: str = field(repr=False)
    """Its URL, which may have a password."""
    results: str | None = field(repr=False)
    """The URL of its result backend; None where results cannot be read."""
    broker_key_prefix: str
    result_key_prefix: str
    result_table: str


def find_application(application_id: str, settings: Settings) -> CeleryApplication:
    """Return the application whose file has this name.

    Raises:
        ToolUnknown: there is none.
        DefinitionInvalid: its file cannot be used.
    """
    for path in yaml_files(settings.celery_tasks_folders):
        if path.stem == application_id:
            return _loaded(path)
    raise ToolUnknown(f"there is no file config/celery_tasks/{application_id[:80]}.yaml any more.", name=application_id)


def _loaded(path: Path) -> CeleryApplication:
    """Return the application of a file, which is read again once it has changed; what it published stays."""
    try:
        stamp = stamp_of(path)
    except OSError:
        return load_application(path)
    with _lock:
        cache_entry = _applications.get(path)
    if cache_entry is not None and cache_entry[0] == stamp:
        return cache_entry[1]
    application = load_application(path)
    with _lock:
        _applications[path] = stamp, application
    return application


def address_of(application: CeleryApplication, settings: Settings) -> ApplicationAddress:
    """Return where an application is reached.

    Raises:
        DefinitionInvalid: no broker is named, or the result backend is one that other programs cannot read.
    """
    broker = application.url("broker") or settings.broker
    if broker is None:
        problem = "no broker is named here, and Callboard has none; write the application's `broker`."
        raise DefinitionInvalid(application.file, None, "broker", problem)
    _require_url(broker, application.file, "broker")
    named = application.url("result_backend")
    if named is not None:
        _require_url(named, application.file, "result_backend")
    results = named or (broker if redis_form(broker) is not None else None)
    if results is not None:
        _require_readable(results, application.file)
        _require_same(results, application)
    return ApplicationAddress(
        broker=broker,
        results=results,
        broker_key_prefix=application.broker_key_prefix,
        result_key_prefix=application.result_key_prefix,
        result_table=application.result_table,
    )


def _require_url(url: str, file: str, field: str) -> None:
    try:
        scheme = urlsplit(broker_form(each_url(url)[0])).scheme.partition("+")[0]
    except ValueError as error:
        raise DefinitionInvalid(file, None, field, "is not a URL; write redis://host:6379/0, for example.") from error
    if field == "broker" and scheme not in TRANSPORT_ALIASES:
        transports = "redis, rediss, amqp, amqps and others that kombu knows"
        raise DefinitionInvalid(file, None, field, f"no transport is called '{scheme[:40]}'; there are {transports}.")


def _require_readable(url: str, file: str) -> None:
    scheme = url.partition(":")[0]
    if scheme.startswith(DATABASE) or redis_form(url) is not None:
        return
    if scheme in ("rpc", "amqp"):
        problem = f"`{scheme}` sends each result to the program that asked, and no other can read it; {READABLE}."
    else:
        problem = f"results cannot be read from `{scheme[:40]}`; {READABLE}."
    raise DefinitionInvalid(file, None, "result_backend", problem)


def _require_same(url: str, application: CeleryApplication) -> None:
    """Check that results are read where they are written: elsewhere every task looks as if it had not begun."""
    backend, form = application.published_results, redis_form(url)
    problem = None
    if backend.kind == "redis" and form is None:
        problem = "is no Redis, and the application publishes that its results are in one."
    elif backend.kind == "database" and form is not None:
        problem = "is a Redis, and the application publishes that its results are in a database."
    elif backend.kind == "redis" and form is not None and backend.db not in (None, RedisAddress.of(form).db):
        db = RedisAddress.of(form).db
        problem = f"is database {db} of a Redis, and the application publishes that its results are in {backend.db}."
    if problem is not None:
        raise DefinitionInvalid(application.file, None, "result_backend", problem)


# --- open connections -----------------------------------------------------------------------------

_lock = threading.Lock()
_applications: dict[Path, tuple[FileStamp, CeleryApplication]] = {}
_senders: dict[tuple[str, str], TaskSender] = {}
_results: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[ApplicationAddress, Results]] = WeakKeyDictionary()


@after_fork
def _renew() -> None:
    global _lock, _applications, _senders, _results
    leave_to_parent((_senders, _results))
    _lock, _applications, _senders, _results = threading.Lock(), {}, {}, WeakKeyDictionary()


def sender_to(address: ApplicationAddress) -> TaskSender:
    """Return this process's sender to a broker."""
    with _lock:
        key = address.broker, address.broker_key_prefix
        if key not in _senders:
            _senders[key] = TaskSender(*key)
        return _senders[key]


def results_in(address: ApplicationAddress) -> Results:
    """Return this loop's reader of a result backend.

    Raises:
        ToolUnknown: no installed driver serves it.
    """
    assert address.results is not None, "a place without results is never asked for them"
    with _lock:
        mine = _results.setdefault(asyncio.get_running_loop(), {})
        if address not in mine:
            mine[address] = _opened(address, address.results)
        return mine[address]


def _opened(address: ApplicationAddress, url: str) -> Results:
    if url.startswith(DATABASE):
        return DatabaseResults(url.removeprefix(DATABASE), address.result_table)
    return RedisResults(redis_form(url) or url, address.result_key_prefix)


def close_applications() -> None:
    """Close every connection to applications; the next call opens others."""
    with _lock:
        senders = list(_senders.values())
        readers = [(loop, reader) for loop, by_address in _results.items() for reader in by_address.values()]
        _senders.clear()
        _results.clear()
    for sender in senders:
        sender.close()
    for loop, reader in readers:
        if not loop.is_closed():
            loop.call_soon_threadsafe(reader.close)  # its connections are the loop's


def read_applications(folders: Collection[Path]) -> tuple[list[CeleryApplication], list[DefinitionInvalid]]:
    """Return the usable applications, and what is wrong with the files of the others."""
    usable, broken = [], []
    for path in yaml_files(tuple(folders)):
        try:
            usable.append(load_application(path))
        except DefinitionInvalid as error:
            broken.append(error)
    return usable, broken
