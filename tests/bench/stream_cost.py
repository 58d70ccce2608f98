"""Prints what reading a chunk costs this process, on the fast path and through LiteLLM's wrapper.

``python -m tests.bench.stream_cost [--chunks 4000] [--rounds 3]`` from the project's root. The model server
is a process of its own, so that only the reader's CPU time is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from agents.models.call import ModelCall
from agents.models.fast import SWITCH
from agents.models.lite import litellm_module
from agents.models.open import open_stream
from agents.streaming import StreamedResponseWrapper

FAMILIES = ("openai/bench", "hosted_vllm/bench", "anthropic/bench")


@contextmanager
def model_server() -> Iterator[str]:
    """Run the model server as a process; yields its address."""
    process = subprocess.Popen([sys.executable, "-m", "tests.model_server"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(10)


async def cpu_per_chunk(model: str, url: str, chunks: int, streams: int, pace: int) -> float:
    """Return the CPU microseconds of one chunk, opening the streams included."""
    base = url.removesuffix("/v1") if model.startswith("anthropic") else url
    call = ModelCall(
        model=f"{model}-{chunks}-{pace}", messages=[{"role": "user", "content": "go"}], api_base=base,
        params={"max_tokens": 99_999} if model.startswith("anthropic") else {},
    )  # fmt: skip

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


async def measure(arguments: argparse.Namespace, url: str) -> None:
    """Print one line a family: flat out, then paced at 20 a second."""
    litellm_module()
    print(f"{'model':<20}{'load':<22}{'fast µs':>9}{'wrapper µs':>12}{'ratio':>8}")
    for model in FAMILIES:
        for load, chunks, streams, pace in (("flat out", arguments.chunks, 1, 0), ("50 streams at 20/s", 60, 50, 20)):
            costs: dict[str, list[float]] = {"1": [], "0": []}
            for switch in costs:
                os.environ[SWITCH] = switch
                await cpu_per_chunk(model, url, 20, 1, 0)
            gc.collect()
            gc.freeze()
            for _ in range(arguments.rounds):
                for switch, values in costs.items():
                    os.environ[SWITCH] = switch
                    values.append(await cpu_per_chunk(model, url, chunks, streams, pace))
            fast, slow = (statistics.median(costs[switch]) for switch in ("1", "0"))
            print(f"{model.partition('/')[0]:<20}{load:<22}{fast:>9.1f}{slow:>12.1f}{slow / fast:>8.1f}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with model_server() as url:
        try:
            import uvloop

            uvloop.run(measure(arguments, url))
        except ImportError:
            asyncio.run(measure(arguments, url))


if __name__ == "__main__":
    main()
