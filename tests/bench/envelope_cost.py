"""What verifying a signed envelope costs, beside a bare HMAC of the same bytes in the same run.

    PYTHONPATH=. .venv/bin/python -m tests.bench.envelope_cost [--rounds 3] [--quick] [--json]

Refusals of a wrong signature are compared by how many of its first characters are right: a comparison that ends at the
first difference would take longer for each of them.
"""

from __future__ import annotations

import hmac
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

from bus.identity.envelope import CallEnvelope, SqlNonces, sign, verify
from bus.identity.errors import EnvelopeRefused
from config.database.engine import open_database
from config.database.migrate import migrate
from config.settings import Settings
from tests.bench.command import Effort, run, say
from tests.bench.report import Bar, Figure, Report
from tests.bus.identity.test_envelope import TAMPERED

BAR_US = 50
TREND = 1.05
SECRET = b"5d2f0c8a91b34e67d0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f7"
NOW_S = 1764000000
AUDIENCE, METHOD = "default/default", "POST /execute"
SIZES = {"1 KiB": 1024, "16 KiB": 16 * 1024, "2 MiB": 2 * 1024 * 1024}
"""Bodies; the bar is for the first, as most calls of tools are."""
BLOCK = 100


def measure(effort: Effort) -> Report:
    """Return the CPU time of a verification by the body's size, of its use, and of refusals by the matching prefix."""
    figures = [_verification(name, size, effort) for name, size in SIZES.items()]
    return Report(
        name="envelope_cost",
        title="What a signed envelope costs",
        figures=[*figures, _use(effort), _trend(effort), _accepted()],
    )


def _verification(name: str, size: int, effort: Effort) -> Figure:
    body = b"x" * size
    text = signed(body)
    message = text.partition(";sig=")[0].encode() + f"\n{AUDIENCE}\n{METHOD}\n".encode() + body
    number = effort.pick(max(20, 20_000_000 // (size + 1000)), 20)
    rounds, references = [], []
    for _ in range(effort.rounds):
        rounds.append(each_us(partial(checked, text, body), number))
        references.append(each_us(partial(hmac.digest, SECRET, message, "sha256"), number))
    say(f"{name}: {min(rounds):.1f} µs beside {min(references):.1f} µs")
    bar = Bar(compares="figure", limit=BAR_US) if size == SIZES["1 KiB"] else None
    what, note = f"verifying a body of {name}", "beside: hmac.digest of the same bytes"
    return Figure(name=what, unit="µs", rounds=rounds, references=references, bar=bar, note=note)


def _use(effort: Effort) -> Figure:
    """Return what it takes to use an envelope up: a commit of a row, so mostly the disk's time."""
    number, numbers, rounds = effort.pick(500, 5), count(), []
    with _nonces() as nonces:
        for _ in range(effort.rounds):
            began = time.perf_counter()
            for _ in range(number):
                nonce = f"{next(numbers):022d}"
                nonces.use_up(CallEnvelope(key_id="main", time_s=int(time.time()), nonce=nonce))
            rounds.append((time.perf_counter() - began) / number * 1e6)
    say(f"use: {min(rounds):.0f} µs")
    return Figure(name="using it up", unit="µs", rounds=rounds, note="one row committed to SQLite")


def _trend(effort: Effort) -> Figure:
    """Return the time of refusing a signature of which all but the last character is right, and of one with none."""
    body = b"x" * 200
    text = signed(body)
    start = text.index(";sig=:") + len(";sig=:")
    none_right = text[:start] + "".join(_other(letter) for letter in text[start:-2]) + "=:"
    most_right = text[:-3] + _other(text[-3]) + "=:"
    blocks, rounds, references = effort.pick(200, 5), [], []
    for _ in range(effort.rounds):
        pairs = [
            tuple(each_us(partial(checked, envelope, body), BLOCK) for envelope in (most_right, none_right))
            for _ in range(blocks)
        ]
        rounds.append(statistics.median(most for most, _ in pairs))
        references.append(statistics.median(none for _, none in pairs))
    bar = Bar(compares="ratio", limit=TREND)
    note = f"beside: with none; {blocks * BLOCK:,} of each, by turns"
    name = "refusing a signature with 42 right characters"
    return Figure(name=name, unit="µs", rounds=rounds, references=references, bar=bar, note=note)


def _accepted() -> Figure:
    """Return how many envelopes are accepted of those that the tests have tampered with."""
    tampered = [item for part in TAMPERED.values() for item in part]
    accepted = 0
    for envelope in tampered:
        with suppress(EnvelopeRefused):
            envelope.verify()
            accepted += 1
    bar = Bar(compares="figure", limit=0)
    return Figure(
        name="tampered envelopes that are accepted", unit="", rounds=[accepted], bar=bar, note=f"of {len(tampered):,}"
    )


def signed(body: bytes) -> str:
    return sign(
        body,
        key_id="main",
        key=SECRET,
        audience=AUDIENCE,
        method=METHOD,
        time_s=NOW_S,
        nonce="lT2mVq0d9s3Kx8YbQ7nR4w",
    )


def checked(text: str, body: bytes) -> None:
    """Verify an envelope and drop the outcome."""
    with suppress(EnvelopeRefused):
        verify(text, keys={"main": SECRET}, audience=AUDIENCE, method=METHOD, body=body, now_s=NOW_S)


def each_us(work: Callable[[], object], number: int) -> float:
    """Return the CPU time of one of ``number`` calls."""
    work()
    began = time.thread_time()
    for _ in range(number):
        work()
    return (time.thread_time() - began) / number * 1e6


@contextmanager
def _nonces() -> Iterator[SqlNonces]:
    with tempfile.TemporaryDirectory(prefix="cbbench") as folder:
        url = f"sqlite:///{Path(folder) / 'callboard.db'}"
        settings = Settings(_env_file=None, state_dir=Path(folder), database_url=url)  # type: ignore[call-arg]
        migrate(settings)
        database = open_database(url)
        yield SqlNonces(lambda: database)
        database.close()


def _other(letter: str) -> str:
    return "B" if letter == "A" else "A"


if __name__ == "__main__":
    run(measure, __doc__)
