"""Chats, one after another, worked off here between two lines on stdin; prints each first token's milliseconds."""

from __future__ import annotations

import select
import sys
import time

import orjson

from agents.runner import Runner
from bus.payloads import ResponsePayload

AGENT = "bench-20-20"
PAUSE_S = 0.2


def main() -> None:
    """Chat from the first line on stdin to the second."""
    runner = Runner.open()
    first_token_ms: list[float] = []
    try:
        _first_token_ms(runner)  # imports the model's client
        print("ready", flush=True)
        sys.stdin.readline()
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            first_token_ms.append(_first_token_ms(runner))
    finally:
        runner.close()
    print(orjson.dumps(first_token_ms).decode(), flush=True)


def _first_token_ms(runner: Runner) -> float:
    began_s = time.perf_counter()
    found_ms = float("inf")
    for payload in runner.run("Hello", AGENT).events():
        if isinstance(payload, ResponsePayload) and found_ms == float("inf"):
            found_ms = (time.perf_counter() - began_s) * 1000
    return found_ms


if __name__ == "__main__":
    main()
