"""Requests to the identity provider are bounded also where nothing else of the process has bounded its connections."""

from __future__ import annotations

import subprocess
import sys

import pytest

from config.egress.informational import MOST
from config.folders import ROOT

pytestmark = pytest.mark.parity

ASKS = """
import functools, socket, sys, threading
import httpx2
from config.egress.bounded import guard

listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]

def answer():
    peer, _ = listener.accept()
    peer.recv(65536)
    early = b"HTTP/1.1 103 Early Hints\\r\\n\\r\\n" * int(sys.argv[1])
    peer.sendall(early + b"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\nConnection: close\\r\\n\\r\\ndone")
    peer.close()

threading.Thread(target=answer, daemon=True).start()
with httpx2.Client(event_hooks={"request": [functools.partial(guard, ())]}, timeout=10, trust_env=False) as client:
    try:
        print(client.get(f"http://127.0.0.1:{port}/").text)
    except httpx2.TransportError as error:
        print(error)
"""


@pytest.mark.parametrize(("early", "printed"), [(MOST, "done"), (MOST + 1, "sent more than 16 informational answers")])
def test_informational_answers_of_the_identity_provider_are_counted(early: int, printed: str) -> None:
    argv = [sys.executable, "-P", "-c", ASKS, str(early)]

    ran = subprocess.run(argv, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)

    assert printed in ran.stdout, ran.stderr
