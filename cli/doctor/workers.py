"""The living workers: one machine on SQLite, clocks that agree with the database's, one release."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import select

from bus.journal.workers import alive
from config.clock import epoch_ms
from config.database import Database
from config.settings import Settings
from config.version import own_version
from web.terminal.looks.database import usable_database
from web.terminal.looks.finding import Found, Verdict

SKEW_SEEN_MS = 2_000
"""More than this shows in the times people read."""
SKEW_WRONG_MS = 60_000
"""More than this is a clock that nobody sets."""

Worker = Mapping[str, Any]


def look_at_workers(settings: Settings) -> Found:
    """Yield what is wrong with the workers that live now, and with this machine's clock."""
    with usable_database(settings) as database:
        if database is None:
            return
        with database.read() as connection:
            workers = alive(database, connection)
        findings = [*hosts(workers, database), *releases(workers)]
        if not database.is_sqlite:  # SQLite has no clock but that of who asks
            findings += clocks([*workers, {"skew_ms": own_skew_ms(database)}])
    yield from findings
    if not findings:
        places = len({worker["host"] for worker in workers})
        yield "ok", f"{len(workers)} alive" + (f" on {places} machines" if places > 1 else "")


def hosts(workers: Iterable[Worker], database: Database) -> Iterator[tuple[Verdict, str]]:
    """Yield when several machines use one SQLite file."""
    names = sorted({str(worker["host"]) for worker in workers})
    if database.is_sqlite and len(names) > 1:
        yield (
            "fail",
            f"workers of {len(names)} machines ({', '.join(names)}) use one SQLite file; SQLite's locks, and the "
            "clock leases are measured by, hold on one machine only, so runs are worked on twice or lost. Stop all "
            "but one, or move to Postgres (CALLBOARD_DATABASE_URL).",
        )


def releases(workers: Iterable[Worker]) -> Iterator[tuple[Verdict, str]]:
    """Yield which workers run another release than this one."""
    others = sorted({str(worker["version"]) for worker in workers if worker["version"]} - {own_version()})
    if others:
        yield "warn", f"workers of release {', '.join(others)} are alive, and this is {own_version()}; restart them"


def clocks(workers: Iterable[Worker]) -> Iterator[tuple[Verdict, str]]:
    """Yield whose clock is not the database's; the one without a host is this machine's."""
    for worker in workers:
        skew_ms = worker["skew_ms"]
        if skew_ms is None or abs(skew_ms) <= SKEW_SEEN_MS:
            continue
        who = f"worker {worker['pid']} on {worker['host']}" if "host" in worker else "this machine"
        yield (
            "fail" if abs(skew_ms) > SKEW_WRONG_MS else "warn",
            f"the clock of {who} is {abs(skew_ms) / 1000:.1f} s {'ahead of' if skew_ms > 0 else 'behind'} the "
            "database's. Leases follow the database, so no run is lost; but times in logs and events are wrong by "
            "that much, and so is when an unanswered question expires. Have the clock set over the network "
            "(`timedatectl set-ntp true`).",
        )


def own_skew_ms(database: Database, own_clock: Callable[[], int] = epoch_ms) -> int:
    """Return how far this machine's clock is ahead of the database's, give or take half a round trip."""
    with database.read() as connection:
        connection.execute(select(database.wall_clock()))  # connects; the second one is measured
        before = own_clock()
        theirs: int = connection.execute(select(database.wall_clock())).scalar_one()
        after = own_clock()
    return (before + after) // 2 - theirs
