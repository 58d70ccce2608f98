"""The goals that ship: the demo model uses their tools from plain sentences, and what they change is changed once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.catalogue import find_tool, tools_of
from agents.checkup import deep_check
from agents.models import auto
from agents.models.demo.goals import GOAL_RULES
from agents.models.demo.reader import answer
from agents.registry import AgentRegistry
from agents.testing import AgentKit
from agents.tools.call_context import enter_call
from bus.journal.approvals import Decision
from bus.payloads import ApprovalPayload
from config.settings import ROOT, Settings, read_settings
from tests.agents.models.demo.talk import Talk

GOALS = AgentRegistry([ROOT / "config" / "goals"])
APPROVED = Decision(decision="approve")
FOUR = ("e-commerce", "finance", "hr", "travel")


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    with AgentKit(agents_dir=ROOT / "config" / "goals") as kit:
        kit.model.respond = answer
        yield kit


def called(name: str, folder: Path, key: str, **arguments: Any) -> Any:
    """Return the result of one call of a tool, with this idempotency key and this folder as its sandbox."""
    tool = find_tool(name, read_settings())
    enter_call(replace(Talk(folder, []).context, idempotency_key=key))
    return tool.function(**arguments)


@pytest.mark.parametrize("goal", [*FOUR, "multi"])
def test_each_goal_can_run_off_the_lists(goal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "OLLAMA_URL", "")
    agent = GOALS.get(goal)

    assert not [problem for problem in deep_check(agent, read_settings(), {}) if problem.severity == "error"]
    assert not agent.listed
    assert all([agent.starters, agent.category_tag, agent.example_conversation_history])


def test_what_changes_something_asks_and_nothing_else_does() -> None:
    tools = {name: tool for goal in FOUR for name, tool in tools_of(GOALS.get(goal), read_settings()).items()}

    asking = {name for name, tool in tools.items() if tool.confirm}
    assert asking == {"move_money", "submit_loan_application", "book_pto"}
    assert {name for name, tool in tools.items() if tool.effect == "unsafe"} == asking
    assert len(tools) == 12


@pytest.mark.parametrize("name", [name for name in GOAL_RULES if name not in ("ListAgents", "ChangeGoal")])
def test_each_tool_is_called_from_a_plain_sentence_with_all_it_needs(name: str, tmp_path: Path) -> None:
    talk = Talk(tmp_path, [name])

    text = talk.say(GOAL_RULES[name][0])

    assert [tool for tool, _ in talk.calls] == [name]
    assert "Error" not in text


def test_money_is_moved_once_and_balances_show_it(tmp_path: Path) -> None:
    move = {"from_account": "checking", "to_account": "Savings account", "amount_eur": 100.5}

    first = called("move_money", tmp_path, "key_1", **move)

    assert called("move_money", tmp_path, "key_1", **move) == first
    assert called("get_account_balances", tmp_path, "key_2")["rows"][:2] == [
        ["checking", 2350.25],
        ["savings", 12900.5],
    ]


def test_days_are_booked_once_and_never_twice(tmp_path: Path) -> None:
    days = {"start_date": "2026-07-03", "end_date": "2026-07-06"}

    called("book_pto", tmp_path, "key_1", **days)

    assert called("book_pto", tmp_path, "key_1", **days)["days"] == 2
    assert called("current_pto", tmp_path, "key_2") == {"days_left": 23, "booked": ["2026-07-03 to 2026-07-06"]}
    with pytest.raises(Exception, match="is booked already; choose other days"):
        called("book_pto", tmp_path, "key_3", start_date="2026-07-06", end_date="2026-07-07")


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("move_money", {"from_account": "chekcing", "to_account": "joint", "amount_eur": 1}, "Did you mean 'checking'"),
        ("move_money", {"from_account": "joint", "to_account": "joint", "amount_eur": 1}, "name two accounts"),
        ("move_money", {"from_account": "joint", "to_account": "savings", "amount_eur": 700}, "is not enough"),
        ("move_money", {"from_account": "joint", "to_account": "savings", "amount_eur": 0.001}, "whole cents"),
        ("search_flights", {"origin": "Rome", "destination": "Oslo", "date": "2026-01-01"}, "Berlin to Lisbon"),
        ("search_trains", {"origin": "Rome", "destination": "Oslo", "date": "2026-02-31"}, "is no day"),
        ("find_events", {"city": "Rome", "month": 1}, "Lisbon in month 6"),
        ("book_pto", {"start_date": "2026-07-05", "end_date": "2026-07-03"}, "write the first day first"),
        ("book_pto", {"start_date": "2026-01-01", "end_date": "2026-06-03"}, "25 are left"),
        ("get_order", {"order_id": "1"}, "1042, 1043, 1044"),
        ("track_package", {"tracking_id": "1"}, "CBX-7781"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(
    name: str, arguments: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=problem):
        called(name, tmp_path, "key_1", **arguments)


def test_a_missing_amount_is_asked_for_and_the_whole_call_made(kit: AgentKit) -> None:
    handle = kit.run("Move money from checking to savings", "finance")

    kinds = []
    for event in handle.events():
        if isinstance(event, ApprovalPayload) and event.decision is None:
            (question,) = handle.approvals()
            kinds.append(question["kind"])
            by_kind = {"arguments": Decision(decision="answer", result={"amount_eur": 5}), "call": APPROVED}
            handle.decide(question["approval_id"], by_kind[question["kind"]])

    assert kinds[0] == "arguments"
    (result,) = kit.played(handle).results("move_money")
    assert result == {"from_account": "checking", "to_account": "savings", "amount_eur": 5.0}


def test_the_choice_hands_over_with_what_the_user_wants(kit: AgentKit) -> None:
    played = kit.play("Switch to finance: what are my account balances?", "multi")

    assert played.results("get_account_balances")
    assert "12,800" in played.output


def test_the_environment_of_the_first_design_chooses_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_GOAL", "multi")

    assert read_settings().default_agent == "multi"
    assert ROOT / "config" / "goals" in Settings.model_construct().agent_folders
