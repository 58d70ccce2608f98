"""People who use it while it breaks: some start runs, some watch, one stops, two answer what is asked."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from tests.soak.shop import entries
from tests.soak.talk import KINDS, agent_of

AWAY = (OSError, http.client.HTTPException, json.JSONDecodeError)
STARTERS, WATCHERS, ANSWERERS = 2, 3, 2
WATCHED_AT_ONCE = 2
"""Runs one watcher looks at by turns."""
MOST_WAITING = 30
"""With so many runs in the queue no client starts another: a slow machine has less to do, and gets through."""
CONFLICT = 409


@dataclass(slots=True)
class Started:
    """A start that was answered 2xx."""

    run_id: str
    sentence: str
    is_stopped: bool = False


@dataclass(slots=True)
class Watched:
    """What one viewer pieced together over its connections."""

    run_id: str
    events: list[dict[str, Any]] = field(default_factory=list)
    connections: int = 0

    @property
    def has_ended(self) -> bool:
        return bool(self.events) and self.events[-1]["type"] == "end"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """An answer of a person, and what became of it."""

    approval_id: str
    decision: str
    is_taken: bool
    """Whether it was accepted; else an earlier one counts."""


@dataclass(slots=True)
class Seen:
    """What people have seen; compared at the end with what is written."""

    started: list[Started] = field(default_factory=list)
    watched: list[Watched] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    refused: int = 0
    """Starts that had to be tried again."""


class Load:
    """Threads that work until stopped, each with a random sequence of its own from the seed."""

    def __init__(self, address: str, ledger: Path, seed: int) -> None:
        self.seen = Seen()
        self._address = address
        self._ledger = ledger
        self._stop_starting = threading.Event()
        self._stop_all = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep, args=(work,), name=name, daemon=True)
            for name, work in self._works(seed)
        ]

    def begin(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def stop_starting(self) -> None:
        """Let no new run begin."""
        self._stop_starting.set()

    def end(self) -> None:
        """Stop all threads."""
        self._stop_all.set()
        for thread in self._threads:
            thread.join(20)

    def _works(self, seed: int) -> Iterator[tuple[str, Callable[[], None]]]:
        for name in (f"starter {n}" for n in range(STARTERS)):
            starts = new_runs(random.Random(f"{seed} {name}"))
            yield name, partial(self._start_next, starts)
        for name in (f"watcher {n}" for n in range(WATCHERS)):
            yield name, partial(self._watch, random.Random(f"{seed} {name}"), [])
        yield "stopper", partial(self._stop_one, random.Random(f"{seed} stopper"))
        for name in (f"answerer {n}" for n in range(ANSWERERS)):
            yield name, self._answer_all

    def _keep(self, work: Callable[[], None]) -> None:
        while not self._stop_all.is_set():
            with suppress(*AWAY):  # the other side is being broken; the thread tries again
                work()
            self._stop_all.wait(0.2)

    # --- starting, with a key, until it is answered

    def _start_next(self, starts: Iterator[tuple[float, dict[str, str], str]]) -> None:
        """Start one run, unless the load has stopped."""
        pause_s, body, key = next(starts)
        if self._stop_starting.wait(pause_s) or not self._wait_for_room():
            return
        while not self._stop_all.is_set():
            try:
                accepted = self._ask("/v1/runs", body, key)
                self.seen.started.append(Started(accepted["run_id"], body["input"]))
                return
            except AWAY:
                self.seen.refused += 1
                time.sleep(0.3)

    def _wait_for_room(self) -> bool:
        """Return once few enough runs wait in the queue, or that is unknown; False when the load has stopped."""
        with suppress(*AWAY):
            while len(self._ask(f"/v1/runs?status=queued&limit={MOST_WAITING}")["runs"]) >= MOST_WAITING:
                if self._stop_starting.wait(0.5):
                    return False
        return True

    # --- watching, in short sights, resuming by the cursor

    def _watch(self, rnd: random.Random, open_ones: list[Watched]) -> None:
        if not self.seen.started:
            return
        open_ones[:] = [watched for watched in open_ones if not watched.has_ended]
        if len(open_ones) < WATCHED_AT_ONCE:
            open_ones.append(Watched(rnd.choice(self.seen.started[-20:]).run_id))
            self.seen.watched.append(open_ones[-1])
        self._look(rnd.choice(open_ones), rnd.uniform(0.5, 8.0))

    def _look(self, watched: Watched, seconds: float) -> None:
        last = watched.events[-1]["seq"] if watched.events else 0
        watched.connections += 1
        url = f"{self._address}/v1/runs/{watched.run_id}/events?after={last}"
        until = time.monotonic() + seconds
        with urllib.request.urlopen(url, timeout=10) as feed:
            for line in feed:
                if line.startswith(b"data: "):
                    watched.events.append(orjson.loads(line[6:]))
                if time.monotonic() > until or self._stop_all.is_set():
                    return

    # --- stopping and answering

    def _stop_one(self, rnd: random.Random) -> None:
        if self._stop_all.wait(rnd.uniform(1, 4)) or not self.seen.started:
            return
        start = rnd.choice(self.seen.started[-10:])
        start.is_stopped = True
        self._ask(f"/v1/runs/{start.run_id}/cancel", {}, f"stop {start.run_id}")

    def _answer_all(self) -> None:
        """Answer as a person who looked up the effect; the other answerer sends the same."""
        for run in self._ask("/v1/runs?status=waiting&limit=50")["runs"]:
            approvals = self._ask(f"/v1/runs/{run['run_id']}/approvals")["approvals"]
            arrived = {entry.call for entry in entries(self._ledger)}
            for question in approvals:
                was_done = (question["name"], question["arguments"]["value"]) in arrived
                answer = {"decision": "take_as_done", "result": "done"} if was_done else {"decision": "run_again"}
                self._answer(run["run_id"], question["approval_id"], answer)
        self._stop_all.wait(0.5)

    def _answer(self, run_id: str, approval_id: str, answer: Mapping[str, str]) -> None:
        """Answer, and when that is taken say the contrary, which must not be."""
        path = f"/v1/runs/{run_id}/approvals/{approval_id}"
        for body in (answer, {"decision": "fail"}):
            try:
                self._ask(path, body, f"{threading.current_thread().name} {approval_id} {body['decision']}")
                is_taken = True
            except urllib.error.HTTPError as refused:
                if refused.code != CONFLICT:
                    raise
                is_taken = False
            self.seen.answered.append(Answered(approval_id=approval_id, decision=body["decision"], is_taken=is_taken))
            if not is_taken:
                return

    def _ask(self, path: str, body: Mapping[str, Any] | None = None, key: str | None = None) -> Any:
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        data = orjson.dumps(body) if body is not None else None
        request = urllib.request.Request(self._address + path, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)


def new_runs(rnd: random.Random) -> Iterator[tuple[float, dict[str, str], str]]:
    """Yield what is started, without end: after how many seconds, the request's body, its key."""
    while True:
        pause_s, kind, key = rnd.uniform(0.1, 1.0), rnd.choice(KINDS), f"{rnd.getrandbits(128):032x}"
        body = {"agent": agent_of(kind), "input": f"{kind} {key[:8]}"}
        if rnd.random() < 0.3:
            body["thread_id"] = f"shared-{rnd.randrange(3)}"
        yield pause_s, body, key
