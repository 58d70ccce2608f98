"""Executes one SELECT over a SQLite file in a process of its own, which the kernel ends at its time limit.

One instruction of SQLite's virtual machine can run for minutes (``printf('%.*c', 2000000000, 'x')``) without calling
the progress handler. A thread cannot be ended, so the query gets a process. The process runs this file
with ``-I -S`` and imports nothing but the standard library: it starts in about 20 ms.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
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
JSON_FUNCTIONS = frozenset(
    """
    -> ->> json json_array json_array_length json_each json_extract json_group_array json_group_object json_object
    json_quote json_tree json_type json_valid likely quote random rank snippet unhex unlikely bm25 highlight match
    timediff
    """.split()
)
"""Functions that a query of a live database may call as well."""
LIVE_FILE_BYTES = 1024 * 1024
"""What SQLite may write beside a live database: the index of its write-ahead log."""
LIVE_VALUE = 16 * 1024 * 1024
"""Bytes of the longest value of a live database, including intermediate ones."""
_SCHEMA = ("sqlite_master", "sqlite_schema", "sqlite_temp_master", "sqlite_temp_schema")
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


class QueryProcess:
    """The process of one query; ``kill`` ends it from any thread, also before it has begun."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False

    def kill(self) -> None:
        with self._lock:
            self._is_killed = True
            if self._process is not None:
                self._process.kill()  # does nothing where it has been waited for

    def answer(self, request: bytes, limit_s: float) -> tuple[int, bytes]:
        """Return the exit status and the output.

        Raises:
            QueryFailed: it took longer than ``limit_s``, or was killed.
        """
        pipe = subprocess.PIPE
        with self._lock:
            if self._is_killed:
                raise QueryFailed(OUT_OF_TIME)
            command = [sys.executable, "-I", "-S", __file__]
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd="/", env={})
        with self._process as process:
            try:
                output, _ = process.communicate(request, timeout=limit_s)
            except subprocess.TimeoutExpired as error:
                raise QueryFailed(OUT_OF_TIME) from error
            finally:
                process.kill()
        return process.returncode, output


def ask(
    file: Path,
    sql: str,
    *,
    time_s: float,
    max_rows: int,
    max_cell: int,
    is_live: bool = False,
    process: QueryProcess | None = None,
) -> dict[str, Any]:
    """Return ``columns``, ``rows``, ``is_cut`` and ``cut_values`` of one SELECT.

    It takes ``time_s`` at most, and the start of a process.
    ``rows`` has at most ``max_rows`` rows with values of at most ``max_cell`` characters; bytes are in hex.

    Args:
        file: the database.
        sql: the query.
        time_s: seconds that it may take.
        max_rows: rows of the answer at most.
        max_cell: characters of one value at most.
        is_live: whether others write to the file meanwhile. Its schema can be read then, and its long values.
        process: what ``kill`` ends the query with.

    Raises:
        QueryFailed: SQLite refused it, or it exceeded its time or memory.
    """
    question = {"file": file.as_uri(), "sql": sql, "time_s": time_s, "max_rows": max_rows, "max_cell": max_cell}
    question |= {"is_live": is_live, "is_fixed": is_live and _is_fixed(file)}
    if not _places.acquire(timeout=START_S):
        raise QueryFailed(OUT_OF_TIME)
    try:
        status, output = (process or QueryProcess()).answer(json.dumps(question).encode(), START_S + time_s)
    finally:
        _places.release()
    return _answer_of(status, output)


def _is_fixed(file: Path) -> bool:
    """Return whether nothing can be written beside the file and no write-ahead log is there: SQLite needs its index."""
    return not os.access(file.parent, os.W_OK) and not os.path.exists(f"{file}-wal")


def _answer_of(status: int, output: bytes) -> dict[str, Any]:
    if status in (-signal.SIGALRM, -signal.SIGXCPU):
        raise QueryFailed(OUT_OF_TIME)
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError as error:  # the process was killed, or had no memory left to report that
        raise QueryFailed(OUT_OF_MEMORY) from error
    if "problem" in answer:
        raise QueryFailed(answer["problem"])
    return answer


# --- in the process -------------------------------------------------------------------------------


