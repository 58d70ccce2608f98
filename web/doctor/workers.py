"""Checks of the live workers: one machine on SQLite, clocks as the database's, one release, enough connections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from socket import gethostname
from typing import Any

from agents.registry import AgentRegistry
from bus.journal.stores import Workers, abandoned_calls, missing_keys, pool_problem
from config.clock import epoch_ms
from config.database.engine import Database, allowed_connections, wall_ms
from config.definitions.agent import AgentDefinition
from config.definitions.plugins import changed_after, restart
from config.settings import Settings
from config.settings.project import own_version
from config.text.visible import visible
from web.doctor import Verdicts, fail, ok, warn
from web.doctor.database import reading_database

MOST_NAMED = 5
SKEW_SEEN_MS = 2_000
"""More than this is visible in displayed times."""
SKEW_WRONG_MS = 60_000
"""More than this is a clock without synchronization."""

Worker = Mapping[str, Any]
_NO_MODULES = ("celery:", "mcp:")


@reading_database
def check_workers(settings: Settings, database: Database) -> Verdicts:
    """Yield the problems of the live workers, and of this machine's clock."""
    workers = Workers(database).alive()
    findings = [*hosts(workers, database), *lost(Workers(database).listed())]
    findings += [*releases(workers), *outdated(settings, workers), *abandoned(workers), *keys(workers)]
    if not database.is_sqlite:  # SQLite uses the caller's clock
        findings += clocks([*workers, {"skew_ms": own_skew_ms(database)}])
        with database.read() as connection:
            findings += connections(settings, len(workers), allowed_connections(connection))
    yield from findings
    if not findings:
        machines = len({worker["host"] for worker in workers})
        yield ok(f"{len(workers)} alive" + (f" on {machines} machines" if machines > 1 else ""))


def hosts(workers: Iterable[Worker], database: Database) -> Verdicts:
    """Yield a failure if workers of several machines use one SQLite file."""
    names = sorted({str(worker["host"]) for worker in workers})
    if database.is_sqlite and len(names) > 1:
        yield fail(
            f"workers of {len(names)} machines ({', '.join(names)}) use one SQLite file; SQLite's locks and the "
            "leases' clock work on one machine only, so runs are executed twice or lost. Stop the workers of all "
            "machines but one, or move to Postgres (CALLBOARD_DATABASE_URL)."
        )


def lost(workers: Iterable[Worker]) -> Verdicts:
    """Yield a warning if workers of the last hour ended without a word."""
    names = [f"{visible(worker['host'])} process {worker['pid']}" for worker in workers if worker["state"] == "lost"]
    if names:
        others = f" and {len(names) - MOST_NAMED} others" if len(names) > MOST_NAMED else ""
        examples = ", ".join(names[:MOST_NAMED]) + others
        what = "worker was" if len(names) == 1 else "workers were"
        yield warn(
            f"{len(names)} {what} lost within an hour ({examples}): killed, out of memory, or cut off. Others "
            "continue their runs; the log of that machine says why, and `./callboard worker` starts another."
        )


def releases(workers: Iterable[Worker]) -> Verdicts:
    """Yield the workers that run another release than this one."""
    others = sorted({str(worker["version"]) for worker in workers if worker["version"]} - {own_version()})
    if others:
        yield warn(f"workers of release {', '.join(others)} are alive, and this is {own_version()}; restart them")


def outdated(settings: Settings, workers: Iterable[Worker]) -> Verdicts:
    """Yield a warning if a tool, an observer or a package was changed after workers of this machine had started."""
    if sentence := restart_sentence(settings, workers):
        yield warn(f"some have loaded older code than what is there.{sentence}")


def restart_sentence(settings: Settings, workers: Iterable[Worker]) -> str:
    """Return `` Restart the workers: …`` where code was changed after one of this machine had started, or nothing."""
    own = [
        datetime.fromisoformat(worker["started_at"]).timestamp()
        for worker in workers
        if worker["host"] == gethostname()
    ]
    agents = [agent for agent in AgentRegistry(settings.agent_folders).all() if isinstance(agent, AgentDefinition)]
    named = {path for agent in agents for path in (*agent.tools, *agent.observers)} | {*settings.plugin_paths}
    paths = sorted(path for path in named if re.fullmatch(r"[\w.]+:[\w.]+", path) and not path.startswith(_NO_MODULES))
    return restart(changed_after(min(own), paths)) if own else ""


def abandoned(workers: Iterable[Worker]) -> Verdicts:
    """Yield the calls that workers gave up and that still run; each keeps a thread of its worker."""
    calls = abandoned_calls(workers)
    if calls:
        names = ", ".join(f"{number} of {visible(tool)}" for tool, number in calls.items())
        yield warn(
            f"calls of tools that were given up have not ended: {names}. Give what blocks in them a time limit, or "
            "move it into a program that can be killed (docs/capabilities.md); restarting the workers ends them."
        )


def keys(workers: Sequence[Worker]) -> Verdicts:
    """Yield the models' keys that some of the workers lack; one that all lack is a finding about its agents."""
    for variables, entry in missing_keys(workers).items():
        lacking = [worker for worker in workers if variables in worker["missing_keys"]]
        if len(lacking) < len(workers):
            where = ", ".join(f"{visible(worker['host'])} process {worker['pid']}" for worker in lacking)
            agents = ", ".join(map(visible, entry["agents"]))
            yield warn(
                f"{len(lacking)} of {len(workers)} workers lack the model's key {visible(variables)} ({where}): they "
                f"give runs of {agents} back to the others, which takes seconds. Set it there and restart them."
            )


def clocks(workers: Iterable[Worker]) -> Verdicts:
    """Yield the clocks that differ from the database's; an entry without a host is this machine's."""
    for worker in workers:
        skew_ms = worker["skew_ms"]
        if skew_ms is None or abs(skew_ms) <= SKEW_SEEN_MS:
            continue
        who = f"worker {worker['pid']} on {worker['host']}" if "host" in worker else "this machine"
        yield (
            "fail" if abs(skew_ms) > SKEW_WRONG_MS else "warn",
            f"the clock of {who} is {abs(skew_ms) / 1000:.1f} s {'ahead of' if skew_ms > 0 else 'behind'} the "
            "database's. Leases use the database's clock, so no run is lost; but times in logs and events are wrong "
            "by that much, and approvals expire at the wrong time. Synchronize the clock (`timedatectl set-ntp true`).",
        )


def connections(settings: Settings, workers: int, allowed: int) -> Verdicts:
    """Yield a problem if the pools of the live workers and one web process may need more than Postgres allows, or if
    one of them is too small for its slots."""
    if (problem := pool_problem(settings)) is not None:
        yield "warn", problem
    pool = settings.database_pool_size + settings.database_max_overflow
    needed = pool * (workers + 1)
    if needed > allowed:
        yield (
            "fail" if pool > allowed else "warn",
            f"{workers} worker processes and a web process may open {needed} connections ({pool} each: "
            f"CALLBOARD_DATABASE_POOL_SIZE and CALLBOARD_DATABASE_MAX_OVERFLOW), and Postgres allows {allowed}; lower "
            "these, or raise Postgres's max_connections. Beyond it transactions are refused.",
        )


def own_skew_ms(database: Database, own_clock: Callable[[], int] = epoch_ms) -> int:
    """Return how far this machine's clock is ahead of the database's; accurate to half a round trip."""
    with database.read() as connection:
        wall_ms(connection)  # connects; the second one is measured
        before = own_clock()
        theirs = wall_ms(connection)
        after = own_clock()
    return (before + after) // 2 - theirs
