"""A runner that was opened before a fork works in the child, and keeps working in the parent."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.supervisor.serving import clean_environment
from tests.processes import folder_variables, run_python

pytestmark = pytest.mark.journey

BEGIN = """
import os, sys, threading, time
from agents.runner import Runner
from config.database.migrate import migrate
from config.settings import settings
migrate(settings())
runner = Runner.open()
first = runner.run("say one", "demo")
assert first.result(30).output.startswith("one")


def open_files():
    found = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    return [name for name in found if name.endswith((".db", "-wal", "-shm"))]


def in_child(work):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            said = str(work())
        except BaseException as wrong:
            said = f"{getattr(wrong, 'code', type(wrong).__name__)}: {wrong}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said
"""


def printed(folder: Path, code: str, **more: str) -> list[str]:
    """Return the lines a program prints that opened its runner at the beginning."""
    (folder / "agents").mkdir(exist_ok=True)
    (folder / "agents" / "demo.yaml").write_text("name: A\nmodel: demo/instant\nsystem_prompt: You answer.\n")
    (folder / "state").mkdir(exist_ok=True)
    env = clean_environment() | folder_variables(folder) | more
    ran = run_python("-W", "ignore::DeprecationWarning", "-c", BEGIN + code, env=env, timeout_s=50)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.fixture(params=["sqlite", "redis", pytest.param("postgres", marks=pytest.mark.postgres)])
def servers(request: pytest.FixtureRequest, deployment: str) -> dict[str, str]:
    """What the runner has connections to when the process forks."""
    if request.param == "sqlite":
        return {}
    if request.param == "redis":
        url = request.getfixturevalue("redis_url")
        return {"CALLBOARD_REDIS_URL": url, "CALLBOARD_DEPLOYMENT": deployment}
    return {"CALLBOARD_DATABASE_URL": request.getfixturevalue("postgres_url")}


def test_a_child_runs_agents_and_so_does_its_parent_afterwards(tmp_path: Path, servers: dict[str, str]) -> None:
    code = """
for number in range(2):
    print(in_child(lambda: runner.run("say two", "demo").result(15).output.split()[0]), flush=True)
print(in_child(lambda: first.result(15).output.split()[0]))
print(in_child(lambda: [event.event_type for event in first.events()][-1]))
print(in_child(lambda: (runner.close(), Runner.open().run("say three", "demo").result(15).output.split()[0])[1]))
print(in_child(lambda: in_child(lambda: runner.run("say four", "demo").result(15).output.split()[0])))
print(runner.run("say five", "demo").result(15).output.split()[0])
runner.close()
"""

    assert printed(tmp_path, code, **servers) == ["two", "two", "one", "end", "three", "four", "five"]


def test_children_at_once_share_nothing(tmp_path: Path) -> None:
    code = """
def child(name):
    said = lambda: [runner.run(f"say {name}{n}", "demo").result(40).output.split()[0] for n in range(3)]
    return in_child(lambda: open_files() + said())
found = {}
threads = [threading.Thread(target=lambda n=name: found.update({n: child(n)})) for name in "abc"]
[thread.start() for thread in threads]
print([runner.run(f"say p{n}", "demo").result(40).output.split()[0] for n in range(3)])
[thread.join() for thread in threads]
print(found["a"], found["b"], found["c"], sep="\\n")
"""

    assert printed(tmp_path, code) == [str([f"{name}{n}" for n in range(3)]) for name in "pabc"]


def test_what_belongs_to_the_parent_says_so_instead_of_waiting(tmp_path: Path) -> None:
    code = """
journal, events = runner.journal, iter(runner.run("write 2 words", "demo").events())
next(events)
print(in_child(lambda: journal.loop.run(journal.owner.wall_clock_ms(), 15)))
print(in_child(lambda: list(events)))
"""

    wait, events = printed(tmp_path, code)
    assert wait.startswith("opened_before_fork: ")
    assert "Runner.open()" in wait
    assert events.startswith("opened_before_fork: ")


def test_a_lock_that_a_thread_held_during_the_fork_does_not_hold_the_child(tmp_path: Path) -> None:
    code = """
import agents.models.lite, agents.process, agents.catalogue, agents.tools.execution.executor
import bus.loop
import config.definitions.dotted_path, handlers.worker.slots, observers.discovery, observers.invoker
held = [
    agents.models.lite.process_import.lock, agents.process._opening, agents.catalogue._lock,
    bus.loop._starting, config.definitions.dotted_path._lock,
    handlers.worker.slots._slot_pool._lock, observers.discovery._lock, observers.invoker._lock,
    *[agents.tools.execution.executor._slots] * agents.tools.execution.executor.MAX_THREADS,
]
taken, over = threading.Event(), threading.Event()
def hold():
    [lock.acquire() for lock in held]
    taken.set()
    over.wait()
    [lock.release() for lock in held]
thread = threading.Thread(target=hold)
thread.start()
taken.wait()
print(in_child(lambda: runner.run("What is 17 * 23?", "sums").result(15).output.split("**")[1]))
over.set()
thread.join()
"""
    (tmp_path / "agents").mkdir()
    agent = "name: S\nmodel: demo/instant\ntools: [calculator]\nsystem_prompt: You answer.\n"
    (tmp_path / "agents" / "sums.yaml").write_text(agent)

    assert printed(tmp_path, code) == ["391"]
