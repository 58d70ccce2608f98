"""A backlog for one worker: many queued runs, each with one unsafe call, and what became of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select

from agents.runner import Runner
from bus.payloads import TERMINAL
from config.database.engine import Database
from config.database.tables import runs, steps

PAYER = "payer"
AGENT = """
name: Payer
model: openai/calls-{tokens}-{rate}
api_base: {url}
system_prompt: You pay.
tools: ["tests.bench.slow_disk_tools:pay"]
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a backlog of runs came to."""

    succeeded: int
    crashes: int
    """Owners lost, over all runs."""
    owners: int
    """The most owners one run had."""
    unknown: int
    """Tool calls whose outcome is unknown."""
    calls: Mapping[int, int]
    """How many runs arrived in the ledger how often."""
    given_up: int
    """Runs that the worker's log says were given up or taken over."""

    def is_clean(self, size: int) -> bool:
        """Return whether every run succeeded under its first owner with exactly one call."""
        counts = (self.succeeded, self.crashes, self.owners, self.unknown, self.given_up)
        return counts == (size, 0, 1, 0, 0) and self.calls == {1: size}


def define_payer(folder: Path, url: str, *, tokens: int, rate: int) -> None:
    """Write an agent that speaks, calls its unsafe tool once and speaks again."""
    (folder / f"{PAYER}.yaml").write_text(AGENT.format(url=url, tokens=tokens, rate=rate))


def queue(runner: Runner, size: int) -> None:
    """Accept so many runs for the fleet."""
    for number in range(size):
        runner.run(f"Pay {number}", PAYER, detached=True)


def until_ended(database: Database, size: int, timeout_s: float) -> float:
    """Return after how many seconds so many runs had ended or asked a person, or how long was waited in vain."""
    began_s = time.monotonic()
    settled = select(func.count()).where(runs.c.agent_id == PAYER, runs.c.status.in_([*TERMINAL, "waiting"]))
    while time.monotonic() - began_s < timeout_s:
        with database.read() as connection:
            if connection.execute(settled).scalar_one() >= size:
                break
        time.sleep(0.1)  # another process works them off
    return time.monotonic() - began_s


def outcome(database: Database, ledger: Path, worker_log: Path) -> Outcome:
    """Return what became of the backlog."""
    of_payer = runs.c.agent_id == PAYER
    succeeded = select(func.count()).where(of_payer, runs.c.status == "succeeded")
    owners = select(func.sum(runs.c.crashes), func.max(runs.c.fence)).where(of_payer)
    unknown = select(func.count()).select_from(steps).join(runs).where(of_payer, steps.c.status == "unknown")
    text = worker_log.read_text(errors="replace")
    arrived = ledger.read_text().splitlines() if ledger.exists() else []
    with database.read() as connection:
        crashes, most = connection.execute(owners).one()
        return Outcome(
            succeeded=connection.execute(succeeded).scalar_one(),
            crashes=int(crashes or 0),
            owners=int(most or 0),
            unknown=connection.execute(unknown).scalar_one(),
            calls=dict(Counter(Counter(line.split()[0] for line in arrived).values())),
            given_up=text.count(" is given up") + text.count("was taken over"),
        )
