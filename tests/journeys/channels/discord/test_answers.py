"""Persons on Discord talk with an agent: the real discord.py, a real Callboard, and a Discord of the test's own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest

from callboard_client import Callboard
from tests.app_harness import AppHarness
from tests.journeys.channels.conftest import GuardedWeb
from tests.journeys.channels.discord.conftest import ANA
from tests.model_server import Call, Turn
from tests.observers.channels.bot import Bot
from tests.observers.channels.fake_discord import BOT, FakeDiscord, Request
from tests.ports import free_port

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

WORDS = [f"word{number} " for number in range(80)]
WHOLE = "".join(WORDS).strip()
SECOND_S = 0.95
"""A second, as a busy machine's clock shows it between two requests."""
STRANGER = "3"


def slowly(body: object) -> Turn:
    return Turn(text=WORDS, pace=20)


def until_last(discord: FakeDiscord, place: str, text: str) -> None:
    discord.until(lambda: discord.texts(place)[-1:] == [text])


def until_some(discord: FakeDiscord, place: str, more_than: str = "Thinking...") -> str:
    """Return what the one message of a place shows once a part of the answer is there, longer than before."""
    texts: list[str] = discord.until(lambda: [text for text in discord.texts(place) if len(text) > len(more_than)])
    return texts[0]


def shortest_gap(requests: list[Request]) -> float:
    times = sorted(request.at for request in requests)
    return min((later - earlier for earlier, later in pairwise(times)), default=9.0)


def test_an_answer_is_edited_once_a_second_and_complete_at_its_end(
    fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot
) -> None:
    fleet_harness.model.respond = slowly

    discord.say("Hello", user=ANA)

    discord.until(lambda: discord.texts() == ["Thinking..."])
    discord.until(lambda: discord.texts() == [WHOLE])
    edits = discord.sent_to("500")
    assert 3 <= len(edits) <= 7
    assert shortest_gap(edits) >= SECOND_S
    assert (bot.status("/health"), bot.status("/ready")) == (200, 200)


def test_a_message_that_the_gateway_delivers_three_times_has_one_run(
    fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot, ana: Callboard
) -> None:
    fleet_harness.model.respond = lambda body: Turn(text="Once.")

    message = discord.say("Hello", user=ANA, place="501", times=3)

    discord.until(lambda: discord.texts() == ["Once."])
    runs = ana.runs.list(correlation_id=f"discord-{message}")
    assert [run.principal for run in runs] == ["ana"]


def test_a_place_is_one_thread(fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot, ana: Callboard) -> None:
    fleet_harness.model.respond = lambda body: Turn(text=f"I have {len(body['messages'])} messages.")

    for text, place, count in (("One", "502", 2), ("Two", "502", 4), ("Three", "503", 2)):
        discord.say(text, user=ANA, place=place)
        until_last(discord, place, f"I have {count} messages.")

    threads = {run.thread_id for run in ana.runs.list() if run.thread_id.endswith(("-502", "-503"))}
    assert threads == {f"discord-{BOT['id']}-502", f"discord-{BOT['id']}-503"}


def test_a_message_is_an_internal_event_with_the_run_s_correlation_id(
    fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot, web: GuardedWeb, people: dict[str, tuple[str, str, str]]
) -> None:
    fleet_harness.model.respond = lambda body: Turn(text="Logged.")

    message = discord.say("Remember me", user=ANA, place="504")

    discord.until(lambda: discord.texts() == ["Logged."])
    key = {"Authorization": f"Bearer {people[ANA][1]}"}
    results = web.ask("/query", {"query": f"discord-{message}"}, **key)[2]["results"]
    assert {result["kind"] for result in results} == {"event", "run"}
    [event] = [result for result in results if result["kind"] == "event"]
    assert (event["event_type"], event["source"], event["principal"]) == ("message.created", "discord", "ana")
    assert event["payload"]["content"] == "Remember me"


