import subprocess

import pytest

from tests.fleet import bare_environment
from tests.processes import run_python

pytestmark = pytest.mark.parity

SCRIPT = """
import sys, threading, time
from observers.base import AgentObserver
from tests.observers.conftest import Room

class Prints(AgentObserver):
    name = "prints"
    def on_response(self, agent, payload, context):
        print(payload.type, flush=True)

class Blocks(AgentObserver):
    name = "blocks"
    def on_response(self, agent, payload, context):
        threading.Event().wait()

observers = [Prints()] + ([Blocks()] if "block" in sys.argv else [])
Room(*observers).whole_run(pieces=1)
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python("-c", SCRIPT, *arguments, env=bare_environment(), timeout_s=30)


def test_what_was_queued_is_delivered_before_the_interpreter_ends() -> None:
    done = run()

    assert (done.returncode, done.stdout.split()) == (0, ["status", "response", "message", "end"])


def test_an_observer_that_blocks_for_ever_keeps_no_process_alive() -> None:
    done = run("block")

    assert (done.returncode, done.stdout.split()) == (0, ["status", "response", "message", "end"])
    assert "'blocks' did not take everything" in done.stderr
