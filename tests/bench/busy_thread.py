"""What 200 threads notice of 1,000 messages that eight processes have sent to one thread: the first token beside none.

    PYTHONPATH=. .venv/bin/python -m tests.bench.busy_thread [--rounds 3] [--quick] [--json]

The messages go over HTTP to one web process, and one worker answers them while it answers the 200. The reference is the
same load where a client waits for each answer before it sends the next message to the thread, so that none waits.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import func, select

from config.database.engine import Database, open_database
from config.database.tables import messages, runs, workers
from config.settings import Settings
from tests.bench import rigs
from tests.bench.command import Effort, run, say
from tests.bench.processes import NotReady, model_server
from tests.bench.report import Bar, Figure, Report

SENDERS, MESSAGES, THREADS = 8, 1_000, 200
AGENT = "bench-1-80"
"""Its model answers with one token, and is done 50 ms after it was asked."""
RAMP_S = 10.0
"""In which the threads beside begin; each is answered with 20 tokens, 20 a second."""
PATIENCE_S = 900
FIRST, QUANTILES = "first_token_ms", ("p50", "p99")


def measure(effort: Effort) -> Report:
    """Return the first token of the threads beside, and what went wrong in the busy thread."""
    count, beside = effort.pick(MESSAGES, 80), effort.pick(THREADS, 20)
    rounds: list[Round] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cbbench")))
        rig = stack.enter_context(rigs.callboard(folder, stack.enter_context(model_server(folder))))
        assert rig.agents is not None
        assert rig.settings is not None
        database = stack.enter_context(contextlib.closing(open_database(rig.settings.database)))
        rigs.define_agent(rig.agents, 1, 80)
        rig.load(streams=20, tokens=20, rate=20, ramp_s=1)
        for number in range(effort.rounds):
            rounds.append(_round(rig, database, f"thread-{number}", count, beside))
            say(f"round {number + 1}: {rounds[-1].line()}")
    return Report(
        name="busy_thread",
        title=f"{count:,} messages at once to one thread",
        figures=[*_delays(rounds, count, beside), *_checks(rounds)],
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One round's figures."""

    calm: Mapping[str, Any]
    """What the viewers of the threads beside saw while no message waited."""
    busy: Mapping[str, Any]
    """What they saw while the messages waited."""
    accepted_s: float
    """From the first message's request until the last one's acceptance."""
    answers_per_s: float
    slots: int
    """That the worker had in use when the threads beside were done."""
    faults: int

    def line(self) -> str:
        """Return the round as a line for the terminal."""
        tokens = (f"{name} {self.busy[FIRST][name]:.0f} / {self.calm[FIRST][name]:.0f} ms" for name in QUANTILES)
        return f"accepted in {self.accepted_s:.1f} s, {self.answers_per_s:.1f}/s, faults {self.faults}, " + ", ".join(
            tokens
        )


def _round(rig: rigs.Rig, database: Database, name: str, count: int, beside: int) -> Round:
    with _chatting(rig.port, f"calm-{name}"):
        calm = rig.load(streams=beside, tokens=20, ramp_s=RAMP_S)
    began_s = time.monotonic()
    _send_at_once(rig.port, name, count)
    accepted_s = time.monotonic() - began_s
    busy = rig.load(streams=beside, tokens=20, ramp_s=RAMP_S)
    waiting = _count_waiting(database, name)
    slots = _slots_in_use(database)
    rows = _until_answered(database, name, count)
    seconds = time.monotonic() - began_s
    if not waiting:
        raise NotReady("every message was answered before the load beside it was over; send more of them")
    return Round(
        calm=calm,
        busy=busy,
        accepted_s=accepted_s,
        answers_per_s=count / seconds,
        slots=slots,
        faults=_faults(rows, count) + 2 * beside - calm["whole"] - busy["whole"],
    )


def _delays(rounds: Sequence[Round], count: int, beside: int) -> list[Figure]:
    return [
        Figure(
            name=f"first token {quantile} of {beside} threads, while {count:,} messages wait in another",
            unit="ms",
            rounds=[each.busy[FIRST][quantile] for each in rounds],
            references=[each.calm[FIRST][quantile] for each in rounds],
            bar=Bar(compares="ratio", limit=1.1),
            note="beside: none waits",
        )
        for quantile in QUANTILES
    ]


