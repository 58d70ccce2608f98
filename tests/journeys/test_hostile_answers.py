"""A provider's answer hurts its own run alone: a neighbour ends as soon as without it, and no worker is replaced."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.app_harness import AppHarness
from tests.fleet import Worker
from tests.journeys.neighbour import run_row
from tests.model_server import Call, Turn

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(240)]

MIB = 1024 * 1024
PLAIN = "timeouts: {first_token_s: 300, between_chunks_s: 300}\n"
STRUCTURED = PLAIN + "output_schema: {type: object, properties: {a: {type: string}}, required: [a]}\n"
TOOLS = PLAIN + "tools: [calculator]\n"
NEIGHBOUR = Turn(text=[f"{number} " for number in range(60)], pace=20)
"""Three seconds of speech."""
GROWTH_S = 1.0


def _bomb() -> bytes:
    """Return 500 MiB of blanks as gzip."""
    packer = zlib.compressobj(level=1, wbits=31)
    return b"".join([*(packer.compress(b" " * MIB) for _ in range(500)), packer.flush()])


def _error(unit: str) -> Turn:
    return Turn(status=500, raw=b'{"error": {"message": "' + unit.encode() * (10 * MIB // len(unit)) + b'"}}')


def _error_after(words: str) -> Turn:
    return Turn(text=words, error_after=2, error={"message": "-eyJ" * (MIB // 2)})


def _call(arguments: str) -> Turn:
    return Turn(calls=[Call(name="calculator", arguments=arguments, piece=10_000)])


PACKED = {"content-encoding": "gzip"}
HOSTILE: Mapping[str, tuple[str, Callable[[], Turn], str]] = {
    "an error body of 10 MB that looks like tokens": (PLAIN, lambda: _error("-eyJ"), "model_failed"),
    "an error body of 10 MB that looks like keys": (
        PLAIN,
        lambda: _error("-----BEGIN PRIVATE KEY-----"),
        "model_failed",
    ),
    "a compressed error body of 500 MB": (PLAIN, lambda: Turn(status=500, raw=_bomb(), headers=PACKED), "model_failed"),
    "a compressed answer of 500 MB": (PLAIN, lambda: Turn(raw=_bomb(), headers=PACKED), "model_failed"),
    "an error inside a stream": (PLAIN, lambda: _error_after("It begins"), "model_failed"),
    "3 KB of newlines as a structured answer": (STRUCTURED, lambda: Turn(text=["\n" * 3000, "x"]), "output_invalid"),
    "a name a hundred thousand times in arguments": (TOOLS, lambda: _call(_twice()), ""),
}
"""The agent, what it is answered, and the code its run fails with (none: it continues)."""


def _twice() -> str:
    names = ",".join(f'"{number}":1' for number in range(60_000))
    return "{" + names + ',"59999":1}'


@pytest.fixture(scope="module")
def alone_s(fleet_harness: AppHarness, worker: Worker) -> float:
    """How long the neighbour speaks without a hostile answer beside it."""
    fleet_harness.agent(PLAIN, "neighbour")
    fleet_harness.model.respond = lambda body: NEIGHBOUR
    _speaks_s(fleet_harness)  # a worker's first run takes longer
    return _speaks_s(fleet_harness)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_neighbour_of_a_hostile_answer_ends_as_soon(
    kind: str, fleet_harness: AppHarness, worker: Worker, alone_s: float
) -> None:
    more, turn, code = HOSTILE[kind]
    fleet_harness.agent(more, "hostile")
    answer = turn()
    answered: list[str] = []

    def respond(body: Mapping[str, Any]) -> Turn:
        if body["messages"][-1]["content"] == "Speak":
            return NEIGHBOUR
        if code == "" and answered:
            return Turn(text="Then not.")
        answered.append(kind)
        return answer

    fleet_harness.model.respond = respond
    hostile = fleet_harness.run("Hurt", "hostile", detached=True)
    beside_s = _speaks_s(fleet_harness)
    end = hostile.result(60)

    print(f"{kind}: the neighbour took {alone_s:.2f} s alone and {beside_s:.2f} s beside it")
    assert answered
    assert (end.status, end.reason or "") == ("failed" if code else "succeeded", code)
    assert beside_s - alone_s < GROWTH_S
    assert worker.process.poll() is None
    assert run_row(fleet_harness, hostile).crashes == 0


def _speaks_s(harness: AppHarness) -> float:
    began = time.monotonic()
    assert harness.run("Speak", "neighbour", detached=True).result(60).status == "succeeded"
    return time.monotonic() - began
