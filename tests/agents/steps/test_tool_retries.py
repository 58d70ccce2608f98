"""A call that failed is made again by its effect class: at most as often as its tool says, visibly, under one key."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import select

import bus.journal.log.writer
from agents.models import failures
from agents.testing import AgentKit, Call, Played, Turn
from agents.tools import current_call, tool
from bus.journal.errors import StaleOwner
from bus.journal.readers import steps_of
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import ErrorPayload, ToolResultPayload
from config.database.errors import DatabaseBusy
from config.database.tables import runs
from config.definitions.errors import DefinitionInvalid
from config.errors import Permanent, ToolFailed
from handlers.run_agent import run_agent
from tests.bus.journal_harness import lose_owner

REFUSED = ConnectionRefusedError("no one listens")
RESET = ConnectionResetError("half an answer")
BUSY = DatabaseBusy("the till is busy.")


class Till:
    """A tool that raises these errors, one a call, and then sells; its calls' keys are kept."""

    def __init__(self, *errors: Exception, effect: str = "keyed", sold: str | None = None, **marks: Any) -> None:
        self.keys: list[str] = []
        self._errors, self._sold = list(errors), sold
        check = self._check if effect == "checkable" else None
        self.tool: Callable[[], str] = tool(effect=effect, check=check, **marks)(self._function())

    def _function(self) -> Callable[[], str]:
        def sell() -> str:
            """Sell something."""
            self.keys.append(current_call().idempotency_key)
            if self._errors:
                raise self._errors.pop(0)
            return "sold"

        return sell

    def _check(self, key: str) -> str | None:
        return self._sold


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow one another without a pause that a person would notice."""
    monkeypatch.setattr(failures, "BASE_S", 0.001)


def play(kit: AgentKit, till: Till, **fields: Any) -> Played:
    kit.agent(tools=[till.tool], on_unknown="tell_model", **fields)
    kit.model.script(Turn(calls=[Call(name="sell")]), Turn(text="That is all."))
    return kit.play()


def outcome(played: Played) -> tuple[str, int | None]:
    [result] = played.of(ToolResultPayload)
    return result.outcome, result.attempt


@pytest.mark.parametrize("error", [REFUSED, RESET, BUSY, TimeoutError("slow")])
@pytest.mark.parametrize("effect", ["pure", "idempotent", "keyed", "checkable"])
def test_a_call_is_made_again_under_its_key_and_viewers_see_each_attempt(
    kit: AgentKit, effect: str, error: Exception
) -> None:
    till = Till(error, error, effect=effect)

    played = play(kit, till)

    errors = played.of(ErrorPayload)
    assert outcome(played) == ("done", 3)
    assert (len(till.keys), len(set(till.keys))) == (3, 1)
    assert [(event.attempt, event.retryable) for event in errors] == [(1, True), (2, True)]
    assert {event.call_id for event in errors} == {played.of(ToolResultPayload)[0].call_id}
    assert all(event.retry_in_ms is not None for event in errors)


@pytest.mark.parametrize(("error", "end"), [(REFUSED, "failed"), (BUSY, "failed"), (RESET, "unknown")])
def test_an_unsafe_call_is_never_made_again(kit: AgentKit, error: Exception, end: str) -> None:
    till = Till(error, effect="unsafe")

    assert outcome(play(kit, till)) == (end, 1)
    assert len(till.keys) == 1


@pytest.mark.parametrize("error", [ValueError("no"), ToolFailed("sold out."), Permanent("never.")])
def test_what_would_fail_again_is_not_repeated(kit: AgentKit, error: Exception) -> None:
    till = Till(error)

    played = play(kit, till)

    assert outcome(played) == ("failed", 1)
    assert played.of(ErrorPayload) == []


@pytest.mark.parametrize(("retries", "calls"), [(0, 1), (1, 2), (4, 5)])
def test_an_agent_says_how_often_a_tool_is_repeated(kit: AgentKit, retries: int, calls: int) -> None:
    till = Till(*[REFUSED] * 9)

    assert outcome(play(kit, till, tool_overrides={"sell": {"retries": retries}})) == ("failed", calls)
    assert len(till.keys) == calls


@pytest.mark.parametrize(
    ("effect", "errors", "end"),
    [
        ("pure", [RESET] * 3, "failed"),
        ("keyed", [RESET] * 3, "unknown"),
        ("keyed", [RESET, REFUSED, REFUSED], "unknown"),
    ],
)
def test_after_the_last_attempt_the_effect_says_what_is_known(
    kit: AgentKit, effect: str, errors: list[Exception], end: str
) -> None:
    assert outcome(play(kit, Till(*errors, effect=effect))) == (end, 3)


def test_a_checkable_call_that_took_effect_is_not_made_again(kit: AgentKit) -> None:
    till = Till(RESET, effect="checkable", sold="sold before")

    played = play(kit, till)

    assert played.results("sell") == ["sold before"]
    assert len(till.keys) == 1


def test_no_attempt_begins_when_the_calls_time_would_be_over(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "BASE_S", 30)

    assert outcome(play(kit, Till(REFUSED, timeout_s=20))) == ("failed", 1)


def test_a_stop_ends_the_pause_at_once(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "BASE_S", 30)
    till = Till(REFUSED, effect="pure")
    kit.agent(tools=[till.tool])
    kit.model.script(Turn(calls=[Call(name="sell")]))

    handle = kit.run()
    next(event for event in handle.events() if isinstance(event, ErrorPayload))
    handle.cancel()

    assert handle.result(10).status == "cancelled"
    assert len(till.keys) == 1


def test_a_run_whose_worker_is_lost_in_the_pause_makes_the_attempts_that_are_left(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    till, journal, lost = Till(*[REFUSED] * 9), kit.runner.journal, list[str]()
    kit.agent(tools=[till.tool])
    kit.model.script(Turn(calls=[Call(name="sell")]), Turn(text="That is all."))

    def lose(stage: str) -> None:
        if stage == "commit" and till.keys and not lost:
            lost.append(stage)
            raise StaleOwner("this run", 0)

    monkeypatch.setattr(bus.journal.log.writer, "failpoint", lose)
    handle = kit.run(detached=True)
    with journal.database.read() as connection:
        row = connection.execute(select(runs).where(runs.c.id == handle.run_id)).one()
    with suppress(StaleOwner):
        run_agent(RunAgentMessage.of_run(row).to_wire())
    lose_owner(journal.database, handle.run_id)
    run_agent(RunAgentMessage.of_run(row).to_wire())

    assert outcome(kit.played(handle)) == ("failed", 3)
    assert len(till.keys) == 3
    with journal.database.read() as connection:
        assert [step["attempt"] for step in steps_of(connection, handle.run_id) if step["kind"] == "tool"] == [3]


# --- what is refused


def test_retries_of_an_unsafe_tool_are_refused(kit: AgentKit) -> None:
    with pytest.raises(ValueError, match="would repeat an unsafe call"):
        Till(effect="unsafe", retries=1)
    with pytest.raises(ValueError, match="from 0 to 10"):
        Till(retries=11)
    kit.agent(tools=[Till(effect="unsafe").tool], tool_overrides={"sell": {"retries": 1}})

    end = kit.play().end

    assert (end.status, end.reason) == ("failed", DefinitionInvalid.code)