def main() -> None:
    """Read a question from standard input and write its answer to standard output."""
    question = json.loads(sys.stdin.buffer.read())
    _limit_process(question["time_s"], LIVE_FILE_BYTES if question["is_live"] else 0)
    try:
        answer = _answer(question)
    except MemoryError:
        answer = {"problem": OUT_OF_MEMORY}
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        answer = {"problem": str(error)}
    sys.stdout.write(json.dumps(answer))


def _limit_process(time_s: float, file_bytes: int) -> None:
    """Set the process's limits: end after ``time_s``, little memory, no file written beyond ``file_bytes``."""
    import resource

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM, signal.SIGXCPU})
    signal.setitimer(signal.ITIMER_REAL, time_s)
    cpu_s = int(time_s) + 2
    limits = {resource.RLIMIT_CPU: cpu_s, resource.RLIMIT_AS: MEMORY_BYTES}
    for kind, most in (limits | {resource.RLIMIT_FSIZE: file_bytes, resource.RLIMIT_CORE: 0}).items():
        try:
            resource.setrlimit(kind, (most, most))
        except (ValueError, OSError):
            continue  # the system lacks this limit (macOS: address space); the timer works everywhere


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    database = _connect(question["file"], question["is_live"], question["is_fixed"])
    cursor = database.execute(question["sql"])
    columns = [column[0] for column in cursor.description or ()]
    rows: list[list[Any]] = []
    most, chars, cut_values = question["max_cell"], 0, 0
    for row in cursor:
        if len(rows) == question["max_rows"] or chars > MAX_ANSWER:
            return {"columns": columns, "rows": rows, "is_cut": True, "cut_values": cut_values}
        rows.append([_cell(value, most) for value in row])
        cut_values += sum(_is_long(value, most) for value in row)
        chars += sum(len(value) if isinstance(value, str) else 8 for value in rows[-1])
    return {"columns": columns, "rows": rows, "is_cut": False, "cut_values": cut_values}


def _connect(uri: str, is_live: bool, is_fixed: bool) -> sqlite3.Connection:
    """Return a connection that is read-only by file, by pragma and by authorizer."""
    mode = "mode=ro" if is_live and not is_fixed else "mode=ro&immutable=1"
    database = sqlite3.connect(f"{uri}?{mode}", uri=True, cached_statements=0, timeout=1.0)
    if is_live:
        database.text_factory = _decoded
        for function in ("json_each", "json_tree"):  # SQLite declares a table for it, which the authorizer forbids
            database.execute(f"SELECT 1 FROM {function}('[]')")
    database.execute("PRAGMA query_only = ON")
    database.execute("PRAGMA temp_store = MEMORY")
    database.execute(f"PRAGMA hard_heap_limit = {HEAP_BYTES}")
    for limit, most in _LIMITS.items():
        database.setlimit(limit, LIVE_VALUE if is_live and limit == sqlite3.SQLITE_LIMIT_LENGTH else most)
    database.set_authorizer(_authorizer(is_live))
    return database


def _authorizer(is_live: bool) -> Callable[[int, str | None, str | None, str | None, str | None], int]:
    functions, schema_tables = (FUNCTIONS | JSON_FUNCTIONS, _SCHEMA) if is_live else (FUNCTIONS, ())

    def authorize(action: int, first: str | None, second: str | None, _db: str | None, _trigger: str | None) -> int:
        if action not in _ALLOWED:
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in functions:
            return sqlite3.SQLITE_DENY
        # An empty column is asked for by count(*); SQLite's own tables stay shut but for the schema of a live database.
        table = (first or "").lower()
        if action == sqlite3.SQLITE_READ and table.startswith(("sqlite_", "pragma_")) and table not in schema_tables:
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    return authorize


def _decoded(data: bytes) -> str:
    """Return a text, which SQLite does not check to be UTF-8."""
    return data.decode("utf-8", "replace")


def _is_long(value: Any, max_chars: int) -> bool:
    return isinstance(value, str | bytes) and len(value) > (max_chars // 2 if isinstance(value, bytes) else max_chars)


def _cell(value: Any, max_chars: int) -> Any:
    if isinstance(value, bytes):
        return value[: max_chars // 2].hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"  # JSON has no such numbers
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return value[:max_chars] if isinstance(value, str) else value


if __name__ == "__main__":
    main()
