"""Random faults for as long as one likes, people at work, every invariant checked at the end: `./callboard soak`."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import func, select

from bus.identity.audit.anchors import SECRET_NAME, anchors_in
from bus.identity.audit.chain import tenants, verify
from bus.journal.stores import Workers
from bus.payloads import TERMINAL
from cli.crashlab.invariants import claims_of
from config.database.engine import Database, open_database
from config.database.shared_secret import known_secret
from config.database.tables import outbox, runs
from config.redis.server import find_running
from config.settings import Settings
from tests.app_harness import write_agent
from tests.backends import PostgresCluster
from tests.journeys.up import Up
from tests.model_server import ModelServer
from tests.slow_disk import SlowDisk
from tests.soak.counted import miscounted
from tests.soak.enough import WHOLE_ROUND_MINUTES, Tally, tally, too_little
from tests.soak.faults import NAMES, Blow, Faults, plan
from tests.soak.healthy import OwnerWatch, lost_by_healthy
from tests.soak.invariants import broken, records_of
from tests.soak.load import Load, Seen
from tests.soak.shop import VARIABLE
from tests.soak.talk import AGENT_TOOLS, SHAPED, Model, agent_of, kind_of

KEEP = "SOAK_KEEP"
"""Names a folder that does not exist yet: where everything is copied when something does not hold."""
WORKERS = 2
BEGIN_S = 120.0
BEFORE_S = 5.0
"""How long nothing is broken at first."""
STILL_S = 60.0
"""When for so long no run has ended, though some have not, none will; nothing is broken any more by then."""
OUTBOX_S = 10.0
"""How long the outbox may take to drain then."""
PERIODS = {"CALLBOARD_LEASE_S": "6", "CALLBOARD_BEAT_S": "2", "CALLBOARD_REAP_S": "1", "CALLBOARD_DRAIN_S": "4"}


def main() -> int:
    """Break things for the time asked for; 1 when something did not hold, or too little happened."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--postgres", action="store_true")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"soak: {args.minutes:g} minutes, --seed {seed}{' --postgres' if args.postgres else ''}", flush=True)
    began_s = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="callboard-soak-")))
        disk = SlowDisk(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="callboard-disk-"))))
        postgres = stack.enter_context(PostgresCluster(disk)) if args.postgres else None
        status = _soak(stack, folder, disk, postgres, seed, args.minutes)
    print(f"{time.monotonic() - began_s:.0f} s in all")
    return status


def _soak(
    stack: ExitStack, folder: Path, disk: SlowDisk, postgres: PostgresCluster | None, seed: int, minutes: float
) -> int:
    server, model = stack.enter_context(ModelServer()), Model()
    server.respond = model.respond
    write_agent(folder / "agents", server, AGENT_TOOLS)
    write_agent(folder / "agents", server, SHAPED, agent_of("shaped"))
    environment = PERIODS | {"CALLBOARD_AGENTS_DIR": str(folder / "agents"), VARIABLE: str(folder / "ledger")}
    environment |= disk.environment | {"CALLBOARD_OBSERVE": "metrics"}
    database_url = postgres.new_database() if postgres is not None else None
    if database_url:
        environment["CALLBOARD_DATABASE_URL"] = database_url
    up = stack.enter_context(Up(folder / "state", "--workers", str(WORKERS), "--port", "0", **environment))
    address = up.address
    settings = Settings(state_dir=folder / "state", database_url=database_url)
    redis_url = find_running(settings.state)
    assert redis_url is not None, "soak needs redis-server on the PATH"
    load = Load(address, folder / "ledger", seed)
    faults = Faults(
        up, disk, redis_url=redis_url, deployment=settings.deployment, queue=settings.queue, postgres=postgres
    )
    database = open_database(settings.database)
    owners = OwnerWatch(database)
    _wait_for_workers(database)
    owners.begin()
    load.begin()
    done = _break(faults, plan(random.Random(f"{seed} faults")), minutes)
    load.stop_starting()
    quiet_s = _calm(database)
    load.end()
    owners.end()
    counted = tally(database, load.seen, done)
    problems = [
        *broken(database, load.seen, model.asked, folder / "ledger"),
        *too_little(counted, minutes),
        *miscounted(database),
        *faults.found,
    ]
    with database.read() as connection:
        claims = {run_id: claims_of(record) for run_id, record in records_of(connection).items()}
        problems += lost_by_healthy(connection, claims, owners.pids, faults.struck)
    secret = known_secret(database, SECRET_NAME)
    anchors = anchors_in((folder / "state" / "logs").glob("*.log*"), secret)
    chains = [verify(database, tenant, anchors.signed) for tenant in tenants(database)]
    problems += [
        f"audit log of {chain.tenant}: entry {chain.broken}: {chain.problem}" for chain in chains if chain.broken
    ]
    if up.process.poll() is not None:
        problems.append(f"`up` itself ended with {up.process.returncode}: {up.lines[-3:]}")
    _report(database, counted, load.seen, quiet_s, problems)
    if problems and KEEP in os.environ:
        shutil.copytree(folder, os.environ[KEEP], ignore=shutil.ignore_patterns("*.sock"))
    database.close()
    return 1 if problems else 0


