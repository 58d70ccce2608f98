"""A tool that uses other people's libraries: what it does with them is seen by hooks."""

from __future__ import annotations

import urllib3

from agents.tools import current_call, tool


@tool(effect="pure")
def fetch(url: str) -> int:
    """Fetch an address, write what it says to a file, and say how long it is."""
    answer = urllib3.PoolManager().request("POST", url, body=b"{}", headers={"Authorization": "Bearer plain-old-key"})
    file = current_call().sandbox / "answer.txt"
    file.write_bytes(answer.data)
    return len(answer.data)