def test_the_next_edit_after_a_429_has_the_newest_text(
    fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot
) -> None:
    fleet_harness.model.respond = slowly
    discord.limit("500", 2.5, 1.2)

    discord.say("Hello", user=ANA)

    discord.until(lambda: discord.texts() == [WHOLE])
    first, second = discord.sent_to("500", status=429)
    edits = discord.sent_to("500")
    assert second.at - first.at >= 2.4
    assert edits[0].at - second.at >= 1.1
    assert len(second.body["content"]) > len(first.body["content"]) + 100
    assert len(edits[0].body["content"]) > len(second.body["content"])
    assert shortest_gap([first, second, *edits]) >= SECOND_S


def test_a_limit_for_the_whole_bot_is_waited_for(fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot) -> None:
    fleet_harness.model.respond = slowly
    discord.limit("541", 2.0, is_global=True)

    for place in ("541", "542"):
        discord.say("Hello", user=ANA, place=place)

    discord.until(lambda: discord.texts() == [WHOLE, WHOLE])
    [refused] = discord.sent_to("541", status=429)
    rest = [request.at for request in discord.requests if request.at > refused.at + 0.2]
    assert min(rest) >= refused.at + 1.9, "the bot sends nothing meanwhile"


def test_twenty_channels_at_once_keep_their_pace(fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot) -> None:
    fleet_harness.model.respond = slowly
    places = [str(number) for number in range(520, 540)]

    for place in places:
        discord.say("Hello", user=ANA, place=place)

    discord.until(lambda: all(discord.texts(place) == [WHOLE] for place in places), 60)
    assert all(shortest_gap(discord.sent_to(place)) >= SECOND_S for place in places)
    assert not [request for request in discord.requests if request.status != 200]


def test_several_answers_in_one_channel_share_its_edits(
    fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot
) -> None:
    fleet_harness.model.respond = slowly
    fleet_harness.agent("if_busy: enqueue")

    for number in range(3):
        discord.say(f"Hello {number}", user=ANA, place="505")

    discord.until(lambda: discord.texts("505") == [WHOLE] * 3, 60)
    assert shortest_gap(discord.sent_to("505")) >= SECOND_S
    assert not [request for request in discord.requests if request.status != 200]


def test_thirty_thousand_characters_are_several_messages_in_order(
    fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot
) -> None:
    paragraphs = [f"Paragraph {number}: {'and so on ' * 39}." for number in range(75)]
    text = "\n\n".join(paragraphs)
    assert len(text) > 30_000
    fleet_harness.model.respond = lambda body: Turn(text=[f"{paragraph}\n\n" for paragraph in paragraphs])

    discord.say("A long one", user=ANA, place="506")

    discord.until(lambda: "\n\n".join(discord.texts("506")) == text, 60)
    assert all(len(part) <= 2000 for part in discord.texts("506"))
    assert not [request for request in discord.requests if request.status != 200]


def test_what_leaves_mentions_no_one_hides_nothing_and_has_no_secret(
    fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot, people: dict[str, tuple[str, str, str]]
) -> None:
    tricks = f"@everyone <@2> [your bank](https://evil.example) \u202egnp.exe\u200b\U000e0041 {people[ANA][1]}"
    fleet_harness.model.respond = lambda body: Turn(text=[tricks])

    discord.say("Hello", user=ANA, place="507")

    discord.until(
        lambda: discord.texts("507") == ["@everyone <@2> [your bank] (https://evil.example) gnp.exe [redacted]"]
    )
    posted = [*discord.sent_to("507"), *discord.sent_to("507", "POST")]
    assert all(request.body["allowed_mentions"]["parse"] == [] for request in posted)
    assert all(request.body["flags"] & 4 for request in discord.sent_to("507", "POST")), "Discord fetches no address"
    assert people[ANA][1] not in bot.log.read_text()


def test_only_persons_of_the_table_are_answered_and_no_bot_is(
    fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot
) -> None:
    fleet_harness.model.respond = lambda body: Turn(text="Hello, Ana.")

    discord.say("I am no one", user=STRANGER, place="508")
    discord.say("I am no one again", user=STRANGER, place="508")
    discord.say("Hello from the bot", place="508", author=BOT)
    discord.say("Hello from a webhook", place="508", user=ANA, webhook_id="77")
    discord.say("not to you", user=ANA, place="1508")
    discord.say(f"<@{BOT['id']}> hello", user=ANA, place="1508")

    discord.until(lambda: discord.texts("1508") == ["Hello, Ana."])
    own = "Hello from the bot"
    assert [text for text in discord.texts("508") if text != own] == [
        "I do not know you, so I cannot answer. Ask my operator."
    ]
    last = fleet_harness.model.requests[-1].body["messages"][-1]
    assert last["content"] == "hello", "without the mention"


