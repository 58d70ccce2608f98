"""Executes one SELECT over a SQLite file in a process of its own, which the kernel ends at its time limit.

One instruction of SQLite's virtual machine can run for minutes (``printf('%.*c', 2000000000, 'x')``) without calling
the progress handler. A thread cannot be ended, so the query gets a process. The process runs this file
with ``-I -S`` and imports nothing but the standard library: it starts in about 20 ms.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

MAX_PROCESSES = 8
"""Concurrent queries of one worker process; the next one waits."""
START_S = 8.0
"""Seconds a process may take to start on a busy machine, beside the query's own time."""
MEMORY_BYTES = 256 * 1024 * 1024
"""Address space of the process."""
HEAP_BYTES = 64 * 1024 * 1024
"""What SQLite itself may allocate."""
MAX_VALUE = 100_000
"""Bytes of the longest value, including intermediate ones."""
MAX_ANSWER = 1024 * 1024
"""Characters of an answer's values together."""

OUT_OF_TIME = "out of time"
OUT_OF_MEMORY = "out of memory"

FUNCTIONS = frozenset(
    """
    abs avg ceil ceiling char coalesce concat concat_ws count cume_dist date datetime dense_rank exp first_value
    floor format glob group_concat hex if ifnull iif instr julianday lag last_value lead length like ln log log10
    log2 lower ltrim max median min mod nth_value ntile nullif octet_length percent_rank percentile pi pow power
    printf rank replace round row_number rtrim sign sqrt strftime string_agg substr substring sum time total trim
    trunc typeof unicode unixepoch upper
    """.split()
)
"""Functions a query may call; any other is refused."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 20_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 50,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})

_places = threading.BoundedSemaphore(MAX_PROCESSES)


def _renew() -> None:
    """Reset the semaphore in a forked child: threads of the parent hold it."""
    global _places
    _places = threading.BoundedSemaphore(MAX_PROCESSES)


if hasattr(os, "register_at_fork"):  # not config/forks.py: this file is a program of its own too
    os.register_at_fork(after_in_child=_renew)


class QueryFailed(Exception):
    """The query has no answer; the text is SQLite's, ``OUT_OF_TIME`` or ``OUT_OF_MEMORY``."""


def ask(file: Path, sql: str, *, time_s: float, max_rows: int, max_cell: int) -> dict[str, Any]:
    """Return ``columns``, ``rows`` and ``is_cut`` of one SELECT, within ``time_s`` and the start of a process.

    ``rows`` has at most ``max_rows`` rows with values of at most ``max_cell`` characters; bytes are in hex.

    Raises:
        QueryFailed: SQLite refused it, or it exceeded its time or memory.
    """
    question = {"file": file.as_uri(), "sql": sql, "time_s": time_s, "max_rows": max_rows, "max_cell": max_cell}
    if not _places.acquire(timeout=START_S):
        raise QueryFailed(OUT_OF_TIME)
    try:
        command, limit_s = [sys.executable, "-I", "-S", __file__], START_S + time_s
        asked = json.dumps(question).encode()
        done = subprocess.run(command, input=asked, capture_output=True, timeout=limit_s, check=False, cwd="/", env={})
    except subprocess.TimeoutExpired as error:
        raise QueryFailed(OUT_OF_TIME) from error
    finally:
        _places.release()
    return _answer_of(done)


def _answer_of(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    if done.returncode in (-signal.SIGALRM, -signal.SIGXCPU):
        raise QueryFailed(OUT_OF_TIME)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:  # the process was killed, or had no memory left to report that
        raise QueryFailed(OUT_OF_MEMORY) from error
    if "problem" in answer:
        raise QueryFailed(answer["problem"])
    return answer


# --- in the process -------------------------------------------------------------------------------


def main() -> None:
    """Read a question from standard input and write its answer to standard output."""
    question = json.loads(sys.stdin.buffer.read())
    _limit_process(question["time_s"])
    try:
        answer = _answer(question)
    except MemoryError:
        answer = {"problem": OUT_OF_MEMORY}
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        answer = {"problem": str(error)}
    sys.stdout.write(json.dumps(answer))


def _limit_process(time_s: float) -> None:
    """Set the process's limits: end after ``time_s``, little memory, no writable file."""
    import resource

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM, signal.SIGXCPU})
    signal.setitimer(signal.ITIMER_REAL, time_s)
    cpu_s = int(time_s) + 2
    limits = {resource.RLIMIT_CPU: cpu_s, resource.RLIMIT_AS: MEMORY_BYTES}
    for kind, most in (limits | {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}).items():
        try:
            resource.setrlimit(kind, (most, most))
        except (ValueError, OSError):
            continue  # the system lacks this limit (macOS: address space); the timer works everywhere


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    database = _connect(question["file"])
    found = database.execute(question["sql"])
    columns = [column[0] for column in found.description or ()]
    rows: list[list[Any]] = []
    chars = 0
    for row in found:
        if len(rows) == question["max_rows"] or chars > MAX_ANSWER:
            return {"columns": columns, "rows": rows, "is_cut": True}
        rows.append([_cell(value, question["max_cell"]) for value in row])
        chars += sum(len(value) if isinstance(value, str) else 8 for value in rows[-1])
    return {"columns": columns, "rows": rows, "is_cut": False}


def _connect(uri: str) -> sqlite3.Connection:
    """Return a connection that is read-only by file, by pragma and by authorizer."""
    database = sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True, cached_statements=0)
    database.execute("PRAGMA query_only = ON")
    database.execute("PRAGMA temp_store = MEMORY")
    database.execute(f"PRAGMA hard_heap_limit = {HEAP_BYTES}")
    for limit, most in _LIMITS.items():
        database.setlimit(limit, most)
    database.set_authorizer(_authorize)
    return database


def _authorize(action: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None) -> int:
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in FUNCTIONS:
        return sqlite3.SQLITE_DENY
    # An empty column is asked for by count(*); tables of SQLite's own describe the file and stay shut.
    if action == sqlite3.SQLITE_READ and (first or "").lower().startswith(("sqlite_", "pragma_")):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _cell(value: Any, max_chars: int) -> Any:
    if isinstance(value, bytes):
        return value[:max_chars].hex()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return value[:max_chars] if isinstance(value, str) else value


if __name__ == "__main__":
    main()
