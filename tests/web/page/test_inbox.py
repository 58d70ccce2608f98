"""The questions of the inbox as the page groups and words them, and what the palette offers for what is typed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.page.conftest import Module

pytestmark = pytest.mark.parity

GROUPS = """
  const { noteMe } = await import(`${page}/state/me.js`);
  noteMe({ principal: "mara", roles: ["approver"] });
  const { groupsOf } = await import(`${page}/state/inbox.js`);
  const idsOf = (questions) => questions.map((each) => each.approval_id);
  return groupsOf(argument.questions, argument.query).map((group) => [group.title, group.note, idsOf(group.questions)]);
"""
WORDS = """
  const inbox = await import(`${page}/state/inbox.js`);
  return argument.map(([name, ...given]) => inbox[name](...given));
"""
FITTING = """
  const { fitting } = await import(`${page}/state/palette.js`);
  return argument.map((text) => fitting([
    { key: "b", group: "Places", title: "Board" },
    { key: "d", group: "Places", title: "The board today" },
    { key: "k", group: "Places", title: "Keyboard" },
    { key: "s", group: "Talk with", title: "Support", note: "answers customers" },
    { key: "t", group: "Threads", title: "Pay back", isFound: true },
  ], text).map(({ key }) => key).join(""));
"""


def question(id_: str, tool: str = "refund_order", **facts: Any) -> dict[str, Any]:
    """Return a question as the list of open ones has it."""
    common = {"approval_id": id_, "name": tool, "kind": "call", "decisions": ["approve", "reject"], "approvers": 1}
    times = {"asked_at": f"2026-11-24T12:00:{id_[-1:]:0>2}Z", "expires_at": "2026-12-01T12:00:00Z"}
    return common | times | {"agent": "support", "principal": "shop", "digest": "d", "arguments": {}} | facts


def test_calls_of_one_tool_stand_together_and_what_others_answer_last(module: Module) -> None:
    questions = [
        question("q4"),
        question("q1"),
        question("q2", "delete_branch"),
        question("q3", kind="unknown", decisions=["run_again", "take_as_done", "fail"]),
        question("q5", approvers=2, approved_by=["mara"]),
        question("q6", approvers=2, principal="mara"),
        question("q7", approvers=2, approved_by=["ben"]),
        question("q8", "book_table", kind="input", decisions=["answer", "reject"]),
    ]

    groups = module(GROUPS, {"questions": questions, "query": {}})

    assert groups == [
        ["refund_order", "3 calls", ["q1", "q4", "q7"]],
        ["Did these take effect?", "1 call cut off", ["q3"]],
        ["Others", "", ["q2", "q8"]],
        ["Waiting for another person", "", ["q5", "q6"]],
    ]


def test_a_tool_keeps_its_group_for_its_last_call_and_mine_are_those_of_ones_own_runs(module: Module) -> None:
    kept = GROUPS.replace(
        "return groupsOf(argument.questions, argument.query)",
        "const kept = new Set(); groupsOf(argument.questions, {}, kept);"
        "return groupsOf(argument.questions.slice(1), argument.query, kept)",
    )
    questions = [question("q1"), question("q2"), question("q3", "b", principal="mara")]

    for query, groups in (
        ({}, [["refund_order", "1 call", ["q2"]], ["Others", "", ["q3"]]]),
        ({"tab": "mine"}, [["Waiting for you", "", ["q3"]]]),
    ):
        assert module(kept, {"questions": questions, "query": query}) == groups


def test_the_address_names_an_agent_and_an_order_and_nonsense_is_the_oldest_first(module: Module) -> None:
    questions = [question("q1", "a"), question("q2", "b", agent="desk"), question("q3", "c")]

    for order, ids in (("newest", ["q3", "q1"]), ("", ["q1", "q3"]), ("<b>", ["q1", "q3"])):
        groups = module(GROUPS, {"questions": questions, "query": {"agent": "support", "order": order}})
        assert groups == [["Waiting for you", "", ids]]
    assert module(GROUPS, {"questions": [], "query": {}}) == []


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (["sentenceOf", question("q", sentence="Pay back 5 EUR")], "Pay back 5 EUR"),
        (["sentenceOf", question("q", arguments={"order": 7, "to": "Ann\nB"})], "refund_order: order 7, to Ann B"),
        (["sentenceOf", question("q", kind="input", reason="How many?\n\nSeats.")], "How many?"),
        (["sentenceOf", question("q", "approval_gate", arguments={"message": "Pay them?"})], "Pay them?"),
        (["headingOf", question("q", sentence="Pay back 5 EUR")], "Pay back 5 EUR?"),
        (["headingOf", question("q")], "May this call be made?"),
        (["headingOf", question("q", decisions=["run_again"], sentence="Pay")], "Did this take effect: Pay?"),
        (["headingOf", question("q", decisions=["run_again"])], "Did this call take effect?"),
        (["headingOf", question("q", kind="input", decisions=["answer"], reason="How many?")], "How many?"),
        (["inOrder", ["approve", "reject", "edit", "pass"]], ["pass", "reject", "edit", "approve"]),
        (["inOrder", ["run_again", "take_as_done", "fail"]], ["fail", "take_as_done", "run_again"]),
        (["keyed", "approve", ["run_again", "take_as_done", "fail"]], "take_as_done"),
        (["keyed", "reject", ["run_again", "take_as_done", "fail"]], "fail"),
        (["keyed", "reject", ["approve", "reject"]], "reject"),
        (
            ["labelWords", ["outward", "finance"]],
            "Its arguments leave for another system (outward). A label of the call or its run (finance).",
        ),
        (["lasting", 40_500], "40 s"),
        (["lasting", 3_599_000], "59 min"),
        (["lasting", 47 * 3_600_000 + 120_000], "47 h 02 min"),
        (["lasting", 6 * 86_400_000 + 23 * 3_600_000], "6 d 23 h"),
        (["lasting", -5], "0 s"),
        (["expiryOf", {"expires_at": "1970-01-01T00:52:00Z"}, 0], {"words": "52 min left", "isSoon": True}),
        (["expiryOf", {"expires_at": "1970-01-01T05:00:00Z"}, 0], {"words": "5 h 00 min left", "isSoon": False}),
        (["expiryOf", {"expires_at": "1970-01-01T00:00:00Z"}, 1], {"words": "expired", "isSoon": True}),
        (["expiryOf", {"expires_at": "soon"}, 1], {"words": "", "isSoon": False}),
        (["approveWords", []], "Approve"),
        (["approveWords", [49.9]], "Approve with 49.9"),
        (["approveWords", ["x" * 40]], "Approve with 1 change"),
        (["approveWords", [1, 2]], "Approve with 2 changes"),
        (["isJoinable", question("q")], True),
        (["isJoinable", question("q", approvers=2)], False),
        (["isJoinable", question("q", "approval_gate")], False),
        (["isEditable", question("q", input_schema={"properties": {"a": {}}})], True),
        (["isEditable", question("q", input_schema={"properties": {"a": {}}}, approvers=2)], False),
        (["isEditable", question("q")], False),
        (
            ["decidedWords", {"approved": 3, "changed": 0, "rejected": 2, "expired": 1}],
            "3 approved, 2 rejected, 1 expired",
        ),
    ],
)
def test_its_words(module: Module, call: list[Any], answer: Any) -> None:
    assert module(WORDS, [call]) == [answer]


def test_the_rows_of_a_call_are_its_arguments_its_defaults_and_what_it_leaves_out(module: Module) -> None:
    schema = {"properties": {"order": {"type": "integer"}, "speed": {"enum": ["slow"], "default": "slow"}, "note": {}}}
    call = question("q", arguments={"order": 7, "odd": None}, defaults={"speed": "fast"}, input_schema=schema)

    (rows,) = module(WORDS, [["rowsOf", call]])

    assert [(row["name"], row.get("value"), row.get("isDefault"), row.get("isNone")) for row in rows] == [
        ("order", 7, None, None),
        ("odd", None, None, None),
        ("speed", "fast", True, None),
        ("note", None, None, True),
    ]
    assert "field" not in rows[1]


def test_the_palette_offers_what_has_each_word_the_best_first(module: Module) -> None:
    assert module(FITTING, ["", "board", "BOARD today", "customers", "zzz", "  "]) == [
        "bdkst",
        "bdkt",
        "dt",
        "st",
        "t",
        "bdkst",
    ]


def test_an_id_of_a_run_is_known(module: Module) -> None:
    script = "const { runIdOf } = await import(`${page}/state/palette.js`); return argument.map(runIdOf);"
    id_ = "run_01m7wyc882adz9tga1jxhzbj7w"

    assert module(script, [f" {id_} ", "run_", "run_<b>", id_.upper()]) == [id_, "", "", ""]