def test_empty_long_and_attached_messages(fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot) -> None:
    fleet_harness.model.respond = lambda body: Turn(text="Read.")
    file = {
        "id": "1",
        "size": 9,
        "filename": "plan.pdf",
        "url": "http://127.0.0.1:1/x",
        "proxy_url": "http://127.0.0.1:1/x",
    }

    discord.say("", user=ANA, place="509")
    discord.until(lambda: discord.texts("509") == ["Your message has no text that I can read."])
    discord.say("x" * 4000, user=ANA, place="510")
    discord.until(lambda: discord.texts("510") == ["Read."])
    assert fleet_harness.model.requests[-1].body["messages"][-1]["content"] == "x" * 4000
    discord.say("", user=ANA, place="511", attachments=[file])
    discord.until(lambda: discord.texts("511") == ["Read."])
    assert fleet_harness.model.requests[-1].body["messages"][-1]["content"] == "(Attached, and not available: plan.pdf)"


def test_a_deleted_channel_or_message_ends_its_answer_alone(
    fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot
) -> None:
    fleet_harness.model.respond = slowly
    for place in ("512", "513"):
        discord.say("Hello", user=ANA, place=place)
        until_some(discord, place)

    discord.delete_channel("512")
    discord.delete(discord.by_bot("513")[0]["id"])
    discord.until(lambda: discord.sent_to("512", status=404) and discord.sent_to("513", status=404))
    discord.say("Hello", user=ANA, place="514")

    discord.until(lambda: discord.texts("514") == [WHOLE])
    assert discord.texts("513") == []
    assert [len(discord.sent_to(place, status=404)) for place in ("512", "513")] == [1, 1]


# --- the four rows of the first orchestrator design about failures


def test_a_server_that_fails_is_a_sentence_in_the_channel(discord: FakeDiscord, make_bot: Callable[..., Bot]) -> None:
    with make_bot(server=f"http://127.0.0.1:{free_port()}"):
        discord.say("Hello", user=ANA, place="515")
        discord.until(lambda: discord.texts("515") == ["Thinking..."])
        discord.until(lambda: "Callboard does not answer. Write again" in discord.texts("515")[0], 60)


def test_a_run_that_fails_is_a_sentence_with_its_code(
    fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot
) -> None:
    fleet_harness.model.respond = lambda body: Turn(status=401, error={"message": "no such key"})

    discord.say("Hello", user=ANA, place="516")

    discord.until(lambda: "The run failed: " in (discord.texts("516") or [""])[0])
    assert "(`model_" in discord.texts("516")[0]


def test_a_tool_that_fails_is_an_error_for_the_model(fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot) -> None:
    fleet_harness.agent("tools: [calculator]", "tester")

    def turn(body: Mapping[str, Any]) -> Turn:
        if body["messages"][-1]["role"] == "tool":
            return Turn(text="The tool said no.")
        return Turn(calls=[Call(name="calculator", arguments={"expression": "1/0"})])

    fleet_harness.model.respond = turn

    discord.say("Divide", user=ANA, place="517")

    discord.until(lambda: discord.texts("517") == ["The tool said no."])
    assert "rror" in fleet_harness.model.requests[-1].body["messages"][-1]["content"]


def test_an_event_log_that_fails_is_a_warning_and_the_run_is_made(
    fleet_harness: AppHarness, discord: FakeDiscord, bot: Bot
) -> None:
    fleet_harness.model.respond = lambda body: Turn(text="All the same.")
    file = fleet_harness.settings.state / "callboard.db"
    with sqlite3.connect(file, timeout=10) as database:
        database.execute("ALTER TABLE internal_events RENAME TO away")
    try:
        discord.say("Hello", user=ANA, place="518")
        discord.until(lambda: discord.texts("518") == ["All the same."])
        bot.until_logged("a message was not logged")
    finally:
        with sqlite3.connect(file, timeout=10) as database:
            database.execute("ALTER TABLE away RENAME TO internal_events")
