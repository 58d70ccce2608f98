"""A run followed on a terminal that comes to wait for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from agents.handle import RunHandle
from bus.payloads import EndPayload, Payload, StatusPayload
from cli.output.following import follow
from cli.output.transcript import WAITING

QUESTION = {"approval_id": "apr_1", "name": "refund", "arguments": {}, "decisions": ("run_again", "fail")}


class Waits:
    """A run that waits and, once a client watches on, ends."""

    run_id, thread_id = "run_1", "thr_1"

    def __init__(self, *questions: dict[str, Any]) -> None:
        self._asked = questions

    def events(self, after: int) -> Iterator[Payload]:
        yield StatusPayload(seq=after + 1, status="waiting", reason="approval")
        yield EndPayload(seq=after + 2, status="succeeded", output="done", duration_ms=5)

    def approvals(self) -> list[dict[str, Any]]:
        return list(self._asked)


def followed(run: Waits, **flags: Any) -> int:
    return follow(cast(RunHandle, run), is_stoppable=True, **flags)


@pytest.mark.parametrize("as_json", [False, True])
def test_it_says_that_it_waits_and_how_to_answer(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert followed(Waits(QUESTION), as_json=as_json) == 0

    output = capsys.readouterr()
    assert "waiting for an answer" in output.err
    assert "./callboard approve run_1" in output.err
    assert "--no-wait" in output.err
    assert "approve" not in output.out


@pytest.mark.parametrize("as_json", [False, True])
def test_without_waiting_it_returns_with_a_status_of_its_own(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert followed(Waits(QUESTION), as_json=as_json, no_wait=True) == WAITING == 3

    output = capsys.readouterr()
    assert "./callboard approve run_1" in output.err
    assert "succeeded" not in output.out + output.err


def test_a_question_that_was_answered_long_ago_is_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert followed(Waits(), as_json=False, no_wait=True) == 0

    assert "approve" not in capsys.readouterr().err
