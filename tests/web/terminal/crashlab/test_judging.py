"""Every rule of the lab can be broken, and says so."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from bus.journal.line import Line
from web.terminal.crashlab.effects import Effects
from web.terminal.crashlab.found import Found
from web.terminal.crashlab.ledger import Entry
from web.terminal.crashlab.lives import Lived
from web.terminal.crashlab.rules import breaches, differences

CALL = {"call_id": "c1", "name": "pay"}


def line(seq: int, kind: str, **fields: Any) -> Line:
    return Line(seq, kind, orjson.dumps({"seq": seq, "type": kind, **fields}))


def step(key: str = "key_1", **fields: Any) -> dict[str, Any]:
    known = {"id": f"step_{key}", "number": 1, "name": "pay", "effect": "unsafe", "idempotency_key": key, "ended_ms": 1}
    return known | fields


def found(**fields: Any) -> Found:
    """Return a run everything is right with, but for ``fields``."""
    known: dict[str, Any] = {
        "run": {"status": "succeeded", "output": "Paid."},
        "steps": [step()],
        "messages": [
            {"role": "user", "content": "Pay."},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "result": "done", "outcome": "done", **CALL},
            {"role": "assistant", "content": "Paid."},
        ],
        "lines": [
            line(1, "status", status="queued"),
            line(2, "tool_result", call_id="c1", outcome="done"),
            line(5, "withdrawn", ranges=[[3, 4]]),
            line(6, "response", content="Paid.", message_id="m"),
            line(7, "message", role="assistant", content="Paid.", message_id="m"),
            line(8, "end", status="succeeded"),
        ],
        "fences": [0, 1, 2, 2, 2, 2],
        "answers": [],
    }
    return Found(**(known | fields))


def test_nothing_is_wrong_with_a_run_that_is_right():
    assert breaches(found()) == []
    assert differences(found(), found()) == []


LINES = list(found().lines)
MESSAGES = list(found().messages)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"run": {"status": "waiting", "detail": "for code"}}, "it did not end: waiting, for code"),
        ({"steps": [step(ended_ms=None)]}, "has no end"),
        ({"steps": [step(), step()]}, "two of its steps have one idempotency key"),
        ({"open_run": "run_1"}, "its thread still believes"),
        ({"lines": [*LINES[:2], *LINES[3:]]}, "missing and not withdrawn: [3, 4"),
        ({"lines": [LINES[1], LINES[0], *LINES[2:]]}, "do not grow"),
        ({"lines": LINES[:-1]}, "has not one end"),
        ({"lines": [*LINES, line(9, "status", status="running")]}, "has not one end, or something behind it"),
        ({"run": {"status": "failed"}}, "its log ends succeeded, and the run is failed"),
        ({"fences": [0, 2, 1]}, "an earlier owner wrote"),
        ({"lines": [*LINES[:3], line(6, "response", content="Pa", message_id="m"), *LINES[4:]]}, "its pieces say 'Pa'"),
        ({"messages": [*MESSAGES[:2], *MESSAGES[3:]]}, "a call has no result before the next answer"),
        ({"messages": MESSAGES[:2]}, "a call has no result: ['c1']"),
        ({"messages": [*MESSAGES[:3], MESSAGES[2], MESSAGES[3]]}, "a result belongs to no call"),
        ({"lines": [LINES[0], line(2, "tool_result", call_id="c1", outcome="failed"), *LINES[2:]]}, "other results"),
    ],
)  # fmt: skip
def test_each_breach_is_told(fields, told):
    assert any(told in sentence for sentence in breaches(found(**fields))), breaches(found(**fields))


def test_a_run_that_is_gone_is_a_breach():
    assert breaches(None) == ["the run is gone"]


def test_another_answer_is_a_difference():
    other = found(run={"status": "succeeded", "output": "No."}, messages=[*MESSAGES[:3], {"role": "assistant"}])

    output, conversation = differences(other, found())

    assert "its output is 'No.' instead of 'Paid.'" in output
    assert "the conversation has" in conversation


# --- effects ----------------------------------------------------------------------------------------


def entry(mark: str = "began", key: str = "key_1", says: str | None = "unsafe") -> Entry:
    return Entry(mark=mark, tool="pay", says=says, key=key, call_id="c1", arguments={"value": "5"})


def judged(run: Found, *entries: Entry, trust: bool = False) -> tuple[list[str], dict[str, int]]:
    its = Effects(run, entries, trust_overrides=trust)
    return list(its.breaches()), dict(its.counted())


PAID = 'pay {"value":"5"}'


def test_an_unsafe_call_that_arrived_once_is_fine():
    assert judged(found(), entry(), entry("returned")) == ([], {PAID: 1})


def test_an_unsafe_call_that_arrived_twice_is_told_once():
    wrong, counted = judged(found(), entry(), entry(), entry())

    assert wrong == ["`pay` took effect twice, and nobody chose to run it again"]
    assert counted == {PAID: 3}


def test_a_person_may_choose_to_run_it_again():
    run = found(answers=[("step_key_1", "run_again")])

    assert judged(run, entry(), entry()) == ([], {PAID: 2})


def test_a_tool_is_believed_before_the_agents_file():
    run = found(steps=[step(effect="pure")])

    wrong, counted = judged(run, entry(), entry())

    assert wrong == ["`pay` took effect twice: it says unsafe of itself, and the agent's file says pure"]
    assert counted == {PAID: 2}
    assert judged(run, entry(), entry(), trust=True) == ([], {})


def test_a_function_that_says_nothing_is_what_the_file_says():
    run = found(steps=[step(effect="idempotent")])

    assert judged(run, entry(says=None), entry(says=None)) == ([], {PAID: 1})


def test_a_stricter_file_is_believed():
    wrong, _ = judged(found(), entry(says="pure"), entry(says="pure"))

    assert wrong == ["`pay` took effect twice, and nobody chose to run it again"]


@pytest.mark.parametrize(("effect", "count"), [("keyed", 1), ("idempotent", 1), ("pure", 0)])
def test_what_may_be_repeated_counts_once_a_key(effect, count):
    run = found(steps=[step(effect=effect)])

    wrong, counted = judged(run, entry(says=effect), entry(says=effect))

    assert (wrong, counted.get(PAID, 0)) == ([], count)


def test_a_call_without_a_recorded_step_is_told():
    wrong, _ = judged(found(), entry(key="key_2"))

    assert wrong == ["`pay` was called under a key that no recorded step has"]


def test_a_call_whose_result_was_recorded_is_not_made_again():
    run = found(steps=[step(effect="pure")])
    calls = [entry(says="pure"), entry("returned", says="pure"), entry(says="pure")]
    later = Lived(found=run, recorded=frozenset({"key_1"}), arrived_before=2)

    wrong = list(Effects(run, calls, trust_overrides=False, lived=later).breaches())

    assert wrong == ["`pay` was called again although its result was recorded"]
    assert list(Effects(run, calls[:2], trust_overrides=False, lived=later).breaches()) == []


def test_a_check_that_does_not_know_its_own_call_is_told():
    run = found(steps=[step(effect="checkable")])
    again = (entry(says="checkable"), entry("returned", says="checkable"), entry(says="checkable"))

    wrong, _ = judged(run, *again)

    assert wrong == ["`pay` was called again: its `check` did not know a call that had returned"]
    assert judged(run, again[0], again[2])[0] == []  # the first one never returned: the check was right
