"""A project with tools, in a folder of its own beside a `config` of its own, and the SDK's client of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from config.folders import ROOT

MODES = ("legacy", "2026-07-28")
"""The eras of the protocol, by what the SDK's client calls them."""
CLIENTS = str(ROOT / "clients" / "python")
TOOLS = '''
import asyncio
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import date
from enum import Enum

import config
from callboard_client.tools import idempotency_key, tool

print("printed by the import")


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Parcel:
    number: str
    sent: date
    size: Size = Size.SMALL

    def __post_init__(self) -> None:
        {"P-1": 1}[self.number]


@tool(effect="pure", timeout_s=5)
def price(title: str) -> int:
    """Say what a book costs.

    Args:
        title: the book's title.
    """
    print("printed by the tool")
    os.system("echo printed by a child")
    print("stdin has", repr(sys.stdin.read()))
    return config.PRICES[title]


@tool(effect="idempotent", name="send")
def send_parcel(parcel: Parcel) -> Parcel:
    """Send a parcel."""
    assert isinstance(parcel, Parcel) and isinstance(parcel.sent, date) and isinstance(parcel.size, Size)
    return parcel


@tool(effect="keyed")
async def pay(euros: float) -> str:
    """Pay."""
    await asyncio.sleep(0)
    return f"{euros:.2f} paid with {idempotency_key()}"


meeting = threading.Barrier(3, timeout=20)


@tool
def meet() -> None:
    """Return once two others are here."""
    meeting.wait()


@tool
async def cancelled(marker: str) -> None:
    """Wait, and note what became of it."""
    open(marker + ".begun", "w").close()
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        open(marker, "w").close()
        raise


@tool(timeout_s=0.1)
def hang() -> None:
    """Never end."""
    time.sleep(600)


@tool
def with_child(marker: str) -> None:
    """Start a process and never end."""
    child = subprocess.Popen(["sleep", "600"])
    with open(marker + ".part", "w") as out:
        out.write(str(child.pid))
    os.rename(marker + ".part", marker)
    time.sleep(600)


@tool
def leave() -> None:
    """Exit."""
    sys.exit("good bye")


@tool
async def leave_loop() -> None:
    """Exit."""
    sys.exit("good bye")


@tool
def lie() -> int:
    """Return another type."""
    return "three"


@tool
def large() -> str:
    """Return too much."""
    return "x" * 5_000_000


@tool
def surrogate() -> str:
    """Return what is no text."""
    return "a\\ud800b"
'''


def make_project(folder: Path, tools: str = TOOLS) -> Path:
    """Write a project whose `config` is not Callboard's, and return its folder."""
    for name, text in {
        "config/__init__.py": "PRICES = {'Emma': 7}\n",
        "shop/__init__.py": "",
        "shop/tools.py": tools,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def command(*modules: str) -> list[str]:
    """Return the command that serves modules."""
    return [sys.executable, "-m", "callboard_client.tools", *modules]


def variables() -> dict[str, str]:
    """Return the variables of a project's process that finds the client, and nothing of Callboard."""
    return {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": CLIENTS}


@asynccontextmanager
async def connected(
    project: Path,
    mode: str,
    errors: Path,
    served: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Client]:
    """Yield the SDK's client of a project's tools; what the process prints goes to the file ``errors``.

    ``served``: the command; by default that of this interpreter, with the module ``shop.tools``.
    """
    program, *arguments = served or command("shop.tools")
    own = variables() if environment is None else dict(environment)
    server = StdioServerParameters(command=program, args=arguments, cwd=project, env=own)
    with errors.open("w") as log:
        async with Client(stdio_client(server, errlog=log), mode=mode) as client:
            yield client


def start(project: Path, *modules: str) -> subprocess.Popen[bytes]:
    """Start the server as an MCP client does: in a process group of its own."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(*(modules or ("shop.tools",))),
        cwd=project,
        env=variables(),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )


@contextmanager
def started(project: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a server; it has ended afterwards, and its pipes are closed."""
    with start(project) as server:
        try:
            yield server
        finally:
            server.kill()
