"""What the state of a task means, for each effect class."""

from __future__ import annotations

from typing import Any

import pytest

from agents.tools.celery_tasks.outcome import LOST_WORK, outcome_of
from bus.celery_tasks.state import PENDING, TaskState
from config.effects import Effect

BEGUN = TaskState(name="STARTED")
HARMLESS = (Effect.PURE, Effect.IDEMPOTENT)


def outcome(state: TaskState, effect: Effect = Effect.CHECKABLE, **overrides: bool | None) -> str | None:
    facts: dict[str, Any] = {"is_over": False, "tracks_starts": False, **overrides}
    task_outcome = outcome_of(state, "shop.refund", effect, **facts)
    return task_outcome.outcome if task_outcome is not None else None


@pytest.mark.parametrize("effect", Effect)
@pytest.mark.parametrize("tracks_starts", [False, True])
def test_a_task_that_has_not_ended_is_left_alone_until_its_time_is_over(effect: Effect, tracks_starts: bool) -> None:
    for state in (PENDING, BEGUN, TaskState(name="RETRY"), TaskState(name="PROGRESS")):
        assert outcome(state, effect, tracks_starts=tracks_starts) is None


@pytest.mark.parametrize("effect", Effect)
def test_pending_is_not_done_only_where_starts_are_recorded(effect: Effect) -> None:
    assert outcome(PENDING, effect, is_over=True, tracks_starts=True) == "failed"
    expected = "failed" if effect in HARMLESS else "unknown"
    assert outcome(PENDING, effect, is_over=True, tracks_starts=False) == expected
    assert outcome(BEGUN, effect, is_over=True, tracks_starts=True) == expected


@pytest.mark.parametrize("effect", Effect)
@pytest.mark.parametrize("has_begun", [True, None])
def test_a_task_that_has_begun_or_whose_begin_may_be_lost_may_have_had_its_effect(
    effect: Effect, has_begun: bool | None
) -> None:
    expected = "failed" if effect in HARMLESS else "unknown"
    assert outcome(PENDING, effect, is_over=True, tracks_starts=True, has_begun=has_begun) == expected


@pytest.mark.parametrize("effect", Effect)
@pytest.mark.parametrize("error", LOST_WORK)
def test_a_task_that_was_ended_in_the_middle_may_have_had_its_effect(effect: Effect, error: str) -> None:
    state = TaskState(name="FAILURE", error=error, message="Worker exited prematurely: signal 9 (SIGKILL)")

    assert outcome(state, effect) == ("failed" if effect in HARMLESS else "unknown")


@pytest.mark.parametrize("effect", Effect)
def test_the_applications_own_error_is_a_failure(effect: Effect) -> None:
    assert outcome(TaskState(name="FAILURE", error="OrderUnknown", message="no"), effect) == "failed"


def test_a_revoked_task_may_have_had_its_effect_only_where_it_was_terminated() -> None:
    assert outcome(TaskState(name="REVOKED", error="TaskRevokedError", message="revoked")) == "failed"
    assert outcome(TaskState(name="REVOKED", error="TaskRevokedError", message="expired")) == "failed"
    assert outcome(TaskState(name="REVOKED", error="TaskRevokedError", message="terminated")) == "unknown"


def test_an_entry_that_cannot_be_read_is_unknown() -> None:
    task_outcome = outcome_of(
        TaskState(unreadable="The result is pickled."), "shop.refund", Effect.UNSAFE, is_over=False, tracks_starts=True
    )

    assert task_outcome is not None
    assert (task_outcome.outcome, task_outcome.result) == (
        "unknown",
        "shop.refund may have ended. The result is pickled.",
    )


def test_secrets_in_the_text_of_an_exception_are_redacted() -> None:
    state = TaskState(
        name="FAILURE", error="HTTPError", message="sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD was no key"
    )

    task_outcome = outcome_of(state, "shop.refund", Effect.UNSAFE, is_over=False, tracks_starts=True)

    assert task_outcome is not None
    assert "abcdefghijklmnop" not in task_outcome.result
