"""What other rooms ask about runs, threads and workers, and remove; each call uses a connection of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from sqlalchemy import Row

from bus.journal import threads
from bus.journal.approvals import last_decided
from bus.journal.errors import ApprovalDecided
from bus.journal.idempotency import IdempotencyKey, used_before
from bus.journal.log.events import last_error
from bus.journal.log.reader import check_cursor
from bus.journal.ownership import workers
from bus.journal.ownership.workers import WorkerRow
from bus.journal.queries import runs
from bus.journal.queries.runs import RunFilter
from bus.journal.queries.wait_reasons import WaitReason, explain_run, explain_runs
from bus.journal.retention.removal import remove_runs, remove_threads, require_no_open_run, require_over
from bus.journal.who import Who
from bus.payloads import ErrorPayload
from config.database.engine import Database


class Runs:
    """The runs that a principal may see; of all others ``RunUnknown`` is raised."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def row(self, who: Who, run_id: str) -> Row[Any]:
        """Return a run's row."""
        with self._database.read() as connection:
            return runs.find_run(connection, who, run_id)

    def get(self, who: Who, run_id: str) -> dict[str, Any]:
        """Return one run as it is shown, with its open questions."""
        with self._database.read() as connection:
            return runs.get_run(connection, who, run_id)

    def get_small(self, who: Who, run_id: str, max_chars: int) -> dict[str, Any] | None:
        """Return one run as ``get`` does; None where its output or its questions are longer, which is not read."""
        with self._database.read() as connection:
            return runs.get_small_run(connection, who, run_id, max_chars)

    def newest(self, who: Who, **wanted: Unpack[RunFilter]) -> list[dict[str, Any]]:
        """Return runs, the newest first."""
        with self._database.read() as connection:
            return runs.list_runs(connection, who, **wanted)

    def page(self, who: Who, **wanted: Unpack[RunFilter]) -> tuple[list[dict[str, Any]], bool]:
        """Return runs as ``newest`` does, and whether the page ends early since their outputs have a megabyte."""
        with self._database.read() as connection:
            return runs.run_page(connection, who, **wanted)

    def board(self, who: Who) -> list[dict[str, Any]]:
        """Return every open run and the last ended ones, the newest first, without what may be large."""
        with self._database.read() as connection:
            return runs.board(connection, who)

    def status(self, run_id: str) -> str | None:
        """Return the status of a run of any principal; None where it was removed."""
        with self._database.read() as connection:
            return runs.status_of(connection, run_id)

    def model(self, run_id: str) -> str | None:
        """Return the model of a run of any principal; None where there is no such run."""
        with self._database.read() as connection:
            return runs.model_of(connection, run_id)

    def queued(self, default: str) -> dict[str, int]:
        """Return how many runs of all principals are queued, by queue; ``default`` is the name of the default queue."""
        with self._database.read() as connection:
            return runs.queued_by_queue(connection, default)

    def bounds(self, who: Who, run_id: str, cursor: int = 0) -> tuple[str, str, int]:
        """Return a run's thread, its status and the highest event number it may have used, for a reader.

        Raises:
            CursorAhead: ``cursor`` lies beyond that number.
        """
        with self._database.read() as connection:
            thread_id, status, last = runs.reader_bounds(connection, who, run_id)
        check_cursor(cursor, last)
        return thread_id, status, last

    def last_error(self, run_id: str) -> ErrorPayload | None:
        """Return the last error in the log of a run of any principal, if there is one."""
        with self._database.read() as connection:
            return last_error(connection, run_id)

    def started_before(self, who: Who, key: IdempotencyKey) -> str | None:
        """Return the run that an earlier request with this key is about.

        Raises:
            IdempotencyConflict: the key was used with another body.
        """
        with self._database.read() as connection:
            return used_before(connection, who, key)

    # --- what they wait for

    def questions(self, who: Who, run_id: str) -> list[dict[str, Any]]:
        """Return a run's open questions, the oldest first."""
        with self._database.read() as connection:
            return runs.asked_now(connection, who, run_id)

    def last_decided(self, who: Who, run_id: str) -> ApprovalDecided | None:
        """Return the answer to a run's newest question, as the error that a later answer gets; None without one."""
        with self._database.read() as connection:
            runs.find_run(connection, who, run_id)
            return last_decided(connection, run_id)

    def explain_runs(self, who: Who, *, agent: str | None = None, thread_id: str | None = None) -> list[WaitReason]:
        """Return what each open run waits for, or those of one agent or thread; the oldest run first."""
        with self._database.read() as connection:
            return explain_runs(connection, self._database, who, agent=agent, thread_id=thread_id)

    def explain_run(self, who: Who, run_id: str) -> WaitReason | None:
        """Return what one run waits for; None where it has ended."""
        with self._database.read() as connection:
            return explain_run(connection, self._database, who, run_id)

    # --- removing

    def require_removable(self, who: Who, run_ids: Sequence[str]) -> None:
        """Return if ``remove`` would remove these runs now.

        Raises:
            RunOpen: one of them has not ended.
        """
        with self._database.read() as connection:
            require_over(connection, who, run_ids)

    def remove(self, who: Who, run_ids: Sequence[str]) -> None:
        """Remove ended runs with their logs and steps; their threads keep the messages. All of them go, or none.

        Raises:
            RunOpen: one of them has not ended.
        """
        remove_runs(self._database, who, run_ids)


