"""Tools whose effects are written to a file outside of what is tried; they take a moment, so that faults find them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from agents.tools import current_call, tool
from cli.crashlab import ledger
from config.clock import epoch_ms
from tests.soak.talk import hostile

VARIABLE = "SOAK_LEDGER"
MOMENT_S = 0.3
LOST = ("0", "1", "2", "3")
"""Values are hex numbers; of a payment whose value begins so the reply never comes, and a person is asked."""
UNSAFE_MOMENTS = 5
"""An unsafe call takes so many: more of them are under way when a worker is killed, and a person is asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One call that arrived outside."""

    tool: str
    value: str
    key: str
    """Its idempotency key."""
    run_id: str
    at_ms: int
    """When it arrived, in ms since 1970."""

    @property
    def call(self) -> tuple[str, str]:
        """What was called with what; each run of a soak has values of its own."""
        return self.tool, self.value

    @property
    def in_ledger(self) -> ledger.Entry:
        """The same as an entry of the crash lab's ledger."""
        arguments = {"value": self.value}
        return ledger.Entry(mark=ledger.BEGAN, tool=self.tool, says=None, key=self.key, call_id="", arguments=arguments)


def entries(path: Path) -> Iterator[Entry]:
    """Yield what arrived so far, in order."""
    if path.exists():
        for line in path.read_bytes().splitlines():
            yield Entry(**orjson.loads(line))


def _arrive(name: str, value: str, moments: int = 1) -> str:
    call = current_call()
    entry = Entry(tool=name, value=value, key=call.idempotency_key, run_id=call.run_id, at_ms=epoch_ms())
    line = orjson.dumps(asdict(entry)) + b"\n"
    descriptor = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    time.sleep(moments * MOMENT_S)
    return f"{name} {value} done"


def _has(key: str) -> str | None:
    return next((f"{e.tool} {e.value} done" for e in entries(Path(os.environ[VARIABLE])) if e.key == key), None)


@tool(effect="pure")
def look_up(value: str) -> str:
    """Look something up."""
    return _arrive("look_up", value)


@tool(effect="pure")
def recite(value: str) -> str:
    """Look up what is hostile to its parser."""
    _arrive("recite", value)
    return "".join(hostile(value))


@tool(effect="keyed")
def send(value: str) -> str:
    """Send something, once a key."""
    return _arrive("send", value)


@tool(effect="checkable", check=_has)
def order(value: str) -> str:
    """Order something; the shop can be asked whether it knows of it."""
    return _arrive("order", value)


@tool(effect="unsafe")
def pay(value: str) -> str:
    """Pay, each time it is called; of some payments the reply is lost."""
    receipt = _arrive("pay", value, UNSAFE_MOMENTS)
    if value.startswith(LOST):
        raise ConnectionResetError("the shop hung up before it answered")
    return receipt
