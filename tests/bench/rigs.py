"""The three ways side by side, each in processes of its own: (a) direct, (b) naive, (c) Callboard as it ships."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from cli.supervisor.serving import bind, gunicorn_command, python, worker_command
from config.database.migrate import migrate
from config.folders import ROOT
from config.settings import Settings
from tests.backends import RunningRedis, start_redis
from tests.bench.load_client import Protocol
from tests.bench.processes import (
    NotReady,
    Process,
    clean_environment,
    usage_of,
    wait_for_answer,
    wait_for_port,
)
from tests.ports import free_port

NAIVE_SLOTS = 100
"""Threads of the naive worker and of its web process: enough for 50 viewers, as an operator would set them."""
GRACE_S = 20.0
"""How much longer than it has to a load may take before its streams count as lost."""


@dataclass(slots=True)
class Rig:
    """One way, running."""

    label: str
    protocol: Protocol
    port: int
    pids: dict[str, int]
    """Name -> root of its tree; what counts as the way's cost."""
    path: str
    model_url: str
    agents: Path | None = None
    """Where the agents are that name the model; None: the request names it."""
    settings: Settings | None = None
    processes: dict[str, Process] = field(default_factory=dict)

    def body(self, tokens: int, rate: int) -> dict[str, Any]:
        """Return the request for so many tokens at so many a second."""
        if self.agents is not None:
            return {"agent": f"bench-{tokens}-{rate}", "input": "Count, please."}
        return {"model": f"openai/bench-{tokens}-{rate}", "input": "Count, please."}

    def load(self, *, streams: int, tokens: int, rate: int = 20, ramp_s: float = 2.0) -> dict[str, Any]:
        """Have ``streams`` viewers watch a run each and return what they saw, and what it cost."""
        if self.agents is not None:
            define_agent(self.agents, tokens, rate)
        order: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": self.port,
            "protocol": self.protocol,
            "path": self.path,
            "body": self.body(tokens, rate),
            "streams": streams,
            "ramp_s": ramp_s,
            "model_url": self.model_url,
            "timeout_s": ramp_s + tokens / rate + GRACE_S,
        }
        before = usage_of(self.pids)
        client = subprocess.run(
            python("tests.bench.load_client"),
            input=orjson.dumps(order),
            capture_output=True,
            check=False,
            cwd=ROOT,
            env=clean_environment(),
            timeout=order["timeout_s"] + 60,
        )
        if client.returncode:
            raise NotReady(f"the load client failed:\n{client.stderr.decode()[-2000:]}")
        summary: dict[str, Any] = orjson.loads(client.stdout)
        summary["cpu_s"] = usage_of(self.pids).since(before)
        summary["cpu_us_per_token"] = sum(summary["cpu_s"].values()) / max(summary["tokens"], 1) * 1e6
        return summary

    def is_held(self, summary: Mapping[str, Any], tokens: int) -> bool:
        """Tell whether every stream of a load arrived whole."""
        return summary["whole"] == summary["streams"] and summary["tokens"] == summary["streams"] * tokens


def define_agent(folder: Path, tokens: int, rate: int) -> None:
    """Add an agent whose model sends so many tokens at so many a second, where it is not there yet."""
    path = folder / f"bench-{tokens}-{rate}.yaml"
    if path.exists():
        return
    address = (folder / "address").read_text()
    text = (
        f"name: Bench\nmodel: openai/bench-{tokens}-{rate}\napi_base: {address}\n"
        "system_prompt: You answer in numbers.\n"
    )
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)


@contextlib.contextmanager
def direct(folder: Path, model_url: str) -> Iterator[Rig]:
    """Yield (a): Starlette on uvicorn, one process."""
    port = free_port()
    process = Process("direct", [*python("tests.bench.direct_app"), str(port), model_url], folder / "direct.log")
    try:
        wait_for_port(port, process)
        yield Rig(
            label="direct", protocol="plain", port=port, pids={"web": process.pid}, path="/stream", model_url=model_url
        )
    finally:
        process.stop()