class Threads:
    """The threads that a principal may see. ``ThreadUnknown`` is raised where there is none, or it is another's."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def newest(
        self, who: Who, *, search: str | None = None, limit: int = 50, before_ms: int | None = None, before_id: str = ""
    ) -> list[dict[str, Any]]:
        """Return threads, the one used last first; the next page begins behind the last one's time and id."""
        with self._database.read() as connection:
            return threads.list_threads(
                connection, who, search=search, limit=limit, before_ms=before_ms, before_id=before_id
            )

    def get(self, who: Who, thread_id: str) -> dict[str, Any]:
        """Return one thread with its runs."""
        with self._database.read() as connection:
            return threads.get_thread(connection, who, thread_id)

    def open(self, who: Who, agent_id: str, title: str) -> str:
        """Make an empty thread and return its id."""
        with self._database.write() as connection:
            return threads.open_thread(connection, who, agent_id, title)

    def messages(self, who: Who, thread_id: str, *, limit: int = 200) -> list[dict[str, Any]]:
        """Return the first ``limit`` messages of a thread in reading order, whatever their size."""
        with self._database.read() as connection:
            return threads.list_messages(connection, who, thread_id, limit=limit)

    def message_page(
        self, who: Who, thread_id: str, *, after: tuple[int, int], limit: int
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return up to ``limit`` messages or a megabyte of them, and whether there may be more."""
        with self._database.read() as connection:
            return threads.message_page(connection, who, thread_id, after=after, limit=limit)

    def require_removable(self, who: Who, thread_ids: Sequence[str]) -> None:
        """Return if ``remove`` would remove these threads now.

        Raises:
            RunOpen: a run of one of them has not ended.
        """
        with self._database.read() as connection:
            require_no_open_run(connection, who, thread_ids)

    def remove(self, who: Who, thread_ids: Sequence[str]) -> None:
        """Remove threads with their messages and their runs. All of them go, or none.

        Raises:
            RunOpen: a run of one of them has not ended.
        """
        remove_threads(self._database, who, thread_ids)


class Workers:
    """The worker processes that are alive, as their rows say."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def alive(self) -> list[dict[str, Any]]:
        """Return the workers that renewed their rows within the last 15 seconds."""
        with self._database.read() as connection:
            return workers.alive(self._database, connection)

    def serving(self, queue: str | None) -> list[dict[str, Any]]:
        """Return those of them that serve a queue; None is the default queue."""
        return [worker for worker in self.alive() if workers.serves(worker, queue)]

    def renew(self, row: WorkerRow) -> None:
        """Record that this worker is alive now."""
        workers.seen(self._database, row)

    def forget(self, worker_id: str) -> None:
        """Delete the row of a worker that ends."""
        workers.forget(self._database, worker_id)
