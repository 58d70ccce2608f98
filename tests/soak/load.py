"""People who use it while it breaks: some start runs, some watch, one stops, one answers what is asked."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tests.model_server import Call, Turn
from tests.soak.shop import entries

AWAY = (OSError, http.client.HTTPException, json.JSONDecodeError)
KINDS = ("chat", "long", "tools", "pay", "both")
AGENT_TOOLS = "tools: [{}]\ntimeouts: {{between_chunks_s: 20, tool_s: 20}}".format(
    ", ".join(f"'tests.soak.shop:{name}'" for name in ("look_up", "send", "order", "pay"))
)


def respond(body: Mapping[str, Any]) -> Turn:
    """Answer as the sentence says; the same conversation gets the same answer."""
    sentence = next(m["content"] for m in reversed(body["messages"]) if m["role"] == "user")
    kind, _, value = str(sentence).partition(" ")
    results = 0
    for message in reversed(body["messages"]):
        if message["role"] == "user":
            break
        results += message["role"] == "tool"
    plans: dict[str, list[list[str]]] = {"tools": [["look_up"], ["send"], ["order"]], "pay": [["pay"]],
                                         "both": [["send", "pay", "order"]]}  # fmt: skip
    done = 0
    for calls in plans.get(kind, []):
        if results == done:
            made = [Call(name=name, arguments={"value": f"{value}-{name}"}) for name in calls]
            return Turn(text=f"Now {calls[0]}. ", calls=made)
        done += len(calls)
    words = [f"{value}.{i} " for i in range(120 if kind == "long" else 25)]
    return Turn(text=words, pace=25.0)


def whole_answer(sentence: str) -> str:
    """Return the last words of a run that was started with ``sentence`` and succeeded."""
    kind, _, value = sentence.partition(" ")
    return "".join(f"{value}.{i} " for i in range(120 if kind == "long" else 25))


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


class Load:
    """Threads that go on until told to stop; what they have seen is compared at the end."""

    def __init__(self, address: str, ledger: Path, rnd: random.Random) -> None:
        self.started: list[Started] = []
        self.watched: list[Watched] = []
        self.refused = 0
        self.answered = 0
        self._address = address
        self._ledger = ledger
        self._rnd = rnd
        self._stop_starting = threading.Event()
        self._stop_all = threading.Event()
        self._threads = [threading.Thread(target=self._keep, args=(work,), daemon=True) for work in self._works()]

    def begin(self) -> None:
        """Start everybody."""
        for thread in self._threads:
            thread.start()

    def stop_starting(self) -> None:
        """Let no new run begin."""
        self._stop_starting.set()

    def end(self) -> None:
        """Send everybody home."""
        self._stop_all.set()
        for thread in self._threads:
            thread.join(20)

    def _works(self) -> list[Callable[[], None]]:
        return [self._start_one] * 2 + [self._watch_one] * 3 + [self._stop_one, self._answer]

    def _keep(self, work: Callable[[], None]) -> None:
        while not self._stop_all.is_set():
            with suppress(*AWAY):  # the other side is being broken; whoever it was tries again
                work()
            self._stop_all.wait(0.2)

    # --- starting, with a key, until it is answered

    def _start_one(self) -> None:
        if self._stop_starting.wait(self._rnd.uniform(0.1, 1.0)):
            return
        kind, key = self._rnd.choice(KINDS), uuid.uuid4().hex
        body = {"agent": "tester", "input": f"{kind} {key[:8]}"}
        if self._rnd.random() < 0.3:
            body["thread_id"] = f"shared-{self._rnd.randrange(3)}"
        while not self._stop_all.is_set():
            try:
                accepted = self._ask("/v1/runs", body, key)
                self.started.append(Started(accepted["run_id"], body["input"]))
                return
            except AWAY:
                self.refused += 1
                time.sleep(0.3)

    # --- watching, in short sights, resuming by the cursor

    def _watch_one(self) -> None:
        if not self.started:
            return
        open_ones = [w for w in self.watched if not w.has_ended]
        if len(open_ones) < 6:
            watched = Watched(self._rnd.choice(self.started[-20:]).run_id)
            self.watched.append(watched)
        else:
            watched = self._rnd.choice(open_ones)
        last = watched.events[-1]["seq"] if watched.events else 0
        watched.connections += 1
        url = f"{self._address}/v1/runs/{watched.run_id}/events?after={last}"
        until = time.monotonic() + self._rnd.uniform(0.5, 8.0)
        with urllib.request.urlopen(url, timeout=10) as feed:
            for line in feed:
                if line.startswith(b"data: "):
                    event = orjson.loads(line[6:])
                    if not watched.events or event["seq"] > watched.events[-1]["seq"]:
                        watched.events.append(event)
                if time.monotonic() > until or self._stop_all.is_set():
                    return

    # --- stopping and answering

    def _stop_one(self) -> None:
        if self._stop_all.wait(self._rnd.uniform(1, 4)) or not self.started:
            return
        one = self._rnd.choice(self.started[-10:])
        one.is_stopped = True
        self._ask(f"/v1/runs/{one.run_id}/cancel", {}, uuid.uuid4().hex)

    def _answer(self) -> None:
        """Say what somebody says who looked at the outside world."""
        listing = self._ask("/v1/runs?status=waiting&limit=50")
        for run in listing["runs"]:
            asked = self._ask(f"/v1/runs/{run['run_id']}/approvals")["approvals"]
            arrived = {(entry.tool, entry.value) for entry in entries(self._ledger)}
            for question in asked:
                value = question["arguments"]["value"]
                was_done = (question["name"], value) in arrived
                answer = {"decision": "take_as_done", "result": "done"} if was_done else {"decision": "run_again"}
                path = f"/v1/runs/{run['run_id']}/approvals/{question['approval_id']}"
                self._ask(path, answer, uuid.uuid4().hex)
                self.answered += 1
        self._stop_all.wait(0.5)

    def _ask(self, path: str, body: Mapping[str, Any] | None = None, key: str | None = None) -> Any:
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        data = orjson.dumps(body) if body is not None else None
        request = urllib.request.Request(self._address + path, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
