"""What 50 clients wait for an answer while 1,000 slow ones are connected, beside the same without them, in turns.

PYTHONPATH=. .venv/bin/python -m tests.bench.slow_clients [--rounds 3] [--quick] [--json]
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from cli.supervisor.serving import python
from config.database.migrate import migrate
from config.folders import ROOT
from config.settings import Settings
from tests.bench.command import Effort, run, say
from tests.bench.processes import clean_environment
from tests.bench.report import Bar, Figure, Report
from tests.journeys.web_server import Web
from tests.ports import free_port

NORMAL, SLOW = 50, 1000
EVERY_S = 0.2
"""Seconds between two requests of a normal client: 250 a second together, about a sixth of what is possible."""
SETTLE_S = 3.0
REQUEST = b"GET /v1/agents HTTP/1.1\r\nHost: localhost\r\n\r\n"
AGENT = "name: Assistant\nmodel: demo/assistant\nsystem_prompt: You answer.\n"


def measure(effort: Effort) -> Report:
    """Return the median and the 99th percentile of the normal clients, with slow ones and without."""
    slow, seconds = effort.pick(SLOW, 40), effort.pick(15, 2)
    latencies: dict[str, list[tuple[float, float]]] = {"quiet": [], "slow": []}
    with tempfile.TemporaryDirectory(prefix="cbbench") as folder, Web(_settings(Path(folder))) as web:
        for number in range(10):
            body = {"agent": "assistant", "input": f"{number} " + "x" * 190_000, "thread_id": "long"}
            assert web.ask("/v1/runs", body)[0] == 202
        port = web.settings.port
        asyncio.run(_clients(port, 1.0))
        for number in range(effort.rounds):
            say(f"round {number + 1} of {effort.rounds}: without")
            latencies["quiet"].append(asyncio.run(_clients(port, seconds)))
            say(f"round {number + 1} of {effort.rounds}: beside {slow} slow clients")
            with _slow(port, slow):
                latencies["slow"].append(asyncio.run(_clients(port, seconds)))
    note = "a quarter each: half a header, half a body, an unread answer, an unread stream"
    figures = [
        Figure(
            name=f"{NORMAL} clients beside {slow:,} slow ones, {name}",
            unit="ms",
            rounds=[pair[place] for pair in latencies["slow"]],
            references=[pair[place] for pair in latencies["quiet"]],
            bar=Bar(compares="ratio", limit=2.0) if name == "p99" else None,
            note=note,
        )
        for place, name in enumerate(("p50", "p99"))
    ]
    return Report(name="slow_clients", title="Normal clients beside slow ones", figures=figures)


def _settings(folder: Path) -> Settings:
    (folder / "agents").mkdir()
    (folder / "agents" / "assistant.yaml").write_text(AGENT)
    (folder / "state").mkdir(mode=0o700)
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own
        state_dir=folder / "state",
        agents_dir=str(folder / "agents"),
        port=free_port(),
    )
    migrate(settings)
    return settings


@contextlib.contextmanager
def _slow(port: int, count: int) -> Iterator[None]:
    """Hold so many slow clients, in a process of their own."""
    command = python("tests.bench.slow_peers")
    peers = subprocess.Popen(
        [*command, str(port), str(count)], cwd=ROOT, env=clean_environment(), stdout=subprocess.PIPE
    )
    try:
        assert peers.stdout is not None
        assert peers.stdout.readline() == b"connected\n"
        time.sleep(SETTLE_S)
        yield
        assert peers.poll() is None, "the slow clients ended"
    finally:
        peers.kill()
        peers.wait()


async def _clients(port: int, seconds: float) -> tuple[float, float]:
    """Return the median and the 99th percentile of what all normal clients wait, in ms."""
    until_s = time.monotonic() + seconds
    waits = await asyncio.gather(*(_client(port, number * EVERY_S / NORMAL, until_s) for number in range(NORMAL)))
    cuts = statistics.quantiles([wait for client_waits in waits for wait in client_waits], n=100)
    return cuts[49], cuts[98]


async def _client(port: int, delay_s: float, until_s: float) -> list[float]:
    """Ask at a steady pace on one connection, as keeping ones do, and return each wait in ms.

    A connection that the server closed is opened again, and that time counts.
    """
    await asyncio.sleep(delay_s)
    waits: list[float] = []
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    while (began := time.monotonic()) < until_s:
        while True:
            try:
                streams = streams or await asyncio.open_connection("127.0.0.1", port)
                await _ask(*streams)
                break
            except (OSError, asyncio.IncompleteReadError):
                if streams is not None:
                    streams[1].close()
                streams = None
        waits.append((time.monotonic() - began) * 1000)
        await asyncio.sleep(max(0.0, EVERY_S - (time.monotonic() - began)))
    if streams is not None:
        streams[1].close()
    return waits


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    await reader.readexactly(int(length.partition(b":")[2]))


if __name__ == "__main__":
    run(measure, __doc__)
