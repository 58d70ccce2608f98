"""Back up the database while it is in use: the copy is one consistent snapshot, or there is none."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.engine import URL, make_url

from config.database.engine import BUSY_TIMEOUT_MS, open_database
from config.database.errors import BACKUP_EXISTS, BACKUP_FAILED
from config.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Backup:
    """A finished copy."""

    file: Path
    size: int
    """Bytes."""
    kind: str
    """``sqlite``: a database file; ``postgres``: an archive for pg_restore."""


def back_up(settings: Settings, file: Path, *, force: bool = False) -> Backup:
    """Write a copy of the database to ``file``, readable by its owner alone, and return its facts.

    It is written to ``file.part``, checked, and renamed at the end, so an interrupted copy leaves only ``file.part``.
    Writers are not blocked; the copy has all of a transaction or nothing.

    Raises:
        BACKUP_EXISTS: ``file`` exists and ``force`` is not given, or it is the database itself.
        BACKUP_FAILED: there is nothing to copy, no space, or no ``pg_dump``.
    """
    url = make_url(settings.database)
    database = Path(url.database or "") if url.get_backend_name() == "sqlite" else None
    if file.exists():
        if database is not None and database.exists() and file.samefile(database):
            raise BACKUP_EXISTS(f"{file} is the database itself; name another file.")
        if not force or not file.is_file():
            raise BACKUP_EXISTS(f"{file} exists already; name another file, or replace it with --force.")
    with _part(file) as part:
        if database is not None:
            _copy_sqlite(database, part)
        else:
            _dump_postgres(url, settings, part)
    return Backup(file=file, size=file.stat().st_size, kind="postgres" if database is None else "sqlite")


@contextmanager
def _part(file: Path) -> Iterator[Path]:
    """Yield an empty file to write to; after the block it is synced and renamed to ``file``."""
    part = file.with_name(f"{file.name}.part")
    try:
        fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise BACKUP_FAILED(
            f"{part} cannot be written ({error.strerror}); name a file in a folder of yours."
        ) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BACKUP_FAILED(f"another backup is writing {part}; wait for it, or name another file.") from error
        os.ftruncate(fd, 0)
        os.fchmod(fd, 0o600)
        try:
            yield part
            os.fsync(fd)
            part.replace(file)
        except BaseException:
            for left in (part, *(part.with_name(part.name + end) for end in ("-wal", "-shm", "-journal"))):
                left.unlink(missing_ok=True)
            raise
    finally:
        os.close(fd)
    folder = os.open(file.parent, os.O_RDONLY)
    with contextlib.suppress(OSError):  # some file systems do not support it
        os.fsync(folder)
    os.close(folder)


def _copy_sqlite(database: Path, part: Path) -> None:
    """Copy in one step, which reads one snapshot and in WAL mode does not block writers.

    A copy in several steps restarts whenever a writer commits in between, and might never end.
    """
    if not database.is_file():
        raise BACKUP_FAILED(f"there is no database at {database} yet; nothing was copied.")
    try:
        with closing(_open(database)) as source, closing(_open(part)) as copy:
            source.backup(copy, pages=-1)
        with closing(_open(part)) as copy:
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, with nothing beside it
            problems = [row[0] for row in copy.execute("PRAGMA integrity_check(3)")]
    except sqlite3.Error as error:
        raise BACKUP_FAILED(f"the copy could not be made ({error}); make space on the disk of {part}.") from error
    if problems != ["ok"]:
        raise BACKUP_FAILED(
            f"the copy is damaged ({problems[0]}), and {database} may be too; restore an earlier backup soon."
        )


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_TIMEOUT_MS / 1000)


def _dump_postgres(url: URL, settings: Settings, part: Path) -> None:
    """Let ``pg_dump`` write an archive: one snapshot of the database, without locks that block writers."""
    with closing(open_database(settings.database)) as database, database.read() as connection:
        server = int(connection.execute(text("SHOW server_version_num")).scalar_one()) // 10_000
    password = url.password or url.query.get("password")
    # ``set(password=None)`` would change nothing. Other users of this machine can read command lines.
    public_url = url.set(drivername="postgresql").difference_update_query(["password"])._replace(password=None)
    address = public_url.render_as_string()
    tool = shutil.which("pg_dump")
    if tool is None or _version(tool) < server:
        fault = "is not on the PATH" if tool is None else f"on the PATH has version {_version(tool)}"
        raise BACKUP_FAILED(
            f"pg_dump {fault} and the server has version {server}; install its client tools, or run where they are: "
            f"pg_dump --format=custom --file={part.name.removesuffix('.part')} '{address}'"
        )
    command = [tool, "--format=custom", "--no-password", f"--file={part}", f"--dbname={address}"]
    environment = os.environ | ({"PGPASSWORD": str(password)} if password else {})
    ran = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        lines = ran.stderr.strip().splitlines() or ["it gave no reason"]
        message = next((line for line in lines if "error:" in line), lines[0])
        raise BACKUP_FAILED(f"{message[:300]}; nothing was written.")


def _version(tool: str) -> int:
    """Return the major version of a Postgres tool; 0 if its output has none."""
    output = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"(\d+)", output)
    return int(match[1]) if match else 0