@contextlib.contextmanager
def naive(folder: Path, model_url: str) -> Iterator[Rig]:
    """Yield (b): Flask on gunicorn's threads, Celery's threads, a PUBLISH a chunk."""
    port = free_port()
    with contextlib.ExitStack() as open_things:
        redis = _redis(open_things, Settings(state_dir=folder / "naive"))
        env = {
            "NAIVE_REDIS_URL": redis.url,
            "NAIVE_MODEL_URL": model_url,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        slots = str(NAIVE_SLOTS)
        gunicorn = [*python("gunicorn"), "--worker-class", "gthread", "--threads", slots, "--no-control-socket"]
        web = _start(
            open_things,
            "naive-web",
            [*gunicorn, "--bind", f"127.0.0.1:{port}", "tests.bench.naive_app:create_app()"],
            folder,
            env,
        )
        celery = [*python("celery"), "-A", "tests.bench.naive_app", "worker", "--pool", "threads", "-c", slots]
        worker = _start(open_things, "naive-worker", [*celery, "--loglevel", "info"], folder, env)
        wait_for_port(port, web)
        worker.wait_for(" ready.")
        pids = {"web": web.pid, "worker": worker.pid, "redis": redis.process.pid}
        rig = Rig(label="naive", protocol="plain", port=port, pids=pids, path="/stream", model_url=model_url)
        rig.load(streams=5, tokens=10, rate=50, ramp_s=0.5)
        yield rig


@contextlib.contextmanager
def callboard(folder: Path, model_url: str, **changes: Any) -> Iterator[Rig]:
    """Yield (c): the commands `up` starts, one web and one worker process, on a state folder of their own.

    ``changes``: of its settings.
    """
    with contextlib.ExitStack() as open_things:
        state, agents = folder / "callboard", folder / "agents"
        agents.mkdir()
        (agents / "address").write_text(model_url)
        define_agent(agents, 20, 1000)
        redis = _redis(open_things, Settings(state_dir=state))
        values: dict[str, Any] = {
            "redis_url": redis.url,
            "state_dir": state,
            "agents_dir": str(agents),
            "workers": 1,
            "port": 0,
        }
        settings = Settings(**{**values, **changes})
        migrate(settings)
        listener = open_things.enter_context(bind(settings, "up"))
        env = environment_of(settings)
        os.set_inheritable(listener.fileno(), True)
        web = _start(open_things, "web", gunicorn_command(listener), folder, env, pass_fds=(listener.fileno(),))
        port = int(listener.getsockname()[1])
        rig = Rig(
            label="callboard",
            protocol="callboard",
            port=port,
            pids={"web": web.pid, "redis": redis.process.pid},
            path="/v1/runs",
            model_url=model_url,
            agents=agents,
            settings=settings,
            processes={"web": web},
        )
        open_things.callback(lambda: rig.processes["worker"].stop() if "worker" in rig.processes else None)
        listener.close()  # it is the web process's now: when that ends, connections are refused
        wait_for_answer(port, "/health", web)
        fresh_worker(rig, folder)
        yield rig


def fresh_worker(rig: Rig, folder: Path) -> None:
    """Start a worker, in place of the one that may be there, and return when it is warm."""
    assert rig.settings is not None
    old = rig.processes.pop("worker", None)
    if old is not None:
        old.stop()
    log = folder / f"worker-{time.monotonic_ns()}.log"
    worker = Process("worker", worker_command("worker-1", None), log, env=environment_of(rig.settings))
    rig.processes["worker"] = worker
    rig.pids["worker"] = worker.pid
    worker.wait_for("worker is warm")
    worker.wait_for(" ready.")


def environment_of(settings: Settings) -> dict[str, str]:
    """Return the settings as the environment of a process."""
    fields = settings.model_dump(include=settings.model_fields_set)
    return {f"CALLBOARD_{name.upper()}": str(value) for name, value in fields.items()}


def _start(
    open_things: contextlib.ExitStack,
    name: str,
    argv: tuple[str, ...] | list[str],
    folder: Path,
    env: Mapping[str, str],
    pass_fds: tuple[int, ...] = (),
) -> Process:
    process = Process(name, argv, folder / f"{name}.log", env=env, pass_fds=pass_fds)
    open_things.callback(process.stop)
    return process


def _redis(open_things: contextlib.ExitStack, settings: Settings) -> RunningRedis:
    running = start_redis(settings)
    open_things.callback(running.stop)
    return running
