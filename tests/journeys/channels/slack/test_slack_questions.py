"""Questions of runs on Slack: buttons and forms that the right person may press, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from callboard_client import Callboard
from tests.app_harness import AppHarness
from tests.journeys.channels.conftest import ask_before_calculating, ask_for_a_ticket
from tests.journeys.channels.slack.conftest import ANA, BEN, STRANGER, SlackBot
from tests.observers.channels.fake_slack import FakeSlack, shown_in

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def asking_agent(fleet_harness: AppHarness) -> None:
    ask_before_calculating(fleet_harness)


def buttons_of(message: Mapping[str, Any]) -> list[str]:
    rows = [block["elements"] for block in message["blocks"] if block["type"] == "actions"]
    return [button["text"]["text"] for row in rows for button in row]


def question_in(slack: FakeSlack, place: str) -> dict[str, Any]:
    """Return the message with the buttons, once it is there."""
    message: dict[str, Any] = slack.until(lambda: [each for each in slack.by_bot(place) if buttons_of(each)])[0]
    return message


def test_a_question_is_answered_by_the_right_person_once(slack: FakeSlack, bot: SlackBot, ana: Callboard) -> None:
    stamp = slack.say("17 * 23?", user=ANA, place="C1")
    question = question_in(slack, "C1")
    assert buttons_of(question) == ["Approve", "Reject"]
    assert "17 * 23" in shown_in(question)

    slack.press(question, "Approve", STRANGER)
    slack.until(lambda: slack.whispers == [(STRANGER, "You are not among the persons who may answer here.")])
    assert [run.status for run in ana.runs.list(correlation_id=f"slack-C1.{stamp}")] == ["waiting"]
    for _ in range(3):
        slack.press(question, "Approve", ANA)

    slack.until(lambda: any("391" in text for text in slack.texts("C1")))
    slack.until(lambda: not buttons_of(question))
    assert shown_in(question) == "ana answered `calculator`: **approve**"
    assert len(slack.texts("C1")) == 2


def test_another_person_s_run_is_decided_by_an_approver_only(slack: FakeSlack, bot: SlackBot) -> None:
    slack.say("17 * 23?", user=BEN, place="C2")
    slack.press(question_in(slack, "C2"), "Reject", ANA)
    slack.until(lambda: slack.whispers == [(ANA, "This question is for the person who started the run.")])

    slack.say("17 * 23?", user=ANA, place="C3")
    of_ana = question_in(slack, "C3")
    slack.press(of_ana, "Reject", BEN)

    slack.until(lambda: shown_in(of_ana) == "ben answered `calculator`: **reject**")


def test_a_question_survives_a_restart(slack: FakeSlack, make_bot: Callable[..., SlackBot]) -> None:
    bot = make_bot()
    with bot:
        slack.say("17 * 23?", user=ANA, place="C4")
        question = question_in(slack, "C4")
        bot.kill()
    with bot:
        slack.press(question, "Approve", ANA)

        slack.until(lambda: any("391" in text for text in slack.texts("C4")))
        slack.until(lambda: not buttons_of(question))

    assert len(slack.texts("C4")) == 2


def test_a_form_is_filled_in(slack: FakeSlack, bot: SlackBot, fleet_harness: AppHarness) -> None:
    ask_for_a_ticket(fleet_harness)
    slack.say("A ticket", user=ANA, place="C5")
    question = question_in(slack, "C5")

    slack.press(question, "Answer", ANA)
    [view] = slack.until(lambda: slack.views)
    slack.submit(view, {"seats": "two"}, ANA)
    slack.until(lambda: [text for _, text in slack.whispers if "is not a number" in text])
    slack.submit(view, {"seats": "1"}, STRANGER)
    slack.submit(view, {"seats": "2", "class": "1st"}, ANA)

    slack.until(lambda: any(text.startswith("Booked: ") for text in slack.texts("C5")))
    [text] = [text for text in slack.texts("C5") if text.startswith("Booked: ")]
    assert '"seats":2' in text.replace(" ", "")
    slack.until(lambda: not buttons_of(question))
