"""What a viewer costs: CPU an event and viewer, memory a viewer, threads for idle ones; Starlette beside it.

    PYTHONPATH=. python tests/bench/sse_cost.py --viewers 1000 --rate 20 --seconds 8 --rounds 3

Both servers receive the events from the same Redis and are watched by the same clients; only their own
processes' CPU is counted. Ratios are what counts, the figures belong to the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import redis as redis_py

from agents.governance.guardrails.guardrails import Guardrails
from bus.journal import Journal
from bus.journal.clients import NewRun
from bus.loop import new_event_loop
from bus.payloads import ResponsePayload, encode
from config.database.migrate import migrate
from config.settings import Settings
from tests.certificates import Authority

ROOT = Path(__file__).resolve().parents[2]
MARK = b"event: response"
WORDS = [
    "the",
    "call",
    "board",
    "hangs",
    "backstage",
    "and",
    "all-viewers",
    "may",
    "read",
    "what",
    "was",
    "posted",
    "on",
    "it",
    "today",
]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one round of one server came to."""

    us_per_event: float
    kib_per_viewer: float
    threads: int
    received: int
    expected: int


class Watcher(asyncio.Protocol):
    """One viewer: asks, then counts events."""

    ready = 0
    events = 0

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._is_ready = False
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.write(self._request)  # type: ignore[attr-defined]  # it is a write transport

    def data_received(self, data: bytes) -> None:
        if not self._is_ready and b"retry:" in data:
            self._is_ready = True
            Watcher.ready += 1
        data = self._rest + data  # a mark may come in two parts
        Watcher.events += data.count(MARK)
        self._rest = data[max(data.rfind(MARK) + 1, len(data) - len(MARK) + 1) :]


async def watch(port: int, path: str, count: int, tls: ssl.SSLContext | None = None) -> list[Watcher]:
    """Return ``count`` viewers that are being served."""
    loop = asyncio.get_running_loop()
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n\r\n".encode()
    Watcher.ready = Watcher.events = 0
    watchers: list[Watcher] = []
    for start in range(0, count, 50):
        coroutines = [
            loop.create_connection(lambda: Watcher(request), "127.0.0.1", port, ssl=tls)
            for _ in range(min(50, count - start))
        ]
        watchers += [protocol for _, protocol in await asyncio.gather(*coroutines)]
        while Watcher.ready < start:  # a backlog that overflows would measure the kernel's retries
            await asyncio.sleep(0.005)
    while Watcher.ready < count:
        await asyncio.sleep(0.01)
    return watchers


SETTLED_S = 7.0
"""After so long a web process has done once what it does every few seconds (looking for lost runs), and what that made
once is no viewer's."""


async def measure(
    server: psutil.Process,
    port: int,
    path: str,
    say: Callable[[int], Coroutine[Any, Any, None]],
    options: Any,
    tls: ssl.SSLContext | None = None,
) -> Cost:
    """Return what ``options.viewers`` viewers of one stream cost this server."""
    warm = await watch(port, path, 20, tls)  # what is made once is made now
    await asyncio.sleep(0.3)
    for watcher in warm:
        watcher.transport.close()
    await asyncio.sleep(SETTLED_S)
    before = server.memory_info().rss
    watchers = await watch(port, path, options.viewers, tls)
    await pace(say, options.rate, 1.0)
    await asyncio.sleep(0.3)
    Watcher.events = 0
    began = sum(server.cpu_times()[:2])
    message_count = await pace(say, options.rate, options.seconds)
    await asyncio.sleep(0.5)
    spent = sum(server.cpu_times()[:2]) - began
    rss, threads, received = server.memory_info().rss, server.num_threads(), Watcher.events
    for watcher in watchers:
        watcher.transport.close()
    await asyncio.sleep(0.5)
    expected = message_count * options.viewers
    return Cost(
        us_per_event=spent * 1e6 / max(1, received),
        kib_per_viewer=(rss - before) / 1024 / options.viewers,
        threads=threads,
        received=received,
        expected=expected,
    )


async def pace(say: Callable[[int], Coroutine[Any, Any, None]], rate: float, seconds: float) -> int:
    """Say ``rate`` things a second and return how many were said."""
    count = int(rate * seconds)
    began = time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        await say(number)
    return count


# --- the two servers --------------------------------------------------------------------------------


@contextmanager
def process(command: list[str], port: int, path: str, **environment: str) -> Iterator[psutil.Process]:
    """Yield the process that answers on ``port``; it is ended afterwards."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    child = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_for(port, path, child)
        workers = psutil.Process(child.pid).children()
        yield workers[0] if workers else psutil.Process(child.pid)
    finally:
        child.terminate()
        child.wait(10)
        if child.stderr is not None:
            child.stderr.close()


def wait_for(port: int, path: str, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            if path:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2).close()
            else:
                socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if child.poll() is not None or time.monotonic() > deadline:
                assert child.stderr is not None
                raise SystemExit(child.stderr.read().decode() or "the server did not start") from None
            time.sleep(0.05)


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Yield the URL of a Redis of our own."""
    path = folder / "r.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no"]
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        while not path.exists():
            time.sleep(0.02)
        yield f"unix://{path}?db=0"
    finally:
        child.terminate()
        child.wait(10)


