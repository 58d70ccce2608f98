"""A user's own application on Celery's prefork pool, with a runner at the top of its module."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from celery import Celery

from cli.supervisor.child import guarded
from config.database.migrate import migrate
from config.redis.url import broker_form
from config.settings import Settings
from tests.fleet import ROOT, environment

pytestmark = pytest.mark.journey

SHOP = """
import os
from pathlib import Path
from celery import Celery
from agents.runner import Runner

app = Celery("shop", broker=os.environ["SHOP_BROKER"])
app.conf.update(task_default_queue=os.environ["SHOP_QUEUE"], worker_enable_remote_control=False)
runner = Runner.open()


@app.task(name="ask")
def ask(number, folder):
    end = runner.run(f"What is {number} * 2?", "sums").result(30)
    Path(folder, f"{number}.part").write_text(f"{os.getpid()} {end.status} {end.output}")
    Path(folder, f"{number}.part").rename(Path(folder, f"{number}.txt"))
"""
TASKS = 6


def test_tasks_in_forked_children_get_their_results(settings: Settings, redis_url: str, tmp_path: Path) -> None:
    for folder in ("agents", "answers", "shop"):
        (tmp_path / folder).mkdir()
    agent = "name: S\nmodel: demo/instant\ntools: [calculator]\nsystem_prompt: You answer.\n"
    (tmp_path / "agents" / "sums.yaml").write_text(agent)
    (tmp_path / "shop" / "shop.py").write_text(SHOP)
    ours = settings.model_copy(update={"redis_url": redis_url, "agents_dir": str(tmp_path / "agents")})
    migrate(ours)
    queue = f"shop-{settings.deployment}"
    command = [sys.executable, "-m", "celery", "-A", "shop", "worker", "--pool", "processes", "--concurrency", "2"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]

    with (tmp_path / "shop.log").open("wb") as log:
        worker = subprocess.Popen(
            guarded((*command, *quiet)),
            cwd=tmp_path / "shop",
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment(ours)
            | {
                "PYTHONPATH": f"{ROOT}:{tmp_path / 'shop'}",
                "SHOP_BROKER": broker_form(redis_url),
                "SHOP_QUEUE": queue,
            },
        )
        try:
            with Celery("shop", broker=broker_form(redis_url)) as shop:
                for number in range(TASKS):
                    shop.send_task("ask", (number, str(tmp_path / "answers")), queue=queue)
            answers = wait_for_answers(tmp_path / "answers")
        finally:
            worker.terminate()
            worker.wait(30)

    assert [(status, output.split("**")[1]) for _, status, output in answers] == [
        ("succeeded", str(number * 2)) for number in range(TASKS)
    ], (tmp_path / "shop.log").read_text()
    assert worker.pid not in {int(pid) for pid, _, _ in answers}


def wait_for_answers(folder: Path, patience_s: float = 50.0) -> list[list[str]]:
    until = time.monotonic() + patience_s
    while len(files := sorted(folder.glob("*.txt"))) < TASKS and time.monotonic() < until:
        time.sleep(0.1)
    return [file.read_text().split(" ", 2) for file in files]
