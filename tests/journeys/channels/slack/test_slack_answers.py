"""Persons on Slack talk with an agent: the real Bolt, a real Callboard, and a Slack of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import pytest

from callboard_client import Callboard
from tests.app_harness import AppHarness
from tests.journeys.channels.conftest import Tables
from tests.journeys.channels.slack.conftest import ANA, BEN, STRANGER, SlackBot
from tests.model_server import Turn
from tests.observers.channels.fake_slack import BOT, FakeSlack, Request

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

WORDS = [f"word{number} " for number in range(80)]
WHOLE = "".join(WORDS).strip()
SECOND_S = 0.95
"""A second, as a busy machine's clock shows it between two requests."""


@pytest.fixture(autouse=True)
def slow_model(fleet_harness: AppHarness) -> None:
    fleet_harness.agent()
    fleet_harness.model.respond = lambda body: Turn(text=WORDS, pace=20)


def shortest_gap(requests: list[Request]) -> float:
    times = sorted(request.at for request in requests)
    return min((later - earlier for earlier, later in pairwise(times)), default=9.0)


def test_an_answer_is_one_stream_in_the_thread(slack: FakeSlack, bot: SlackBot) -> None:
    stamp = slack.say("Hello", user=ANA)

    slack.until(lambda: slack.texts() == [WHOLE] and not slack.by_bot()[0]["streaming"])

    [message] = slack.by_bot()
    assert message["thread_ts"] == stamp
    appends = slack.sent("chat.appendStream")
    assert 3 <= len(appends) <= 7
    assert shortest_gap(appends) >= SECOND_S
    assert [each.method for each in slack.requests if "Stream" in each.method][-1] == "chat.stopStream"
    assert slack.sent("chat.update") == []
    assert (bot.status("/health"), bot.status("/ready")) == (200, 200)


def test_without_streams_a_message_is_updated_once_a_second(slack: FakeSlack, bot: SlackBot) -> None:
    slack.streams_with = "unknown_method"

    slack.say("Hello", user=ANA, place="C1")

    slack.until(lambda: slack.texts() == [WHOLE])
    assert len(slack.sent("chat.postMessage")) == 1
    assert shortest_gap(slack.sent("chat.update")) >= SECOND_S
    assert slack.requests[-1].error is None


def test_a_message_that_slack_delivers_again_has_one_run(
    fleet_harness: AppHarness, slack: FakeSlack, bot: SlackBot, ana: Callboard
) -> None:
    fleet_harness.model.respond = lambda body: Turn(text=f"I have {len(body['messages'])} messages.")

    stamp = slack.say("Hello", user=ANA, place="C2", times=3)
    slack.until(lambda: slack.texts("C2") == ["I have 2 messages."])
    slack.say("And again", user=ANA, place="C2", thread=stamp)
    slack.until(lambda: slack.texts("C2")[1:] == ["I have 4 messages."])
    slack.say("Elsewhere", user=ANA, place="C2")
    slack.until(lambda: slack.texts("C2")[2:] == ["I have 2 messages."])

    [run] = ana.runs.list(correlation_id=f"slack-C2.{stamp}")
    assert (run.principal, run.thread_id) == ("ana", f"slack-{BOT}-C2:{stamp}")


def test_a_429_is_waited_for_and_the_newest_text_follows(slack: FakeSlack, bot: SlackBot) -> None:
    slack.say("Hello", user=ANA)
    slack.until(lambda: slack.sent("chat.appendStream"))
    slack.limited = [2.0]

    slack.until(lambda: slack.texts() == [WHOLE])

    [refused] = slack.sent("chat.appendStream", error="ratelimited")
    later = [each for each in slack.sent("chat.appendStream") if each.at > refused.at]
    assert later[0].at - refused.at >= 1.9
    assert later[0].body["markdown_text"].startswith(refused.body["markdown_text"])