def _wait_for_workers(database: Database) -> None:
    """Return once both workers have begun; what is broken earlier disturbs no run."""
    until_s = time.monotonic() + BEGIN_S
    while time.monotonic() < until_s:
        if len(Workers(database).alive()) >= WORKERS:
            return
        time.sleep(0.2)  # other processes; their rows are the only sign
    raise AssertionError(f"no {WORKERS} workers within {BEGIN_S:g} s")


def _break(faults: Faults, blows: Iterator[Blow], minutes: float) -> Counter[str]:
    """Do what is planned for so many minutes; a whole round of it, however slow the machine is, if they are enough."""
    done: Counter[str] = Counter()
    until_s = time.monotonic() + minutes * 60
    least = len(NAMES) if minutes >= WHOLE_ROUND_MINUTES else 0
    time.sleep(BEFORE_S)
    for number, blow in enumerate(blows):
        if time.monotonic() >= until_s and number >= least:
            break
        is_done = faults.do(blow)
        done[blow.name] += is_done
        print(f"  {time.strftime('%H:%M:%S')} {blow.name}{'' if is_done else ': nothing to break'}", flush=True)
        time.sleep(blow.pause_s)
    return done


def _calm(database: Database) -> float:
    """Wait until every run has ended, or none ends any more, and return how long that took."""
    began_s = last_s = time.monotonic()
    left = None
    while left != 0 and time.monotonic() - last_s < STILL_S:
        with database.read() as connection:
            unended = select(func.count()).select_from(runs).where(runs.c.status.not_in(TERMINAL))
            now = connection.execute(unended).scalar_one()
        if now != left:
            left, last_s = now, time.monotonic()
        time.sleep(0.5)
    took_s = last_s - began_s
    _drain(database)
    return took_s


def _drain(database: Database) -> None:
    """Wait until the outbox is empty, or does not get emptier, and viewers have read to the end."""
    until_s = time.monotonic() + OUTBOX_S
    while time.monotonic() < until_s:
        with database.read() as connection:
            if connection.execute(select(outbox.c.id).limit(1)).first() is None:
                break
        time.sleep(0.2)
    time.sleep(3.0)


def _report(database: Database, counted: Tally, seen: Seen, quiet_s: float, problems: list[str]) -> None:
    with database.read() as connection:
        statuses = Counter(connection.execute(select(runs.c.status)).scalars())
    kinds = Counter(kind_of(started.sentence) for started in seen.started)
    print(f"faults: {sum(counted.done.values())} ({', '.join(f'{n}x {name}' for name, n in counted.done.items())})")
    print(f"runs: {len(seen.started)} started ({_list(kinds)}); {_list(statuses)}")
    print(
        f"connections of viewers: {sum(viewer.connections for viewer in seen.watched)}; "
        f"starts tried again: {seen.refused}"
    )
    for what, count in counted.counts.items():
        print(f"{what}: {count}")
    print(f"the last run ended {quiet_s:.1f} s after the last fault")
    for sentence in problems:
        print(f"BROKEN {sentence}")
    print("every invariant holds" if not problems else f"{len(problems)} things do not hold")


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
