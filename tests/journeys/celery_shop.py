"""The shop of docs/examples/celery_shop as its users have it: its own project, environment, broker and worker."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from cli.supervisor.child import guarded
from config.folders import ROOT
from tests.venvs import Venv, foreign_environment

EXAMPLE = ROOT / "docs" / "examples" / "celery_shop"
READY_S = 60


@dataclass
class CeleryShop:
    """A copy of the example with a worker of its own."""

    folder: Path
    venv: Venv
    broker: str
    results: str
    queue: str
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @classmethod
    @contextmanager
    def copied(cls, original: Path, folder: Path, venv: Venv, broker: str, results: str) -> Iterator[CeleryShop]:
        """Yield a shop in a new folder, with a queue of its own; its workers end with it."""
        shutil.copytree(original, folder, ignore=shutil.ignore_patterns("__pycache__", "*.log"))
        shop = cls(folder, venv, broker, results, queue=f"shop-{uuid4().hex[:12]}")
        try:
            yield shop
        finally:
            shop.close()

    @contextmanager
    def branch(self, folder: Path) -> Iterator[CeleryShop]:
        """Yield a shop whose published tasks are the same but for the queue: to publish them takes half a second."""
        with self.copied(self.folder, folder, self.venv, self.broker, self.results) as other:
            other.published.write_text(other.published.read_text().replace(self.queue, other.queue))
            yield other

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the shop's processes."""
        return foreign_environment(
            SHOP_BROKER_URL=self.broker,
            SHOP_RESULT_URL=self.results,
            SHOP_QUEUE=self.queue,
            SHOP_LEDGER=str(self.folder / "ledger.txt"),
        )

    @property
    def published(self) -> Path:
        """The file with the shop's tasks for Callboard."""
        return self.folder / "callboard" / "celery_tasks" / "shop.json"

    def publish(self) -> str:
        """Write the shop's tasks for Callboard, and return what the command said."""
        command = [self.venv.python, "-m", "callboard_client.celery_tasks", "config.celery_app:app"]
        command.append(str(self.published))
        ran = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a worker and return it when it is ready."""
        log = self.folder / f"worker{len(self.workers)}.log"
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
        own = ("-n", f"{self.queue}@%h")  # two workers of one name would share a control queue
        program = (self.venv.python, "-m", "celery", "-A", "config.celery_app", "worker")
        command = [*program, "-l", "INFO", "-c", "2", *own, *quiet, *options]
        with log.open("wb") as out:
            worker = subprocess.Popen(
                guarded(command), cwd=self.folder, env=self.environment, stdout=out, stderr=out, start_new_session=True
            )
        self.workers.append(worker)
        until = time.monotonic() + READY_S
        while b" ready." not in log.read_bytes():
            assert worker.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < until, log.read_text()[-3000:]
            time.sleep(0.05)  # another process; its log is the only sign
        return worker

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """End a worker and its children as a power cut would."""
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait(10)

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            if worker.poll() is None:
                self.kill(worker)

    def empty_ledger(self) -> None:
        """Forget what earlier tests paid; each waits for the end of its tasks."""
        (self.folder / "ledger.txt").unlink(missing_ok=True)

    def ledger(self, word: str) -> list[str]:
        """Return the lines of the ledger that begin with a word."""
        file = self.folder / "ledger.txt"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if line.startswith(word)]

    def wait_for(self, word: str, timeout_s: float = 30.0) -> str:
        """Return the first line of the ledger with this word, when it is there."""
        until = time.monotonic() + timeout_s
        while not self.ledger(word):
            assert time.monotonic() < until, f"no '{word}' in the ledger"
            time.sleep(0.02)  # another process; its file is the only sign
        return self.ledger(word)[0]
