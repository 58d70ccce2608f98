"""The wake-up for waits for tasks: this worker's watcher looks at once, and what is forged is dropped."""

from __future__ import annotations

import threading

import pytest

from agents.testing import AgentKit
from bus.messages.look_at_tasks import LookAtTasksMessage
from handlers.look_at_tasks import look_at_tasks

pytestmark = pytest.mark.parity  # Celery's application looks for a Redis


@pytest.fixture
def looks(kit: AgentKit) -> threading.Semaphore:
    """Is released by each look of this process."""
    semaphore = threading.Semaphore(0)
    kit.runner.journal.owner.task_waits.look_soon = semaphore.release
    return semaphore


def test_each_delivery_has_this_process_look(kit: AgentKit, looks: threading.Semaphore) -> None:
    wire = LookAtTasksMessage(run_id="run_1").to_wire()

    for _ in range(2):
        look_at_tasks(wire)

        assert looks.acquire(timeout=20)


@pytest.mark.parametrize("wire", [None, {}, {"v": 2, "run_id": "run_1"}, {"v": 1, "run_id": "r" * 200}])
def test_what_is_forged_is_dropped(
    kit: AgentKit, looks: threading.Semaphore, caplog: pytest.LogCaptureFixture, wire: object
) -> None:
    look_at_tasks(wire)
    kit.runner.journal.loop.run(_nothing())

    assert not looks.acquire(blocking=False)
    assert "dropped a message" in caplog.text


async def _nothing() -> None:
    """Let the loop do what was asked of it before."""
