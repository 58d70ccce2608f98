"""Tools of all five effects for the crash lab, which writes down what arrives; the shop remembers on its own."""

from __future__ import annotations

import os
from pathlib import Path

import orjson

from agents.process import current_process
from agents.runner import Runner
from agents.tools import current_call, tool
from bus.journal.clients import CONTROLS
from cli.crashlab.ledger import VARIABLE
from cli.crashlab.person import idempotency, wait_until_read


@tool(effect="pure")
def look_up(value: str) -> str:
    """Look something up."""
    return f"look_up {value} done"


@tool(effect="idempotent")
def put(value: str) -> str:
    """Put something where it belongs."""
    return f"put {value} done"


@tool(effect="keyed")
async def send(value: str) -> str:
    """Send something, once a key."""
    return f"send {value} done"


@tool(effect="pure")
def inquire(value: str) -> str:
    """Ask a person about something."""
    answer = current_call().ask(
        {"type": "object", "properties": {"a": {"enum": ["yes", "no"]}}, "required": ["a"]}, value
    )
    return f"inquire {value} {answer['a']}"


@tool(effect="pure")
def be_steered(value: str) -> str:
    """Have a person give this run a text, and return when the run has it."""
    return _have_person("steer", value)


@tool(effect="pure")
def be_paused(value: str) -> str:
    """Have a person pause this run, and return when the run has read it."""
    return f"{_have_person('pause')} {value}"


def _have_person(verb: str, content: str | None = None) -> str:
    """Request it of this run once, however often the call is made."""
    call, runner = current_call(), Runner(current_process())
    key = idempotency(call.idempotency_key, f"/v1/runs/{call.run_id}/{verb}", {"content": content})
    if content is not None:
        runner.steer(call.run_id, content, idempotency=key)
    else:
        clients, principal = runner.journal.clients, runner.principal
        clients.control(principal, call.run_id, CONTROLS[verb], by=principal.id, idempotency=key)
    wait_until_read(runner, call.run_id)
    return f"{verb} done"


@tool(effect="unsafe")
def pay(value: str) -> str:
    """Pay, each time it is called."""
    return f"pay {value} done"


@tool(effect="pure", retries=0)
def refuse(value: str) -> str:
    """Fail, each time."""
    raise ValueError(f"there is no {value}")


@tool(effect="unsafe")
def hang_up() -> str:
    """Pay over a connection that breaks before the answer is there."""
    raise ConnectionResetError("the till hung up")


@tool(effect="unsafe")
def pull_the_plug() -> str:
    """End the process that called it."""
    os._exit(7)


def was_ordered(key: str) -> str | None:
    """Return what the shop knows of an order."""
    if not _shop().exists():
        return None
    orders = dict(orjson.loads(line) for line in _shop().read_bytes().splitlines())
    return f"order {orders[key]} done" if key in orders else None


@tool(effect="checkable", check=was_ordered)
def order(value: str) -> str:
    """Order something; the shop can be asked whether it knows of it."""
    with _shop().open("ab") as shop:
        shop.write(orjson.dumps([current_call().idempotency_key, value]) + b"\n")
    return f"order {value} done"


def _shop() -> Path:
    return Path(os.environ[VARIABLE]).with_suffix(".shop")
