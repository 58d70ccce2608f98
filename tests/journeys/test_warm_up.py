"""A worker takes runs before LiteLLM is imported, and those that need it wait for one import."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.supervisor.serving import clean_environment
from config.settings import ROOT
from tests.app_harness import write_agent
from tests.model_server import ModelServer, Turn
from tests.processes import folder_variables, run_python

pytestmark = [pytest.mark.journey, pytest.mark.timeout(240)]

AGENT = "name: A\nmodel: {model}\nsystem_prompt: You answer.\n"
WORKER = """
import os, sys, time, types
from agents.models.lite import is_imported
from agents.runner import Runner
from config.database.migrate import migrate
from config.settings import settings
migrate(settings())
from handlers.worker.process import begin
pool = types.new_class("TaskPool", (), {}, lambda body: body.update(__module__="celery.concurrency.thread"))
begin(sender=types.SimpleNamespace(pool_cls=pool, concurrency=2))
runner = Runner.open()
print(runner.run("say hello", "demo").result(120).output.split()[0], is_imported(), flush=True)
sys.stdin.readline()
until = time.monotonic() + 90
while not is_imported() and time.monotonic() < until:
    time.sleep(0.05)
print(is_imported(), flush=True)
os._exit(0)  # a worker's way out is another test's
"""


def environment_of(folder: Path) -> dict[str, str]:
    environment = clean_environment() | folder_variables(folder)
    return {name: value for name, value in environment.items() if not name.endswith("_API_KEY")}


@contextmanager
def worker(folder: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment_of(folder),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def write_agents(folder: Path, **models: str) -> None:
    (folder / "agents").mkdir()
    (folder / "state").mkdir()
    for name, model in models.items():
        (folder / "agents" / f"{name}.yaml").write_text(AGENT.format(model=model))


def test_a_worker_works_on_demo_runs_before_its_turn_to_import_litellm(tmp_path: Path) -> None:
    write_agents(tmp_path, demo="demo/instant")
    with (tmp_path / "state" / "warm-up.lock").open("w") as turn, worker(tmp_path) as process:
        fcntl.flock(turn, fcntl.LOCK_EX)
        assert process.stdout is not None

        assert process.stdout.readline().split() == ["hello", "False"]
        fcntl.flock(turn, fcntl.LOCK_UN)
        output, _ = process.communicate("continue\n", timeout=200)

    assert output.strip() == "True"


IMPORTING = """
import os, sys, threading, time, types
from agents.models.lite import is_imported, process_import
from agents.runner import Runner
from config.database.migrate import migrate
from config.settings import settings
migrate(settings())
from handlers.worker.process import begin
load, may_end, imports = process_import._load, threading.Event(), []
def slow_import():
    imports.append(threading.current_thread().name)
    may_end.wait(100)
    return load()
process_import._load = slow_import
pool = types.new_class("TaskPool", (), {}, lambda body: body.update(__module__="celery.concurrency.thread"))
begin(sender=types.SimpleNamespace(pool_cls=pool, concurrency=2))
runner = Runner.open()
print(runner.run("say hello", "demo").result(60).output.split()[0], is_imported(), flush=True)
real = runner.run("say hello", "real")
time.sleep(1)  # for as long as this nothing may happen
print(runner.journal.readers.runs.status(real.run_id), flush=True)
may_end.set()
print(real.result(60).output, is_imported(), imports, flush=True)
os._exit(0)
"""


def test_a_worker_takes_demo_runs_while_it_imports_litellm_and_the_others_wait_for_that_import(tmp_path: Path) -> None:
    write_agents(tmp_path, demo="demo/instant")
    with ModelServer() as model:
        model.script([Turn(text="Good day.")])
        write_agent(tmp_path / "agents", model, agent_id="real", provider="openai")
        ran = run_python("-c", IMPORTING, env=environment_of(tmp_path), timeout_s=200)

    assert ran.stdout.splitlines() == ["hello False", "queued", "Good day. True ['warm-up']"], ran.stderr[-3000:]


PARENT = """
import gc, os, threading, types
from config.database.migrate import migrate
from config.settings import settings
migrate(settings())
from handlers.worker.process import begin
pool = types.new_class("TaskPool", (), {}, lambda body: body.update(__module__="celery.concurrency.prefork"))
begin(sender=types.SimpleNamespace(pool_cls=pool))
files = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
sockets = [name for name in files if "socket:" in name]
print(len(gc.get_objects()), gc.get_freeze_count(), [t.name for t in threading.enumerate()], len(sockets), sep="|")
"""


def test_a_prefork_parent_is_warm_before_it_forks_and_has_nothing_a_child_must_not_share(tmp_path: Path) -> None:
    """Celery collects all garbage before each fork: what it looks at then is what each child waits for in turn."""
    write_agents(tmp_path, demo="demo/instant")
    ran = run_python("-c", PARENT, env=environment_of(tmp_path), timeout_s=200)

    looked_at, frozen, threads, sockets = ran.stdout.strip().split("|")
    assert int(frozen) > 200_000, ran.stderr
    assert int(looked_at) < int(frozen) / 20
    assert threads == "['MainThread', 'liveness']"
    assert sockets == "0"
