"""What a person sees of a workflow's nodes while it runs, and afterwards."""

from __future__ import annotations

import io
from typing import Any

from bus.payloads import (
    ChildPayload,
    ControlPayload,
    EndPayload,
    ErrorPayload,
    NodePayload,
    Payload,
    ResponsePayload,
    ToolPayload,
    ToolResultPayload,
)
from cli.output.nodes import MOST_FAILURES, NodeLines
from cli.output.transcript import Transcript


def node(node_id: str, status: str, node_type: str = "FUNCTION", **fields: Any) -> NodePayload:
    return NodePayload(node_id=node_id, node_type=node_type, status=status, **fields)


def lines_of(*payloads: Payload) -> list[str]:
    """Return the lines about these events, each with single spaces."""
    err = io.StringIO()
    transcript = Transcript("run_1", out=io.StringIO(), err=err)
    for payload in payloads:
        transcript.take(payload)
    return [" ".join(line.split()) for line in err.getvalue().splitlines()]


def test_a_node_is_a_line_with_its_time_its_branch_and_why_it_failed() -> None:
    at = "2026-11-20T12:00:0{}.000Z"

    lines = lines_of(
        node("pay", "started", at=at.format(0)),
        ToolPayload(call_id="pay", name="charge", arguments={}),
        ToolResultPayload(call_id="pay", name="charge", outcome="failed", result="no money"),
        node("pay", "failed", at=at.format(3), branch="error", content="no money\nat all"),
        node("choose", "done", "CHOICE", branch="branch-1"),
        node("mail", "skipped"),
        node("call", "skipped"),
        node("wait", "waiting", "WAIT", content="Waits for the signal 'paid'."),
        node("pay", "compensated", duration_ms=1500),
    )

    assert lines == [
        "✕ pay FUNCTION 3.0 s → error no money …",
        "✓ choose CHOICE → branch-1",
        "– mail, call: not reached",
        "◐ wait WAIT Waits for the signal 'paid'.",
        "↶ pay FUNCTION 1.5 s",
    ]


def test_what_nodes_call_and_say_is_no_line_of_its_own() -> None:
    lines = lines_of(
        node("start", "done", "START"),
        ResponsePayload(content="Some words", message_id="m", step_id="s"),
        ChildPayload(child_run_id="run_2", agent="other", status="running", call_id="sub"),
        ChildPayload(child_run_id="run_2", agent="other", status="waiting", call_id="sub"),
        node("sub", "done", "SUB_WORKFLOW"),
        ControlPayload(control_id="ctl_1", verb="signal", state="consumed", by="ann", content="paid"),
    )

    assert lines == [
        "✓ start START",
        "↳ other run_2 waiting; answer it: `./callboard approve run_2`",
        "✓ sub SUB_WORKFLOW run_2",
        "→ signal paid from ann",
    ]


def test_the_end_says_what_is_not_undone_and_a_failure_once() -> None:
    left = {"node": "ship", "tool": "send", "reason": "it has no `compensate`"}
    lines = lines_of(
        node("pay", "failed", content="no money"),
        ErrorPayload(code="tool_failed", message="no money", retryable=False),
        EndPayload(status="failed", reason="tool_failed", not_undone=[left]),
    )

    assert lines == [
        "✕ pay FUNCTION no money",
        "! not undone: ship, a call of send: it has no `compensate`",
        "✕ failed (tool_failed) · run_1",
    ]


def test_items_of_child_runs_are_counted_as_the_node_says() -> None:
    nodes = NodeLines()
    for fields in ({"content": "45 items"}, {"content": "batch 0"}, {"counts": {"done": 8, "failed": 2}}):
        nodes.take(node("all", "started", "FOR_EACH", **fields))

    assert nodes.at_work == "● all 10 of 45 items, 2 failed"
    assert nodes.take(node("all", "done", "FOR_EACH"))[0].text.endswith("45 items, 2 failed")


def test_items_that_failed_in_child_runs_are_named_with_their_errors() -> None:
    nodes = NodeLines()
    nodes.take(node("all", "started", "FOR_EACH", content="4 items"))
    error = {"error": {"code": "tool_failed", "message": "no city"}}
    for call_id, indices, name in (("all~2", [2, 3], "all"), ("x/0/in~0", [0], "in")):
        arguments = {"node": name, "path": call_id.split("/")[:-1], "indices": indices}
        nodes.take_call(ToolPayload(call_id=call_id, name="for_each", arguments=arguments))
        result = [{"status": "done", "result": 1}, {"status": "failed", "result": error}][-len(indices) :]
        nodes.take_call(ToolResultPayload(call_id=call_id, name="for_each", outcome="done", result=result))

    nodes.take(node("all", "started", "FOR_EACH", counts={"done": 3, "failed": 1}))

    lines = [line.text for line in nodes.take(node("all", "done", "FOR_EACH"))]
    assert lines[0].endswith("4 items, 1 failed")
    assert lines[1:] == ["    ✕ item 3  no city"]


def test_a_loop_is_one_line_whose_count_grows_and_that_names_failed_items() -> None:
    nodes = NodeLines()
    nodes.take(node("all", "started", "FOR_EACH", content="9 items"))
    seen = []
    for index in range(9):
        for name in ("a", "b"):
            nodes.take(node(name, "started", path=("all", index)))
            status = "failed" if index < 7 and name == "b" else "done"
            nodes.take(node(name, status, path=("all", index), content="no" if status == "failed" else None))
        seen.append(nodes.at_work)

    over = nodes.take(node("all", "done", "FOR_EACH"))

    assert seen[0] == "● all 1 of 9 items, 1 failed"
    assert seen[-1] == "● all 9 of 9 items, 7 failed"
    assert over[0].text.endswith("9 items, 7 failed")
    assert [line.text for line in over[1:]] == [
        *(f"    ✕ item {index}  b: no" for index in range(MOST_FAILURES)),
        "    … and 2 more",
    ]
    assert nodes.at_work == ""


def test_a_terminal_shows_what_is_at_work_in_one_line_that_is_replaced() -> None:
    err = _Terminal()
    transcript = Transcript("run_1", out=io.StringIO(), err=err)

    for payload in (node("a", "started"), node("b", "started"), node("a", "done")):
        transcript.take(payload)

    assert "● a\r\x1b[K● a · b\r\x1b[K" in err.getvalue()
    assert err.getvalue().endswith("● b")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
