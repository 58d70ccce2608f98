"""An answer survives what happens to the app, to Slack and to Callboard, in the messages that it has begun."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from callboard_client import Callboard
from tests.app_harness import AppHarness
from tests.journeys.channels.conftest import GuardedWeb
from tests.journeys.channels.slack.conftest import ANA, BEN, SlackBot
from tests.journeys.channels.slack.test_slack_answers import WHOLE, WORDS
from tests.model_server import Turn
from tests.observers.channels.fake_slack import FakeSlack

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def slow_model(fleet_harness: AppHarness) -> None:
    fleet_harness.agent()
    fleet_harness.model.respond = lambda body: Turn(text=WORDS, pace=15)


def until_some(slack: FakeSlack, place: str) -> None:
    slack.until(lambda: [text for text in slack.texts(place) if text.startswith("word0")])


@pytest.mark.parametrize("with_notice", [True, False])
def test_a_connection_that_is_lost_in_mid_answer(slack: FakeSlack, bot: SlackBot, with_notice: bool) -> None:
    slack.say("Hello", user=ANA, place="C1")
    until_some(slack, "C1")
    before = slack.connections

    slack.drop(with_notice=with_notice)
    slack.until(lambda: slack.connections > before, 40)

    slack.say("Hello again", user=ANA, place="C2")
    slack.until(lambda: slack.texts("C1") == [WHOLE] and slack.texts("C2") == [WHOLE])
    bot.until_ready()


@pytest.mark.parametrize("error", [None, "unknown_method"], ids=["stream", "update"])
def test_an_app_that_is_killed_again_and_again_continues_the_same_message(
    slack: FakeSlack, make_bot: Callable[..., SlackBot], ana: Callboard, error: str | None
) -> None:
    slack.streams_with = error
    bot = make_bot()
    for number in range(3):
        with bot:
            if number == 0:
                stamp = slack.say("Hello", user=ANA, place="C3")
            until_some(slack, "C3")
            bot.kill()

    with bot:
        slack.until(lambda: slack.texts("C3") == [WHOLE])
        slack.say("And another", user=BEN, place="C3", thread=stamp)
        slack.until(lambda: slack.texts("C3") == [WHOLE, WHOLE])

    assert len(ana.runs.list(correlation_id=f"slack-C3.{stamp}")) == 1


@pytest.mark.parametrize("error", [None, "unknown_method"], ids=["stream", "update"])
def test_an_app_that_is_killed_before_it_knows_what_it_posted_posts_nothing_twice(
    fleet_harness: AppHarness, slack: FakeSlack, make_bot: Callable[..., SlackBot], error: str | None
) -> None:
    slack.streams_with, bot = error, make_bot()
    with bot:
        slack.delay_s = 2.0
        slack.say("Hello", user=ANA, place="C4")
        slack.until(lambda: slack.by_bot("C4"))
        bot.kill()  # Slack has the message, and the app no answer
    slack.delay_s = 0.0

    with bot:
        slack.until(lambda: slack.texts("C4") == [WHOLE], 40)


def test_a_server_that_is_killed_in_mid_answer(slack: FakeSlack, bot: SlackBot, web: GuardedWeb) -> None:
    slack.say("Hello", user=ANA, place="C5")
    until_some(slack, "C5")

    web.kill()
    web.__enter__()

    slack.until(lambda: slack.texts("C5") == [WHOLE], 60)


def test_a_channel_that_is_gone_ends_its_answer_alone(slack: FakeSlack, bot: SlackBot) -> None:
    slack.say("Hello", user=ANA, place="CGONE")
    slack.say("Hello", user=ANA, place="C6")

    slack.until(lambda: slack.texts("C6") == [WHOLE])
    assert len(slack.sent(place="CGONE", error="channel_not_found")) == 1


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("token: ${SLACK_TOKEN}", "token: ${KEY_2}", "is not that of the app (invalid_auth)"),
        ("${SLACK_APP_TOKEN}", "${KEY_2}", "is not that of the app (invalid_auth)"),
        (
            "  app_token: ${SLACK_APP_TOKEN}",
            "",
            "has to have either `app_token` (Socket Mode) or",
        ),
        ("UBEN", "ben", "the member ID that the profile's menu"),
    ],
)
def test_a_section_that_cannot_be_used_starts_no_app(
    make_bot: Callable[..., SlackBot], old: str, new: str, sentence: str
) -> None:
    bot = make_bot()
    bot.file.write_text(bot.file.read_text().replace(old, new, 1))

    assert bot.start().wait(30) != 0

    assert sentence in " ".join(bot.log.read_text().split())
    assert not [key for key in bot.environment.values() if key.startswith(("cbk_", "x")) and key in bot.log.read_text()]
