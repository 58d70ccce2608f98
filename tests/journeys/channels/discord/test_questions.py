"""Questions of runs on Discord: buttons and forms that the right person may press, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from callboard_client import Callboard
from tests.app_harness import AppHarness
from tests.journeys.channels.conftest import ask_before_calculating, ask_for_a_ticket
from tests.journeys.channels.discord.conftest import ANA, BEN
from tests.observers.channels.bot import Bot
from tests.observers.channels.fake_discord import FakeDiscord

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

STRANGER = "3"


@pytest.fixture(autouse=True)
def asking_agent(fleet_harness: AppHarness) -> None:
    ask_before_calculating(fleet_harness)


def question_in(discord: FakeDiscord, place: str) -> dict[str, Any]:
    """Return the message with the buttons, once it is there."""
    return discord.until(lambda: [message for message in discord.by_bot(place) if message["components"]])[0]


def labels_of(message: dict[str, Any]) -> list[str]:
    return [button["label"] for row in message["components"] for button in row["components"]]


def test_a_question_is_answered_by_the_right_person_once(discord: FakeDiscord, bot: Bot, ana: Callboard) -> None:
    message = discord.say("17 * 23?", user=ANA, place="700")
    question = question_in(discord, "700")
    assert labels_of(question) == ["Approve", "Reject"]
    assert "17 * 23" in question["content"]

    by_stranger = discord.press(question["id"], "Approve", user=STRANGER)
    discord.until(lambda: discord.shown(by_stranger) == ["You are not among the persons who may answer here."])
    assert labels_of(discord.messages[question["id"]])
    assert [run.status for run in ana.runs.list(correlation_id=f"discord-{message}")] == ["waiting"]
    presses = [discord.press(question["id"], "Approve", user=ANA) for _ in range(3)]

    discord.until(lambda: "391" in discord.texts("700")[0])
    discord.until(lambda: not discord.messages[question["id"]]["components"])
    assert discord.messages[question["id"]]["content"] == "ana answered `calculator`: **approve**"
    late = [sentence for press in presses for sentence in discord.shown(press)]
    assert all(
        "on its way" in sentence or "no answer any more" in sentence or "decided" in sentence for sentence in late
    )
    assert len(discord.texts("700")) == 2


def test_another_person_s_run_is_decided_by_an_approver_only(
    discord: FakeDiscord, bot: Bot, fleet_harness: AppHarness
) -> None:
    discord.say("17 * 23?", user=BEN, place="701")
    question = question_in(discord, "701")

    by_ana = discord.press(question["id"], "Reject", user=ANA)
    discord.until(lambda: discord.shown(by_ana) == ["This question is for the person who started the run."])
    discord.say("17 * 23?", user=ANA, place="702")
    of_ana = question_in(discord, "702")
    discord.press(of_ana["id"], "Reject", user=BEN)

    discord.until(lambda: discord.messages[of_ana["id"]]["content"] == "ben answered `calculator`: **reject**")
    assert labels_of(discord.messages[question["id"]])


def test_the_server_decides_too(discord: FakeDiscord, make_bot: Callable[..., Bot]) -> None:
    """A table that lets Ana decide about everything does not make her an approver."""
    bot = make_bot()
    bot.file.write_text(bot.file.read_text().replace('"decides": "own"', '"decides": "all"'))
    with bot:
        discord.say("17 * 23?", user=BEN, place="703")
        question = question_in(discord, "703")

        by_ana = discord.press(question["id"], "Approve", user=ANA)

        assert "run_unknown" in discord.until(lambda: discord.shown(by_ana))[0]
        assert labels_of(discord.messages[question["id"]])


def test_a_guest_talks_and_decides_nothing(discord: FakeDiscord, make_bot: Callable[..., Bot], ana: Callboard) -> None:
    with make_bot("  strangers: guest\n  guest: {principal: ana, key: '${KEY_1}'}"):
        message = discord.say("17 * 23?", user=STRANGER, place="708")
        question = question_in(discord, "708")

        by_guest = discord.press(question["id"], "Approve", user=STRANGER)

        discord.until(lambda: discord.shown(by_guest) == ["You are not among the persons who may answer here."])
        assert [run.principal for run in ana.runs.list(correlation_id=f"discord-{message}")] == ["ana"]
        discord.press(question["id"], "Approve", user=BEN)
        discord.until(lambda: "391" in discord.texts("708")[0])


def test_a_question_survives_a_restart_of_the_bot(discord: FakeDiscord, make_bot: Callable[..., Bot]) -> None:
    bot = make_bot()
    with bot:
        discord.say("17 * 23?", user=ANA, place="704")
        question = question_in(discord, "704")
        bot.kill()
    with bot:
        discord.press(question["id"], "Approve", user=ANA)

        discord.until(lambda: "391" in discord.texts("704")[0])
        discord.until(lambda: not discord.messages[question["id"]]["components"])

    assert len(discord.texts("704")) == 2


def test_an_answer_that_was_given_elsewhere_takes_the_buttons_away(
    discord: FakeDiscord, bot: Bot, ana: Callboard
) -> None:
    message = discord.say("17 * 23?", user=ANA, place="705")
    question = question_in(discord, "705")
    [run] = ana.runs.list(correlation_id=f"discord-{message}")
    handle = ana.handle(run.run_id)
    [approval] = handle.approvals()

    handle.decide(approval.approval_id, "approve")

    discord.until(lambda: not discord.messages[question["id"]]["components"])
    discord.until(lambda: "391" in discord.texts("705")[0])


def test_the_buttons_of_a_stopped_run_go(discord: FakeDiscord, bot: Bot, ana: Callboard) -> None:
    message = discord.say("17 * 23?", user=ANA, place="706")
    question = question_in(discord, "706")
    token = question["components"][0]["components"][0]["custom_id"]
    [run] = ana.runs.list(correlation_id=f"discord-{message}")

    ana.handle(run.run_id).cancel()

    discord.until(lambda: discord.texts("706")[0] == "The run was stopped.")
    discord.until(lambda: not discord.messages[question["id"]]["components"])
    late = discord.interact(3, {"custom_id": token, "component_type": 2}, ANA, question)
    discord.until(lambda: discord.shown(late) == ["This question takes no answer any more."])


def test_a_form_is_filled_in(discord: FakeDiscord, bot: Bot, fleet_harness: AppHarness) -> None:
    ask_for_a_ticket(fleet_harness)
    discord.say("A ticket", user=ANA, place="707")
    question = question_in(discord, "707")
    assert "Which ticket?" in question["content"]

    opened = discord.press(question["id"], "Answer", user=ANA)
    discord.until(lambda: [body for number, body in discord.responses if number == opened and body["type"] == 9])
    wrong = discord.submit(opened, {"seats": "two"}, user=ANA)
    discord.until(lambda: "is not a number" in (discord.shown(wrong) or [""])[0])
    discord.submit(opened, {"seats": "2", "class": "1st"}, user=ANA)

    discord.until(lambda: discord.texts("707")[0].startswith("Booked: "))
    assert '"seats":2' in discord.texts("707")[0].replace(" ", "")
    discord.until(lambda: not discord.messages[question["id"]]["components"])
