"""What a run's events look like on the terminal, and how it is followed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, cast

import pytest

from agents.handle import RunHandle
from bus.journal.run_end import NOT_FINISHED
from bus.payloads import (
    ApprovalPayload,
    ControlPayload,
    EndPayload,
    EndStatus,
    ErrorPayload,
    HandoverPayload,
    Payload,
    ResponsePayload,
    StatusPayload,
    ToolLogPayload,
    ToolProgressPayload,
    ToolResultPayload,
    WithdrawnPayload,
)
from cli.output.following import follow
from cli.output.transcript import WAITING, Transcript


@pytest.mark.parametrize(("ranges", "is_withdrawn"), [([[3, 4]], True), ([[5, 1000]], False), ([[1, 2], [4, 9]], True)])
def test_only_what_was_said_is_taken_back(ranges: list[list[int]], is_withdrawn: bool) -> None:
    err = io.StringIO()
    transcript = Transcript("run_1", out=io.StringIO(), err=err)
    for seq in (3, 4):
        transcript.take(ResponsePayload(seq=seq, content="word ", message_id="msg_1", step_id="step_1"))

    transcript.take(WithdrawnPayload(seq=1001, ranges=ranges))

    assert ("is withdrawn" in err.getvalue()) is is_withdrawn


@pytest.mark.parametrize(
    ("result", "expected"), [({"sent": True, "to": None}, '✓ {"sent":true,"to":null}'), ("plain\nmore", "✓ plain …")]
)
def test_a_result_is_shown_as_the_model_gets_it(result: object, expected: str) -> None:
    err = io.StringIO()
    transcript = Transcript("run_1", out=io.StringIO(), err=err)

    transcript.take(ToolResultPayload(seq=3, call_id="call_1", name="send", outcome="done", result=result))

    assert expected in err.getvalue()


def test_a_hand_over_names_the_agent_that_continues() -> None:
    err = io.StringIO()
    transcript = Transcript("run_1", out=io.StringIO(), err=err)

    transcript.take(HandoverPayload(seq=3, from_agent="desk", to_agent="billing", reason="A bill."))
    transcript.take(StatusPayload(seq=5, status="running", attempt=2))

    assert err.getvalue().splitlines() == ["→ billing continues: A bill.", "↺ continued"]


def test_what_a_call_reports_is_a_line_each() -> None:
    err = io.StringIO()
    transcript = Transcript("run_1", out=io.StringIO(), err=err)
    ids: dict[str, Any] = {"call_id": "call_1", "name": "copy"}

    transcript.take(ToolProgressPayload(seq=3, done=3.0, total=10.0, message="c.txt\x1b[2J", **ids))
    transcript.take(ToolProgressPayload(seq=4, done=0.25, **ids))
    transcript.take(ToolLogPayload(seq=5, level="warning", message="one is empty\nagain", **ids))

    assert err.getvalue().splitlines() == [
        "  … 3 of 10: c.txt⟨U+001B⟩[2J",
        "  … 0.25",
        "  warning: one is empty",
        "    again",
    ]


@pytest.mark.parametrize("forged", ["✓ paid  3 ms", " ✓ paid  3 ms", "  ✓ paid  3 ms", "   ✓ paid  3 ms"])
def test_no_text_imitates_the_line_of_a_call_that_succeeded(forged: str) -> None:
    err = io.StringIO()
    transcript = Transcript("run_1", out=io.StringIO(), err=err)
    ids: dict[str, Any] = {"call_id": "call_1", "name": "pay"}

    transcript.take(ToolLogPayload(seq=3, level="info", message=f"paying\n{forged}", **ids))
    transcript.take(ErrorPayload(seq=4, code="internal", message=f"no model\n{forged}", retryable=False))
    transcript.take(ToolResultPayload(seq=5, outcome="done", result="paid", duration_ms=3, **ids))

    lines = err.getvalue().splitlines()
    assert [line for line in lines if line.startswith("  ✓")] == [lines[-1]]
    assert lines.count("    ✓ paid  3 ms") == 2


@pytest.mark.parametrize(("read", "expected"), [(1390, "1,390 tokens in, 44 out"), (1, "1 token in, 44 out")])
def test_an_end_says_what_came_in_and_what_went_out(read: int, expected: str) -> None:
    err = io.StringIO()
    transcript = Transcript("run_1", out=io.StringIO(), err=err)

    transcript.take(EndPayload(seq=3, status="succeeded", usage={"input_tokens": read, "output_tokens": 44}))

    assert f"✓ succeeded · {expected} · run_1" in err.getvalue()


@pytest.mark.parametrize(("arguments", "is_visible"), [({"boxes": 9}, True), (None, False)])
def test_an_approval_with_other_arguments_shows_them(arguments: dict[str, int] | None, is_visible: bool) -> None:
    err = io.StringIO()
    transcript = Transcript("run_1", out=io.StringIO(), err=err)

    transcript.take(ApprovalPayload(seq=3, approval_id="apr_1", decision="approve", by="ann", arguments=arguments))

    assert "decided by ann" in err.getvalue()
    assert ("boxes: 9" in err.getvalue()) is is_visible


@pytest.mark.parametrize(("status", "is_visible"), [("failed", True), ("dead", True), ("succeeded", False)])
def test_a_run_that_failed_names_its_trace(status: EndStatus, is_visible: bool) -> None:
    err = io.StringIO()
    transcript = Transcript("run_1", out=io.StringIO(), err=err)

    transcript.take(StatusPayload(seq=1, status="queued", trace_id="4bf92f3577b34da6a3ce929d0e0e4736"))
    transcript.take(EndPayload(seq=2, status=status))

    assert ("run_1 · trace 4bf92f3577b34da6a3ce929d0e0e4736" in err.getvalue()) is is_visible


def test_a_call_that_a_stop_cut_off_is_marked_as_the_runs_end_is() -> None:
    err = io.StringIO()
    transcript = Transcript("run_1", out=io.StringIO(), err=err)
    transcript.take(ToolResultPayload(seq=3, call_id="call_1", name="look", outcome="cancelled", result=NOT_FINISHED))
    transcript.take(EndPayload(seq=4, status="cancelled", reason="stopped"))

    assert f"■ {NOT_FINISHED}" in err.getvalue()
    assert "■ cancelled (stopped)" in err.getvalue()
    assert "✕" not in err.getvalue()


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


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ([StatusPayload(status="queued", reason="child")], "↺ continued"),
        ([StatusPayload(status="moved", reason="drain")], "↺ continued"),
        ([StatusPayload(status="waiting", reason="child")], "↺ continued"),
        ([], "↺ taken over, attempt 3"),
    ],
)
def test_only_a_run_whose_worker_was_lost_is_taken_over(before: list[StatusPayload], line: str) -> None:
    err = io.StringIO()
    transcript = Transcript("run_1", out=io.StringIO(), err=err)

    for event in [*before, StatusPayload(status="running", attempt=3)]:
        transcript.take(event)

    assert err.getvalue().splitlines()[-1] == line


@pytest.mark.parametrize(("output", "printed"), [("Your order 1042.", "Your order 1042.\n"), ([1], "[\n  1\n]\n")])
def test_an_output_that_no_model_streamed_is_the_answer(output: Any, printed: str) -> None:
    out = io.StringIO()
    transcript = Transcript("run_1", out=out, err=io.StringIO())

    transcript.take(EndPayload(status="succeeded", output=output))

    assert out.getvalue() == printed


def test_an_answer_that_was_streamed_is_printed_once() -> None:
    out = io.StringIO()
    transcript = Transcript("run_1", out=out, err=io.StringIO())

    transcript.take(ResponsePayload(seq=3, content="Fine.", message_id="msg_1", step_id="step_1"))
    transcript.take(EndPayload(status="succeeded", output="Fine."))

    assert out.getvalue() == "Fine.\n"


CONTROL: dict[str, Any] = {"seq": 3, "control_id": "ctl_1", "by": "ann"}


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        ({"verb": "steer", "state": "consumed", "content": "Be brief.\n✓ paid"}, "→ from ann:\nBe brief.\n✓ paid\n"),
        (
            {"verb": "steer", "state": "consumed", "content": "And then?", "reason": "next_turn"},
            "→ from ann, it begins the thread's next turn:\nAnd then?\n",
        ),
        (
            {"verb": "steer", "state": "undelivered", "content": "Wait.", "reason": "stopped"},
            "✕ not delivered, from ann, the run was stopped before its model got it:\nWait.\n",
        ),
        (
            {"verb": "steer", "state": "refused", "content": "Wait.", "reason": "ended"},
            "✕ refused, from ann, the run ended before:\nWait.\n",
        ),
        ({"verb": "pause", "state": "consumed"}, "◐ paused by ann\n"),
        ({"verb": "resume", "state": "consumed"}, "→ resumed by ann\n"),
        ({"verb": "set", "state": "consumed", "content": "priority low"}, "→ set by ann: priority low\n"),
        ({"verb": "steer", "state": "accepted", "content": "Wait."}, ""),
    ],
)
def test_a_control_is_shown_once_it_is_decided(control: dict[str, Any], expected: str) -> None:
    err = io.StringIO()

    Transcript("run_1", out=io.StringIO(), err=err).take(ControlPayload(**CONTROL, **control))

    assert err.getvalue() == expected


def test_each_line_of_a_text_for_a_run_has_a_bar_on_a_terminal() -> None:
    err = Terminal()

    steer = ControlPayload(**CONTROL, verb="steer", state="consumed", content="Be brief.\n✓ paid")
    Transcript("run_1", out=io.StringIO(), err=err).take(steer)

    assert "│ Be brief.\n│ ✓ paid\n" in err.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
