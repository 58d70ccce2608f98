"""Tools that misbehave in one way each, and two that meet."""

from __future__ import annotations

import asyncio
import os
import threading
import time

from agents.tools import current_call, tool

never = threading.Event()
meeting = threading.Barrier(2)


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the first.
        b: the second.
    """
    return a + b


@tool(effect="pure")
def echo(text: str) -> str:
    """Return the text."""
    return text


@tool(effect="pure")
def meet(name: str) -> str:
    """Return when another call has come here too; alone it fails after five seconds."""
    meeting.wait(5)
    return f"{name} met another"


@tool(effect="pure")
def explode() -> str:
    """Raise."""
    raise ValueError("the fuse was lit")


@tool(effect="pure", timeout_s=0.2)
def hang() -> str:
    """Never return."""
    never.wait()
    return "unreachable"


@tool(effect="unsafe", timeout_s=0.2)
def pay() -> str:
    """Take money, and never say whether it worked."""
    never.wait()
    return "unreachable"


@tool(effect="unsafe", confirm=True)
def launch() -> str:
    """Do what a person has to agree to."""
    raise AssertionError("no agreement")


@tool(effect="pure")
async def wait_long() -> str:
    """Wait for an hour, but notice when it is cancelled."""
    await asyncio.sleep(3600)
    return "unreachable"


@tool(effect="pure")
def wait_in_thread() -> str:
    """Wait for up to 20 seconds in a thread that cannot be stopped."""
    time.sleep(20)
    return "too late to matter"


@tool(effect="pure")
def whoami() -> dict[str, str]:
    """Tell the call this is."""
    call = current_call()
    return {"run": call.run_id, "thread": call.thread_id, "call": call.call_id, "key": call.idempotency_key}


@tool(effect="pure")
async def block_the_loop(marker: str) -> str:
    """Hold the whole process up, as a plain call in an async function does; the second time it is quick.

    Args:
        marker: path of a file that says that this was tried.
    """
    if not os.path.exists(marker):
        with open(marker, "w"):
            time.sleep(600)
    return "through"
