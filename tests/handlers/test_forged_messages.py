"""Wake-ups that a stranger wrote: SQL decides, so they begin nothing that was not accepted, and change nothing."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select

from agents.testing import AgentKit, Turn
from bus.messages.run_agent import RunAgentMessage
from config.database.tables import events, runs, steps
from handlers import run_agent

pytestmark = pytest.mark.parity  # Celery's application looks for a Redis

BASE = RunAgentMessage(run_id="run_1", agent_id="tester", thread_id="thr_1")
FORGED: dict[str, Any] = {
    "an unknown run": BASE.to_wire(),
    "a path": replace(BASE, run_id="../../etc/passwd").to_wire(),
    "a key of Redis": replace(BASE, run_id="*:{callboard}:log").to_wire(),
    "SQL": replace(BASE, run_id="' OR 1=1 --").to_wire(),
    "half a character": BASE.to_wire() | {"run_id": "\ud800"},
    "NUL": BASE.to_wire() | {"run_id": "a\0b"},
    "a log line": BASE.to_wire() | {"run_id": "r\nERROR forged"},
    "an agent by path": replace(BASE, agent_id="../../config/agents/office").to_wire(),
    "a grant as a flag": BASE.to_wire() | {"grant": True},
    "a grant of nothing": BASE.to_wire() | {"grant": "grant_1"},
    "a fence": BASE.to_wire() | {"fence": 99, "owner": "me", "status": "succeeded"},
    "another tenant": BASE.to_wire() | {"tenant": "other", "principal": "root", "roles": ["admin"]},
    "a type to construct": BASE.to_wire() | {"__type__": "os.system", "lc": 1, "py/object": "os.system"},
    "nothing": None,
    "a number": 5,
    "an empty id": BASE.to_wire() | {"run_id": ""},
    "a list for an id": BASE.to_wire() | {"run_id": ["run_1"]},
    "a long id": BASE.to_wire() | {"run_id": "r" * 1_000_000},
}


def counts(kit: AgentKit) -> list[int]:
    with kit.runner.journal.database.read() as connection:
        return [
            connection.execute(select(func.count()).select_from(table)).scalar_one() for table in (runs, steps, events)
        ]


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_wake_up_begins_nothing(kit: AgentKit, caplog: pytest.LogCaptureFixture, name: str) -> None:
    kit.model.script(Turn(text="whole"))
    kit.play()
    before = counts(kit)
    caplog.set_level(logging.INFO)

    run_agent.run_agent(FORGED[name])

    assert counts(kit) == before
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]


def test_an_old_wake_up_that_is_sent_again_begins_nothing(kit: AgentKit) -> None:
    kit.model.script(Turn(text="once"))
    handle = kit.run()
    assert handle.result(20).status == "succeeded"
    before = counts(kit)

    for _ in range(20):
        run_agent.run_agent(replace(BASE, run_id=handle.run_id, thread_id=handle.thread_id).to_wire())

    assert counts(kit) == before
    assert len(kit.model.requests) == 1


def test_a_wake_up_for_a_queued_run_of_anyone_begins_it_as_its_owner_alone(kit: AgentKit) -> None:
    kit.model.script(Turn(text="done"))
    handle = kit.run(detached=True)
    forged = replace(BASE, run_id=handle.run_id, agent_id="another", thread_id="thr_x", definition_digest="0" * 64)

    run_agent.run_agent(forged.to_wire() | {"tenant": "other", "principal": "root", "grant": "grant_1"})

    assert handle.result(20).status == "succeeded"
    with kit.runner.journal.database.read() as connection:
        row = connection.execute(select(runs).where(runs.c.id == handle.run_id)).one()
    assert (row.agent_id, row.tenant, row.principal) == ("tester", "default", "local")
