"""A web process of the bench's own, as `up` starts it, and the requests it is sent."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from cli.supervisor.serving import bind, gunicorn_command
from config.database.migrate import migrate
from config.settings import Settings
from tests.bench.processes import Process, wait_for_answer
from tests.bench.rigs import environment_of

BLOCK, WARM = 50, 5
JSON = {"Content-Type": "application/json"}
Headers = Mapping[str, str]
W = TypeVar("W")


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request that is sent many times, and the status of its answers."""

    client: http.client.HTTPConnection
    path: str
    method: str = "GET"
    headers: Headers = field(default_factory=dict)
    body: str | None = None
    status: int = 200

    def send(self) -> float:
        """Send it, read the answer, and return how many seconds both took."""
        began = time.perf_counter()
        self.client.request(self.method, self.path, self.body, dict(self.headers))
        answer = self.client.getresponse()
        answer.read()
        taken = time.perf_counter() - began
        assert answer.status == self.status, (self, answer.status)
        return taken


@contextlib.contextmanager
def web(settings: Settings) -> Iterator[http.client.HTTPConnection]:
    """Yield a connection to a web process with these settings, on a port of its own."""
    migrate(settings)
    with contextlib.ExitStack() as open_things:
        listener = open_things.enter_context(bind(settings, "up"))
        port = listener.getsockname()[1]
        argv, env, log = gunicorn_command(listener), environment_of(settings), settings.state / f"web-{port}.log"
        process = Process("web", argv, log, env=env, pass_fds=(listener.fileno(),))
        open_things.callback(process.stop)
        wait_for_answer(port, "/health", process)
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        open_things.callback(client.close)
        yield client


def settings_in(folder: Path, **changes: str | int) -> Settings:
    """Return settings of a deployment in this folder."""
    return Settings(state_dir=folder / "state", port=0, **changes)  # type: ignore[arg-type]  # pydantic's to check


def accepted_run(client: http.client.HTTPConnection, headers: Headers | None = None) -> str:
    """Return the id of a run that the web process has accepted, and no worker takes."""
    body = json.dumps({"agent": "assistant", "input": "Hello"})
    client.request("POST", "/v1/runs", body, JSON | dict(headers or {}))
    return str(json.loads(client.getresponse().read())["run_id"])


def in_turns(requests: Mapping[W, Request], times: int) -> dict[W, float]:
    """Return the median of each way's requests in microseconds; their order is random, as each slows the next one."""
    taken: dict[W, list[float]] = {way: [] for way in requests}
    dice = random.Random(7)
    for _ in range(times):
        for way in dice.sample(list(requests), len(requests)):
            taken[way].append(requests[way].send())
    return {way: statistics.median(seconds) * 1e6 for way, seconds in taken.items()}


def in_blocks(groups: Sequence[Mapping[W, Request]], times: int) -> dict[W, float]:
    """Return the medians of several groups' requests in microseconds.

    A group has ``BLOCK`` turns, then another one: a process that gets more of the requests than another answers faster,
    since its code stays in the processor's caches. The first turns of a block are not counted.
    """
    taken: dict[W, list[float]] = {way: [] for group in groups for way in group}
    dice = random.Random(7)
    for _ in range(max(1, times // BLOCK)):
        for group in dice.sample(list(groups), len(groups)):
            for turn in range(WARM + BLOCK):
                for way in dice.sample(list(group), len(group)):
                    seconds = group[way].send()
                    if turn >= WARM:
                        taken[way].append(seconds)
    return {way: statistics.median(seconds) * 1e6 for way, seconds in taken.items()}
