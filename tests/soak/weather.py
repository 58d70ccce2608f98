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
from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import select

from bus.payloads import TERMINAL
from config.database import Database, open_database
from config.settings import Settings
from config.tables import runs
from tests.backends import PostgresCluster
from tests.house import write_agent
from tests.journeys.up import Up
from tests.model_server import ModelServer
from tests.soak.faults import Faults
from tests.soak.invariants import broken
from tests.soak.load import AGENT_TOOLS, Load, respond
from tests.soak.shop import VARIABLE
from web.terminal.embedded_redis import find_running

KEEP = "SOAK_KEEP"
"""Names a folder that does not exist yet: where everything is copied when something does not hold."""
CALM_S = 120.0
"""How long everything may take to end once nothing is broken any more."""
PERIODS = {"CALLBOARD_LEASE_S": "6", "CALLBOARD_BEAT_S": "2", "CALLBOARD_REAP_S": "1", "CALLBOARD_DRAIN_S": "4"}


def main() -> int:
    """Break things for the time asked for; 1 when something did not hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--postgres", action="store_true")
    asked = parser.parse_args()
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"soak: {asked.minutes:g} minutes, --seed {seed}{' --postgres' if asked.postgres else ''}", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="callboard-soak-")))
        url = stack.enter_context(PostgresCluster()).new_database() if asked.postgres else None
        return _soak(stack, folder, url, random.Random(seed), asked.minutes * 60)


def _soak(stack: ExitStack, folder: Path, database_url: str | None, rnd: random.Random, seconds: float) -> int:
    model = stack.enter_context(ModelServer())
    model.respond = respond
    write_agent(folder / "agents", model, AGENT_TOOLS)
    environment = PERIODS | {"CALLBOARD_AGENTS_DIR": str(folder / "agents"), VARIABLE: str(folder / "ledger")}
    if database_url:
        environment["CALLBOARD_DATABASE_URL"] = database_url
    up = stack.enter_context(Up(folder / "state", "--workers", "2", "--port", "0", **environment))
    address = up.address
    settings = Settings(state_dir=folder / "state", database_url=database_url)
    redis_url = find_running(settings)
    assert redis_url is not None, "soak needs redis-server on the PATH"
    database = open_database(settings.database)
    load = Load(address, folder / "ledger", rnd)
    faults = Faults(up, rnd, redis_url=redis_url, deployment=settings.deployment, queue=settings.queue)
    load.begin()
    done = _break(faults, rnd, seconds)
    load.stop_starting()
    quiet_s = _calm(database)
    load.end()
    found = list(broken(database, load, folder / "ledger"))
    _report(database, load, done, quiet_s, found)
    if found and KEEP in os.environ:
        shutil.copytree(folder, os.environ[KEEP], ignore=shutil.ignore_patterns("*.sock"))
    database.close()
    return 1 if found else 0


def _break(faults: Faults, rnd: random.Random, seconds: float) -> Counter[str]:
    done: Counter[str] = Counter()
    until = time.monotonic() + seconds
    time.sleep(min(15.0, seconds / 4))  # the workers begin
    while time.monotonic() < until:
        name = faults.one()
        done[name] += 1
        print(f"  {time.strftime('%H:%M:%S')} {name}", flush=True)
        time.sleep(rnd.uniform(2.0, 10.0))
    return done


def _calm(database: Database) -> float:
    """Wait until every run has ended, and return how long that took."""
    began = time.monotonic()
    while time.monotonic() - began < CALM_S:
        with database.read() as connection:
            if connection.execute(select(runs.c.id).where(runs.c.status.not_in(TERMINAL)).limit(1)).first() is None:
                break
        time.sleep(0.5)
    time.sleep(3.0)  # viewers read to the end, the outbox drains
    return time.monotonic() - began - 3.0


def _report(database: Database, load: Load, done: Counter[str], quiet_s: float, found: list[str]) -> None:
    with database.read() as connection:
        statuses = Counter(connection.execute(select(runs.c.status)).scalars())
        crashes = sum(connection.execute(select(runs.c.crashes)).scalars())
    print(f"faults: {sum(done.values())} ({', '.join(f'{n}x {name}' for name, n in done.most_common())})")
    print(f"runs: {len(load.started)} started, {dict(statuses)}, {crashes} crashes, {load.answered} answers given")
    connections = sum(watched.connections for watched in load.watched)
    print(f"viewers: {len(load.watched)} over {connections} connections; starts tried again: {load.refused}")
    print(f"quiet {quiet_s:.1f} s after the last fault")
    for sentence in found:
        print(f"BROKEN {sentence}")
    print("every invariant holds" if not found else f"{len(found)} things do not hold")


if __name__ == "__main__":
    sys.exit(main())
