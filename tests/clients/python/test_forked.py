"""A client that is used on both sides of a fork, as a module of Celery's prefork pool has it."""

from __future__ import annotations

import os

import pytest

from callboard_client import Callboard
from tests.clients.python.scripted_server import Answer, ScriptedServer

RUN = {"run_id": "run_1", "thread_id": "sums", "agent": "assistant", "status": "running"}


@pytest.mark.parity
def test_a_forked_child_has_connections_of_its_own() -> None:
    with ScriptedServer(Answer(body=RUN)) as server, Callboard(server.address) as callboard:
        callboard.runs.get("run_1")
        of_parent = callboard._transport._http()

        child = os.fork()
        if child == 0:
            is_own = callboard._transport._http() is not of_parent
            os._exit(0 if is_own and callboard.runs.get("run_1").status == "running" else 1)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert len(server.requests) == 2
