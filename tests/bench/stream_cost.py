"""What reading a chunk costs this process, on the fast path and through LiteLLM's wrapper.

    PYTHONPATH=. .venv/bin/python -m tests.bench.stream_cost [--rounds 3] [--quick] [--json]

The model server is a process of its own, so that only the reader's CPU time is counted.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from agents.models.call import ModelCall
from agents.models.lite import litellm_module
from agents.models.open import open_stream
from agents.models.streams.fast import SWITCH
from agents.steps.streaming import StreamedResponseWrapper
from bus.loop import new_event_loop
from tests.bench.command import Effort, run
from tests.bench.processes import model_server
from tests.bench.report import Figure, Report

FAMILIES = ("openai/bench", "hosted_vllm/bench", "anthropic/bench", "gemini/bench", "ollama_chat/bench")


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """How the streams come."""

    name: str
    chunks: int
    streams: int
    pace: int
    """Chunks a second; 0: as fast as they go."""


async def cpu_per_chunk(model: str, url: str, chunks: int, streams: int, pace: int) -> float:
    """Return the CPU microseconds of one chunk, opening the streams included."""
    base = url if model.startswith(("openai", "hosted_vllm")) else url.removesuffix("/v1")
    call = ModelCall(
        model=f"{model}-{chunks}-{pace}",
        messages=[{"role": "user", "content": "go"}],
        api_base=base,
        params={"max_tokens": 99_999} if model.startswith("anthropic") else {},
    )

    async def read() -> int:
        count = 0
        async with StreamedResponseWrapper(await open_stream(call)) as stream:
            async for batch in stream:
                count += sum(1 for chunk in batch if chunk.text)
        assert count == chunks, f"{count} of {chunks} chunks arrived"
        return count

    started = time.process_time()
    counts = await asyncio.gather(*(read() for _ in range(streams)))
    return (time.process_time() - started) / sum(counts) * 1e6


async def costs_of(model: str, url: str, rounds: int, load: Load) -> dict[str, list[float]]:
    """Return the cost of a chunk in each round, by the setting of the fast path."""
    costs: dict[str, list[float]] = {"1": [], "0": []}
    for switch in costs:
        os.environ[SWITCH] = switch
        await cpu_per_chunk(model, url, 20, 1, 0)
    gc.collect()
    gc.freeze()
    for _ in range(rounds):
        for switch, values in costs.items():
            os.environ[SWITCH] = switch
            values.append(await cpu_per_chunk(model, url, load.chunks, load.streams, load.pace))
    return costs


def measure(effort: Effort) -> Report:
    """Return the cost of a chunk of each family: flat out, then paced."""
    litellm_module()
    loads = (
        Load(name="flat out", chunks=effort.pick(4000, 200), streams=1, pace=0),
        Load(name="50 streams at 20/s", chunks=effort.pick(60, 10), streams=50, pace=20),
    )
    figures = []
    with tempfile.TemporaryDirectory(prefix="cbbench") as folder, model_server(Path(folder)) as url:
        for model in FAMILIES:
            for load in loads:
                with asyncio.Runner(loop_factory=new_event_loop) as runner:
                    costs = runner.run(costs_of(model, url, effort.rounds, load))
                name = f"{model.partition('/')[0]}, {load.name}: beside LiteLLM's wrapper"
                figures.append(Figure(name=name, unit="µs", rounds=costs["1"], references=costs["0"]))
    return Report(name="stream_cost", title="What a chunk costs in the worker (CPU, opening included)", figures=figures)


if __name__ == "__main__":
    run(measure, __doc__)
