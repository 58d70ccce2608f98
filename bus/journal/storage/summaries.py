"""The summaries of threads that have grown long: rows that are added, and dropped or restored, but never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from bus.identity.access import require
from bus.journal.errors import SUMMARY_UNKNOWN, ThreadUnknown
from bus.journal.paging import newest_first, present, threads_of
from bus.journal.records.threads import HistoryItem, Past, Summary, history
from config.clock import stamp
from config.database.engine import WALL_MS, Database
from config.database.tables import messages, runs, summaries, threads
from config.failpoints import failpoint
from config.identity.principal import Principal, Verb
from config.ids import new_id
from config.policy_decision import PolicyDecision

WINDOW_PART = 4
"""A summary takes at most one such part of what a model is shown; a longer one is not used."""
MOST_LISTED = 1000
"""Summaries of a thread that are listed where no limit is named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewSummary:
    """A summary that a model has written."""

    thread_key: int
    agent_id: str
    from_number: int
    last: HistoryItem
    """The last message that it replaces."""
    text: str
    facts: Mapping[str, Any]
    """As in ``Summary``."""
    model: str
    decision: PolicyDecision
    usage: Mapping[str, Any] | None
    cost_usd: float | None


class Summaries:
    """Reads what there is to summarise, keeps summaries, lists and drops them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def past(self, thread_key: int, agent_id: str, turn: int, max_chars: int, window_chars: int) -> tuple[Past, int]:
        """Return the newest messages up to those of ``turn`` behind the newest summary that fits the window, and before
        which turn all runs of the thread have ended."""
        with self._database.read() as connection:
            summary = newest_summary(connection, thread_key, agent_id, turn + 1, window_chars)
            open_turn = connection.execute(_FIRST_OPEN, {"thread_": thread_key}).scalar()
            past = history(connection, thread_key, turn, max_chars, summary)
            return past, turn + 1 if open_turn is None else open_turn

    def messages(self, thread_key: int, turn: int, max_chars: int) -> Past:
        """Return the newest messages up to those of ``turn``, also those that a summary replaces."""
        with self._database.read() as connection:
            return history(connection, thread_key, turn, max_chars)

    def add(self, new: NewSummary) -> bool:
        """Keep a summary, and return whether its thread still has what it replaces; of two at once the newest counts.

        A thread may have been removed meanwhile, and another one have its key.
        """
        last = new.last
        with self._database.write() as connection:
            connection.execute(select(threads.c.key).where(threads.c.key == new.thread_key).with_for_update())
            if connection.execute(_MESSAGE_ID, {"thread_": new.thread_key, "number_": last.number}).scalar() != last.id:
                return False
            row = {
                "id": new_id("sum"),
                "thread_key": new.thread_key,
                "agent_id": new.agent_id,
                "from_number": new.from_number,
                "upto_turn": last.turn,
                "upto_number": last.number,
                "text": new.text,
                "facts_json": orjson.dumps(dict(new.facts)).decode(),
                "model": new.model,
                "decision_json": orjson.dumps(new.decision.as_json()).decode(),
                "usage_json": orjson.dumps(dict(new.usage)).decode() if new.usage else None,
                "cost_usd": new.cost_usd,
                "created_ms": WALL_MS,
            }
            connection.execute(insert(summaries).values(**row))
            failpoint("summary-before")
        failpoint("summary")
        return True

    def of_thread(
        self,
        principal: Principal,
        thread_id: str,
        owner: str | None = None,
        *,
        limit: int = MOST_LISTED,
        before_ms: int | None = None,
        before_id: str = "",
    ) -> list[dict[str, Any]]:
        """Return the summaries of a thread, the newest first, with those that were dropped.

        The next page begins after the last one's time and id.

        Raises:
            ThreadUnknown: it does not exist, or the principal does not see it.
        """
        with self._database.read() as connection:
            thread = _thread(connection, principal, thread_id, owner)
            query = select(summaries).where(summaries.c.thread_key == thread.key)
            order = summaries.c.created_ms, summaries.c.id
            query = newest_first(query, *order, limit=limit, before_ms=before_ms, before_id=before_id)
            return [_shown(row) for row in connection.execute(query)]

    def drop(
        self,
        principal: Principal,
        thread_id: str,
        summary_id: str,
        *,
        is_dropped: bool = True,
        owner: str | None = None,
    ) -> dict[str, Any]:
        """Let a summary count no more, or again, and return it: the next run of the thread is given another past.

        Raises:
            ThreadUnknown, SUMMARY_UNKNOWN: it does not exist, or the principal does not see it.
            FORBIDDEN: the principal may not change the thread.
        """
        with self._database.write() as connection:
            thread = _thread(connection, principal, thread_id, owner)
            require(principal, Verb.CONTROL, thread, "this thread")
            ours = summaries.c.thread_key == thread.key, summaries.c.id == summary_id
            values = {"dropped_ms": WALL_MS, "dropped_by": principal.id} if is_dropped else dict.fromkeys(_DROPPED)
            changes = summaries.c.dropped_ms.is_(None) if is_dropped else summaries.c.dropped_ms.is_not(None)
            connection.execute(update(summaries).where(*ours, changes).values(**values))
            row = connection.execute(select(summaries).where(*ours)).first()
        if row is None:
            raise SUMMARY_UNKNOWN(summary_id=summary_id[:80])
        return _shown(row)


_DROPPED = ("dropped_ms", "dropped_by")


def newest_summary(
    connection: Connection, thread_key: int, agent_id: str, before_turn: int, max_chars: int
) -> Summary | None:
    """Return an agent's newest summary of a thread that counts and replaces no message of ``before_turn`` or later.

    None where it would take more than its part of ``max_chars``.
    """
    row = connection.execute(
        _NEWEST, {"thread_": thread_key, "agent_": agent_id, "before": before_turn, "most": max_chars // WINDOW_PART}
    ).first()
    if row is None:
        return None
    return Summary(
        id=row.id,
        from_number=row.from_number,
        upto=(row.upto_turn, row.upto_number),
        text=row.text,
        facts=orjson.loads(row.facts_json),
        chars=row.chars,
        is_used=row.used_by is not None,
    )


def note_used(connection: Connection, summary_id: str | None, run_id: str) -> None:
    """Note which run is given a summary first, in the transaction in which its log says so."""
    if summary_id is not None:
        connection.execute(_NOTE_USED, {"summary_": summary_id, "run_": run_id})


def _thread(connection: Connection, principal: Principal, thread_id: str, owner: str | None) -> Row[Any]:
    row = connection.execute(select(threads).where(threads.c.id == thread_id, threads_of(principal, owner))).first()
    if row is None:
        raise ThreadUnknown(thread_id=thread_id)
    return row


def _shown(row: Row[Any]) -> dict[str, Any]:
    return present(
        {
            "summary_id": row.id,
            "agent": row.agent_id,
            "from_number": row.from_number,
            "upto_number": row.upto_number,
            "text": row.text,
            **orjson.loads(row.facts_json),
            "model": row.model,
            "usage": orjson.loads(row.usage_json) if row.usage_json else None,
            "cost_usd": row.cost_usd,
            "created_at": stamp(row.created_ms),
            "used_by": row.used_by,
            "dropped_at": stamp(row.dropped_ms) if row.dropped_ms is not None else None,
            "dropped_by": row.dropped_by,
        }
    )


# These statements are built once: building one takes longer than executing it.
_CHARS = func.length(summaries.c.text) + func.length(summaries.c.facts_json)
_NEWEST = (
    select(summaries, _CHARS.label("chars"))
    .where(summaries.c.thread_key == bindparam("thread_"), summaries.c.agent_id == bindparam("agent_"))
    .where(summaries.c.dropped_ms.is_(None), summaries.c.upto_turn < bindparam("before"))
    .where(bindparam("most") >= _CHARS)
    .order_by(summaries.c.upto_turn.desc(), summaries.c.upto_number.desc(), summaries.c.created_ms.desc())
    .limit(1)
)
_NOTE_USED = update(summaries).where(summaries.c.id == bindparam("summary_")).values(used_by=bindparam("run_"))
_MESSAGE_ID = select(messages.c.id).where(
    messages.c.thread_key == bindparam("thread_"), messages.c.number == bindparam("number_")
)
_FIRST_OPEN = select(func.min(runs.c.turn)).where(runs.c.thread_key == bindparam("thread_"), runs.c.ended_ms.is_(None))
