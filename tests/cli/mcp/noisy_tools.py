"""Tools that write where only the protocol belongs, that take their time, and that ask first."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from agents.tools import tool


@tool(effect="pure")
def shout() -> str:
    """Write to standard output in every way that a tool may."""
    print("printed")
    sys.stdout.write("written\n")
    sys.stdout.flush()
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    return "done"


@tool(effect="pure")
def take_long(folder: str) -> str:
    """Note the beginning and the end, two seconds later or once the file ``held`` is gone."""
    (Path(folder) / "begun").touch()
    time.sleep(2)
    while (Path(folder) / "held").exists():
        time.sleep(0.05)
    (Path(folder) / "ended").touch()
    return "done"


@tool(effect="unsafe", confirm=True)
def book(room: str) -> str:
    """Book a room."""
    return f"booked {room}"
