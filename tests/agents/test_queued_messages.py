"""Messages for a busy thread, as the agent's file and its routes have them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.testing import AgentKit
from bus.journal.errors import THREAD_BUSY
from tests.raising import raises


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    with AgentKit() as agent_kit:
        agent_kit.agent("refunds")
        agent_kit.agent("desk", router=[{"contains": "refund", "agent": "refunds"}], system_prompt="Help.")
        yield agent_kit


def test_what_an_agents_file_says_of_a_busy_thread_holds_for_requests_that_say_nothing(kit: AgentKit) -> None:
    kit.agent("shy", if_busy="reject")
    kit.run("First", "shy", thread_id="talk", detached=True)

    with raises(THREAD_BUSY):
        kit.run("Second", "shy", thread_id="talk", detached=True)
    assert kit.runner.run("Third", "shy", thread_id="talk", detached=True, if_busy="enqueue").is_new