def test_twenty_conversations_at_once(slack: FakeSlack, bot: SlackBot) -> None:
    places = [f"C{number}" for number in range(100, 120)]

    for place in places:
        slack.say("Hello", user=ANA, place=place)

    slack.until(lambda: all(slack.texts(place) == [WHOLE] for place in places), 60)
    assert all(shortest_gap(slack.sent("chat.appendStream", place=place)) >= SECOND_S for place in places)


def test_thirty_thousand_characters_are_several_messages(
    fleet_harness: AppHarness, slack: FakeSlack, bot: SlackBot
) -> None:
    paragraphs = [f"Paragraph {number}: {'and so on ' * 39}." for number in range(75)]
    fleet_harness.model.respond = lambda body: Turn(text=[f"{paragraph}\n\n" for paragraph in paragraphs])

    slack.say("A long one", user=ANA)

    slack.until(lambda: "\n\n".join(slack.texts()) == "\n\n".join(paragraphs), 60)
    slack.until(lambda: not any(message["streaming"] for message in slack.by_bot()))
    assert len(slack.texts()) >= 7


@pytest.mark.parametrize("error", [None, "unknown_method"], ids=["stream", "update"])
def test_what_leaves_mentions_no_one_and_has_no_secret(
    fleet_harness: AppHarness, slack: FakeSlack, bot: SlackBot, people: Tables, error: str | None
) -> None:
    slack.streams_with = error
    tricks = f"<!channel> <@UBEN> <#C1> <https://evil.example|bank> a < b \u202egnp {people[ANA][1]}"
    fleet_harness.model.respond = lambda body: Turn(text=[tricks])

    slack.say("Hello", user=ANA, place="C3")

    expected = "&lt;!channel> &lt;@UBEN> &lt;#C1> &lt;https://evil.example|bank> a < b gnp [redacted]"
    slack.until(lambda: slack.texts("C3") == [expected])
    assert not [each for each in slack.requests if people[ANA][1] in json.dumps(each.body)]
    assert people[ANA][1] not in bot.log.read_text()


def test_only_persons_of_the_table_are_answered_and_no_bot_is(
    fleet_harness: AppHarness, slack: FakeSlack, bot: SlackBot
) -> None:
    fleet_harness.model.respond = lambda body: Turn(text="Hello.")
    for more in ({"bot_id": "B2"}, {"subtype": "message_changed"}, {"user": BOT}, {"channel_type": "channel"}):
        event = {
            "type": "message",
            "user": ANA,
            "text": "x",
            "ts": "1.1",
            "channel": "D4",
            "channel_type": "im",
            **more,
        }
        slack.deliver("events_api", slack.event(event))

    slack.say("I am no one", user=STRANGER, place="C4")
    slack.say("Nor now", user=STRANGER, place="C4")
    slack.say(f"<@{BOT}> &lt;hello&gt;", user=BEN, place="C5")

    slack.until(lambda: slack.texts("C5") == ["Hello."])
    slack.until(lambda: slack.texts("C4") == ["I do not know you, so I cannot answer. Ask my operator."])
    assert slack.by_bot("D4") == []
    assert fleet_harness.model.requests[-1].body["messages"][-1]["content"] == "<hello>"


def test_events_by_http_are_verified(
    fleet_harness: AppHarness, slack: FakeSlack, make_bot: Callable[..., SlackBot]
) -> None:
    fleet_harness.model.respond = lambda body: Turn(text="By HTTP.")
    with make_bot("  signing_secret: ${SLACK_SECRET}") as bot:
        slack.events_at = f"http://127.0.0.1:{bot.port}/slack/events"
        event = {"type": "app_mention", "user": ANA, "text": "x", "ts": "1.1", "channel": "C6", "team": "T0001"}
        body = json.dumps(slack.event(event)).encode()
        assert slack.post(body, secret="another") == 401
        assert slack.post(body, age_s=3600) == 401

        slack.say("Hello", user=ANA, place="C7", times=3)

        slack.until(lambda: slack.texts("C7") == ["By HTTP."])
        assert slack.texts("C6") == []
