"""What a channel knows after its restart: which message has which run, and which messages it posted for it.

One SQLite file in the state folder, with ids and questions and without the persons' messages. One process uses it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from config.private_files import lock_private, open_private, private_folder
from observers.channels.errors import CHANNEL_RUNNING

KEPT_S = 7 * 24 * 3600
"""For how long an answered message is remembered; the platform does not deliver one again after that."""
FORGET_AGAIN_S = 3600
"""Between two deletions of what is too old."""
NOTES_KEPT_S = 60 * 24 * 3600
"""For how much longer notes are kept, since a run may wait for a person."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS talks (
    message_id TEXT PRIMARY KEY, place TEXT NOT NULL, author_id TEXT NOT NULL, at REAL NOT NULL,
    run_id TEXT, posted TEXT NOT NULL DEFAULT '[]', is_over INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS questions (
    token TEXT PRIMARY KEY, run_id TEXT NOT NULL, approval_id TEXT NOT NULL, talk TEXT NOT NULL, asker TEXT NOT NULL,
    digest TEXT, form TEXT, message_id TEXT, is_closed INTEGER NOT NULL DEFAULT 0, UNIQUE (run_id, approval_id)
);
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT NOT NULL, at REAL NOT NULL);
"""


@dataclass(kw_only=True, slots=True)
class Talk:
    """A person's message, and what was made of it."""

    message_id: str
    place: str
    author_id: str
    run_id: str | None = None
    posted: list[str] = field(default_factory=list)
    """The messages with the answer, in order."""


@dataclass(kw_only=True, slots=True)
class OpenQuestion:
    """A question of a run to a person."""

    token: str
    """What its buttons carry; no person can guess it."""
    run_id: str
    approval_id: str
    asker: str
    """Who started the run, by the id at the platform."""
    digest: str | None
    form: dict[str, Any] | None
    message_id: str | None = None
    is_closed: bool = False