def _checks(rounds: Sequence[Round]) -> list[Figure]:
    none = Bar(compares="figure", limit=0)
    return [
        Figure(
            name="messages lost, doubled, out of order, or answered beside another",
            unit="",
            rounds=[each.faults for each in rounds],
            bar=none,
        ),
        Figure(
            name="slots in use while only these messages are left",
            unit="",
            rounds=[each.slots for each in rounds],
            bar=Bar(compares="figure", limit=1),
        ),
        Figure(
            name="acceptance of all messages from eight processes",
            unit="s",
            rounds=[each.accepted_s for each in rounds],
        ),
        Figure(
            name="answers of that thread (the model takes 50 ms for each)",
            unit="/s",
            rounds=[each.answers_per_s for each in rounds],
        ),
    ]


# --- the messages


def _send_at_once(port: int, thread_id: str, count: int) -> None:
    """Send so many messages to a thread from eight processes, each in its own order."""
    with ProcessPoolExecutor(SENDERS, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(partial(_send, port, thread_id, count // SENDERS), range(SENDERS)))


def _send(port: int, thread_id: str, count: int, sender: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for number in range(count):
        _post(connection, {"agent": AGENT, "thread_id": thread_id, "input": f"{sender} {number}"})


def _post(connection: http.client.HTTPConnection, body: Mapping[str, Any]) -> None:
    connection.request("POST", "/v1/runs", orjson.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status not in (200, 202):
        raise NotReady(f"a message was refused: {answer.status} {text.decode()[:300]}")


@contextlib.contextmanager
def _chatting(port: int, thread_id: str) -> Iterator[None]:
    """Have a client chat in a thread, each message after the answer to the one before."""
    is_over = threading.Event()

    def chat() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while not is_over.is_set():
            _post(connection, {"agent": AGENT, "thread_id": thread_id, "input": "Count.", "detached": False})

    client = threading.Thread(target=chat, name="chat")
    client.start()
    try:
        yield
    finally:
        is_over.set()
        client.join()


# --- what became of them


def _rows(database: Database, thread_id: str) -> Sequence[Any]:
    """Return the thread's runs in the order of their turns, each with its message."""
    columns = runs.c.id, runs.c.status, runs.c.started_ms, runs.c.ended_ms, messages.c.data_json
    message = (messages.c.thread_key == runs.c.thread_key) & (messages.c.number == runs.c.turn)
    query = select(*columns).join(messages, message).where(runs.c.thread_id == thread_id).order_by(runs.c.turn)
    with database.read() as connection:
        return connection.execute(query).all()


def _until_answered(database: Database, thread_id: str, count: int) -> Sequence[Any]:
    ends_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_s:
        rows = _rows(database, thread_id)
        if len(rows) == count and all(row.ended_ms is not None for row in rows):
            return rows
        time.sleep(1)  # another process answers them
    raise NotReady(f"{thread_id} is not done after {PATIENCE_S} s")


def _count_waiting(database: Database, thread_id: str) -> int:
    return sum(row.ended_ms is None for row in _rows(database, thread_id))


def _slots_in_use(database: Database) -> int:
    """Return how many runs the worker says that it works on, once it has looked again."""
    time.sleep(Settings().reap_s * 1.5)
    with database.read() as connection:
        return int(connection.execute(select(func.sum(workers.c.busy))).scalar_one())


def _faults(rows: Sequence[Any], count: int) -> int:
    """Return how many messages are lost, doubled, not answered, out of their sender's order, or answered at once."""
    sent = [str(orjson.loads(row.data_json)["content"]) for row in rows]
    wrong = count - len(set(sent)) + sum(row.status != "succeeded" for row in rows)
    for sender in range(SENDERS):
        numbers = [int(text.split()[1]) for text in sent if text.startswith(f"{sender} ")]
        wrong += sum(later < earlier for earlier, later in itertools.pairwise(numbers))
    return wrong + sum(later.started_ms < earlier.ended_ms for earlier, later in itertools.pairwise(rows))


if __name__ == "__main__":
    run(measure, __doc__)
