"""The model server as a process of its own, so that who forks children has no thread: `python -m tests.soak.models`.

A model is called ``openai/<number of the reference run>``; its answers depend on the conversation alone.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cli.supervisor.child import guarded
from cli.supervisor.serving import python
from config.folders import ROOT
from tests.model_server import ModelServer, Turn
from tests.reference_workflows import SCENARIOS

_NAMES = tuple(SCENARIOS)


def model_of(name: str) -> str:
    """Return the model that plays the reference run ``name``."""
    return f"openai/reference-{_NAMES.index(name)}"


@contextmanager
def model_process() -> Iterator[str]:
    """Yield the address of a model server that is gone afterwards."""
    process = subprocess.Popen(guarded(python("tests.soak.models")), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, "the model server did not start"
        yield url
    finally:
        process.terminate()
        process.wait(10)


def _respond(body: Mapping[str, Any]) -> Turn:
    if problems := list(_unpaired(body["messages"])):
        return Turn(text=f"No provider takes this conversation: {problems}")
    number = int(str(body["model"]).rpartition("-")[2])
    return SCENARIOS[_NAMES[number]].respond(body)


def _unpaired(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the calls and results of a conversation that have no counterpart."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                yield f"no call of {message['tool_call_id']}"
            else:
                open_calls.remove(message["tool_call_id"])
            continue
        yield from (f"no result of {call_id}" for call_id in open_calls)
        open_calls = [called["id"] for called in message.get("tool_calls") or ()]


def main() -> None:
    """Serve until ended; the first line says where."""
    with ModelServer() as server:
        server.respond = _respond
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(0)