class Records:
    """The file, open for as long as the process lives."""

    def __init__(self, path: Path, now_s: float) -> None:
        """Open or create the file.

        Raises:
            CHANNEL_RUNNING: another process has it.
        """
        private_folder(path.parent)
        lock = lock_private(path.with_suffix(".lock"))
        if lock is None:
            raise CHANNEL_RUNNING(path=path)
        self._lock = lock
        os.close(open_private(path))
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.executescript(_SCHEMA)
        self._forgot_s = 0.0
        self._forget(now_s)

    def _forget(self, now_s: float) -> None:
        if now_s - self._forgot_s < FORGET_AGAIN_S:
            return
        self._forgot_s, before_s = now_s, now_s - KEPT_S
        over = "SELECT message_id FROM talks WHERE is_over AND at < ?"
        self._database.execute(f"DELETE FROM questions WHERE talk IN ({over})", (before_s,))
        self._database.execute("DELETE FROM talks WHERE is_over AND at < ?", (before_s,))
        self._database.execute("DELETE FROM notes WHERE at < ?", (before_s - NOTES_KEPT_S,))

    def close(self) -> None:
        """Let another process open the file."""
        self._database.close()
        os.close(self._lock)

    def begin(self, talk: Talk, now_s: float) -> bool:
        """Write a message down and return whether it is new."""
        self._forget(now_s)
        row = (talk.message_id, talk.place, talk.author_id, now_s)
        sql = "INSERT OR IGNORE INTO talks (message_id, place, author_id, at) VALUES (?, ?, ?, ?)"
        return self._database.execute(sql, row).rowcount == 1

    def count_of(self, author_id: str, since_s: float) -> int:
        """Return how many messages of a person were taken since a time."""
        sql = "SELECT count(*) FROM talks WHERE author_id = ? AND at >= ?"
        return int(self._database.execute(sql, (author_id, since_s)).fetchone()[0])

    def note(self, name: str, value: Any, now_s: float) -> None:
        """Keep what a platform needs to find something again, such as how far a mailbox was read."""
        sql = "INSERT OR REPLACE INTO notes (name, value, at) VALUES (?, ?, ?)"
        self._database.execute(sql, (name, json.dumps(value), now_s))

    def noted(self, name: str) -> Any:
        """Return what was kept last under a name; None: nothing."""
        row = self._database.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def unfinished(self) -> Iterator[Talk]:
        """Yield the messages whose answer is not complete, the oldest first."""
        sql = "SELECT message_id, place, author_id, run_id, posted FROM talks WHERE NOT is_over ORDER BY at"
        for message_id, place, author_id, run_id, posted in self._database.execute(sql).fetchall():
            ids = json.loads(posted)
            yield Talk(message_id=message_id, place=place, author_id=author_id, run_id=run_id, posted=ids)

    def started(self, talk: Talk, run_id: str) -> None:
        """Keep which run answers."""
        talk.run_id = run_id
        self._database.execute("UPDATE talks SET run_id = ? WHERE message_id = ?", (run_id, talk.message_id))

    def answers_in(self, place: str) -> set[str]:
        """Return the messages of all answers in a place."""
        rows = self._database.execute("SELECT posted FROM talks WHERE place = ?", (place,)).fetchall()
        return {message_id for row in rows for message_id in json.loads(row[0])}

    def posted(self, talk: Talk, message_ids: Sequence[str]) -> None:
        """Keep which messages have the answer."""
        talk.posted = list(message_ids)
        row = (json.dumps(list(message_ids)), talk.message_id)
        self._database.execute("UPDATE talks SET posted = ? WHERE message_id = ?", row)

    def over(self, talk: Talk) -> None:
        """Keep that nothing is left to do for a message."""
        self._database.execute("UPDATE talks SET is_over = 1 WHERE message_id = ?", (talk.message_id,))

    def ask(self, question: OpenQuestion, talk: Talk) -> OpenQuestion:
        """Return the question as it is kept: the first one of its approval."""
        form = None if question.form is None else json.dumps(question.form)
        own = (question.token, question.run_id, question.approval_id, talk.message_id, question.asker)
        sql = "INSERT OR IGNORE INTO questions (token, run_id, approval_id, talk, asker, digest, form)"
        self._database.execute(f"{sql} VALUES (?, ?, ?, ?, ?, ?, ?)", (*own, question.digest, form))
        return next(self._questions("run_id = ? AND approval_id = ?", question.run_id, question.approval_id))

    def question(self, token: str) -> OpenQuestion | None:
        """Return the question whose buttons carry this token."""
        return next(self._questions("token = ?", token), None)

    def open_questions(self, talk: Talk) -> list[OpenQuestion]:
        """Return the questions of an answer that take one yet."""
        return list(self._questions("talk = ? AND NOT is_closed", talk.message_id))

    def asked(self, question: OpenQuestion, message_id: str) -> None:
        """Keep which message has the question."""
        question.message_id = message_id
        self._database.execute("UPDATE questions SET message_id = ? WHERE token = ?", (message_id, question.token))

    def close_question(self, question: OpenQuestion) -> None:
        """Keep that the question takes no answer any more."""
        question.is_closed = True
        self._database.execute("UPDATE questions SET is_closed = 1 WHERE token = ?", (question.token,))

    def messages_of_questions(self, talk: Talk) -> set[str]:
        """Return the messages with the questions of an answer."""
        sql = "SELECT message_id FROM questions WHERE talk = ? AND message_id IS NOT NULL"
        return {row[0] for row in self._database.execute(sql, (talk.message_id,))}

    def _questions(self, condition: str, *values: str) -> Iterator[OpenQuestion]:
        names = "token, run_id, approval_id, asker, digest, form, message_id, is_closed"
        for row in self._database.execute(f"SELECT {names} FROM questions WHERE {condition}", values).fetchall():
            token, run_id, approval_id, asker, digest, form, message_id, is_closed = row
            yield OpenQuestion(
                token=token,
                run_id=run_id,
                approval_id=approval_id,
                asker=asker,
                digest=digest,
                form=None if form is None else json.loads(form),
                message_id=message_id,
                is_closed=bool(is_closed),
            )
