"""A worker that has let its runs go ends at once."""

import subprocess
import sys

import pytest

from tests.fleet import bare_environment

pytestmark = pytest.mark.parity

CODE = """
import logging, sys
from handlers.worker.drain import end_without_teardown

class Heap:
    def __del__(self):
        print("taken apart")

kept = Heap()
kept.itself = kept
logging.basicConfig(stream=sys.stderr)
end_without_teardown(3)
print("the last word", end="")
logging.warning("logged")
sys.exit(0)
"""

READS_FOR_EVER = """
import logging, sys, time
from bus.loop import process_loop
from handlers.worker.process import end

logging.basicConfig(stream=sys.stderr)
loop = process_loop()

async def maintain():
    while True:
        try:
            await loop.read(time.sleep, 0.02)
        except Exception:
            logging.exception("maintenance failed")
            raise

loop.submit(maintain())
loop.submit(loop.read(time.sleep, 0.5))  # the interpreter waits for it
time.sleep(0.1)
end()
"""


def test_what_a_worker_does_periodically_ends_without_an_error():
    ran = subprocess.run(
        [sys.executable, "-c", READS_FOR_EVER], env=bare_environment(), capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_heap_is_not_taken_apart_and_nothing_said_is_lost():
    ran = subprocess.run(
        [sys.executable, "-c", CODE], env=bare_environment(), capture_output=True, text=True, check=False
    )

    assert ran.returncode == 3, ran.stderr
    assert ran.stdout == "the last word"
    assert "logged" in ran.stderr