class Writer:
    """Writes one run's events as a worker does: journal, hot log."""

    def __init__(self, settings: Settings) -> None:
        self.journal = Journal(settings, publish=lambda message: None, guard=Guardrails)
        accepted = self.journal.clients.accept(
            NewRun(
                objective="bench",
                agent_id="bench",
                agent_name="Bench",
                definition_digest="",
                definition_json="{}",
                model="demo/x",
                observers=("sse",),
            )
        )
        self.run_id, self.thread_id = accepted.run_id, accepted.thread_id
        lease = self.journal.loop.run(self.journal.owner.claim(self.run_id))
        assert lease is not None
        self._writer = self.journal.owner.writer(lease, self._tell)
        self.journal.loop.run(self._begin(lease.fence))

    async def _begin(self, fence: int) -> None:
        self.journal.live.hot_log.attach(self.run_id, fence, self._writer)
        for payload in self._writer.lease.first_events:
            self._tell(payload)

    def _tell(self, payload: Any) -> None:
        self.journal.live.hot_log.append(self.run_id, payload.seq, encode(payload, self.run_id, self.thread_id))

    async def say(self, number: int) -> None:
        word = WORDS[number % len(WORDS)]
        self.journal.loop.call_soon(
            lambda: self._writer.delta(
                ResponsePayload, {"content": f" {word}", "message_id": "msg_bench", "step_id": "stp_bench"}
            )
        )


def callboard(settings: Settings, port: int, **environment: str) -> Any:
    command = [sys.executable, "-P", "-m", "gunicorn", "--config", "web/gunicorn_conf.py", "web.app:create_app()"]
    return process(
        command,
        port,
        "" if environment else "/health",  # with TLS the certificate is the bench's own
        CALLBOARD_PORT=str(port),
        CALLBOARD_STATE_DIR=str(settings.state_dir),
        CALLBOARD_REDIS_URL=str(settings.redis_url),
        WEB_CONCURRENCY="1",
        **environment,
    )


def starlette(url: str, port: int) -> Any:
    command = [
        sys.executable,
        "-P",
        "-m",
        "uvicorn",
        "tests.bench.starlette_hub:app",
        "--port",
        str(port),
        "--log-level",
        "error",
    ]
    return process(command, port, "", BENCH_REDIS=url)


# --- rounds -----------------------------------------------------------------------------------------


def run_rounds(options: argparse.Namespace, folder: Path) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {"callboard": [], "starlette": []}
    if options.tls:
        costs["tls"] = []
        pair = Authority(folder).issue("server")
        encrypted = {"CALLBOARD_TLS_CERTIFICATE": str(pair.certificate), "CALLBOARD_TLS_KEY": str(pair.key)}
    with redis_server(folder) as url:
        # No owner extends the lease: with the default period it would expire, and be claimed, amid the measuring.
        settings = Settings(state_dir=folder / "state", redis_url=url, lease_s=3600)
        migrate(settings)
        client = redis_py.Redis.from_url(url)
        for _ in range(options.rounds):
            writer = Writer(settings)
            path = f"/v1/runs/{writer.run_id}/events"
            with callboard(settings, options.port) as server:
                costs["callboard"].append(run(measure(server, options.port, path, writer.say, options)))
            if options.tls:
                with callboard(settings, options.port, **encrypted) as server:
                    costs["tls"].append(run(measure(server, options.port, path, writer.say, options, trusting_all())))
            writer.journal.close()

            async def publish(number: int) -> None:
                client.publish("bench", plain_frame(number))

            with starlette(url, options.port + 1) as server:
                costs["starlette"].append(run(measure(server, options.port + 1, "/stream", publish, options)))
        if options.idle:
            costs["idle"] = [idle(settings, options)]
    return costs


def trusting_all() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def idle(settings: Settings, options: argparse.Namespace) -> Cost:
    """Return what viewers cost that receive nothing."""
    writer = Writer(settings)
    path = f"/v1/runs/{writer.run_id}/events"

    async def hold(server: psutil.Process) -> Cost:
        before = server.memory_info().rss
        await watch(options.port, path, options.idle)
        await asyncio.sleep(1)
        rss = server.memory_info().rss
        kib = (rss - before) / 1024 / options.idle
        return Cost(us_per_event=0, kib_per_viewer=kib, threads=server.num_threads(), received=0, expected=0)

    with callboard(settings, options.port) as server:
        cost = run(hold(server))
    writer.journal.close()
    return cost


def plain_frame(number: int) -> bytes:
    """Return a frame as long as ours."""
    word = WORDS[number % len(WORDS)]
    data = (
        f'{{"seq":{number},"run_id":"run_01m7wyc882adz9tga1jxhzbj7w","thread_id":"thr_01m7wyc883709xyr3wpwwyctqw",'
        f'"type":"response","at":"2026-11-20T16:59:30.962Z","content":" {word}","message_id":"msg_bench",'
        '"step_id":"stp_bench"}'
    )
    return f"event: response\ndata: {data}\nid: {number}\n\n".encode()


def run(work: Coroutine[Any, Any, Cost]) -> Cost:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


def show(costs: dict[str, list[Cost]]) -> None:
    print(f"{'server':<12} {'µs/event/viewer':>16} {'KiB/viewer':>11} {'threads':>8} {'lost':>6}   rounds")
    for name, rounds in costs.items():
        us = statistics.median(cost.us_per_event for cost in rounds)
        kib = statistics.median(cost.kib_per_viewer for cost in rounds)
        lost = sum(cost.expected - cost.received for cost in rounds)
        each = " ".join(f"{cost.us_per_event:.1f}" for cost in rounds)
        print(f"{name:<12} {us:>16.2f} {kib:>11.1f} {max(cost.threads for cost in rounds):>8} {lost:>6}   {each}")
    ours, theirs = (statistics.median(c.us_per_event for c in costs[name]) for name in ("callboard", "starlette"))
    print(f"ratio        {ours / theirs:>16.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viewers", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=int, default=5000, help="idle viewers of one process; 0 leaves this out")
    parser.add_argument("--tls", action="store_true", help="measure Callboard over TLS, too")
    parser.add_argument("--port", type=int, default=18310)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="cb-sse-") as folder:
        show(run_rounds(options, Path(folder)))


if __name__ == "__main__":
    main()
