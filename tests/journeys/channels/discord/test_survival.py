"""An answer survives what happens to the bot, to Discord and to Callboard, in the messages that it has begun."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from callboard_client import Callboard
from tests.app_harness import AppHarness
from tests.journeys.channels.conftest import GuardedWeb
from tests.journeys.channels.discord.conftest import ANA, BEN
from tests.journeys.channels.discord.test_answers import SECOND_S, WHOLE, WORDS, shortest_gap, until_some
from tests.model_server import Turn
from tests.observers.channels.bot import Bot
from tests.observers.channels.fake_discord import FakeDiscord

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def slow_model(fleet_harness: AppHarness) -> None:
    fleet_harness.model.respond = lambda body: Turn(text=WORDS, pace=15)


@pytest.mark.parametrize("is_forgotten", [False, True], ids=["resumed", "identified again"])
def test_a_gateway_that_is_lost_in_mid_answer(discord: FakeDiscord, bot: Bot, is_forgotten: bool) -> None:
    discord.say("Hello", user=ANA, place="600")
    until_some(discord, "600")

    discord.drop(is_forgotten=is_forgotten)
    if not is_forgotten:
        discord.say("Hello again", user=ANA, place="601")  # Discord keeps it for the session
    discord.until(lambda: discord.ops[-1] == ("identify" if is_forgotten else "resume"))

    discord.until(lambda: discord.texts("600") == [WHOLE])
    if not is_forgotten:
        discord.until(lambda: discord.texts("601") == [WHOLE])
    bot.until_ready()


def test_heartbeats_keep_the_gateway(
    people: dict[str, tuple[str, str, str]], web: GuardedWeb, tmp_path: object
) -> None:
    with FakeDiscord(heartbeat_ms=300) as discord, Bot(tmp_path, discord, web.address, people):  # type: ignore[arg-type]
        discord.until(lambda: discord.ops.count("heartbeat") >= 4)

        assert discord.ops.count("identify") == 1


def test_a_bot_that_is_killed_again_and_again_continues_the_same_message(
    fleet_harness: AppHarness, discord: FakeDiscord, make_bot: Callable[..., Bot], ana: Callboard
) -> None:
    fleet_harness.model.respond = lambda body: Turn(text=WORDS, pace=3)  # slower than three starts of a bot
    bot, text = make_bot(), "Thinking..."
    for number in range(3):
        with bot:
            if number == 0:
                message = discord.say("Hello", user=ANA, place="602")
            text = until_some(discord, "602", text)
            bot.kill()

    fleet_harness.model.respond = lambda body: Turn(text=WORDS, pace=15)
    with bot:
        discord.until(lambda: discord.texts("602") == [WHOLE])
        discord.say("And another", user=ANA, place="603")
        discord.until(lambda: discord.texts("603") == [WHOLE])

    assert discord.texts() == [WHOLE, WHOLE]
    assert len(ana.runs.list(correlation_id=f"discord-{message}")) == 1


def test_an_answer_that_ends_while_the_bot_is_away_is_shown_afterwards(
    fleet_harness: AppHarness, discord: FakeDiscord, make_bot: Callable[..., Bot], ana: Callboard
) -> None:
    bot = make_bot()
    with bot:
        message = discord.say("Hello", user=ANA, place="604")
        until_some(discord, "604")
    [run] = ana.runs.list(correlation_id=f"discord-{message}")
    ana.handle(run.run_id).result(30)

    with bot:
        discord.until(lambda: discord.texts("604") == [WHOLE])


def test_a_bot_that_is_killed_before_it_knows_what_it_posted_posts_nothing_twice(
    fleet_harness: AppHarness, discord: FakeDiscord, make_bot: Callable[..., Bot]
) -> None:
    fleet_harness.model.respond = lambda body: Turn(text=[f"{'long ' * 90}\n\n" for _ in range(14)])
    bot = make_bot()
    with bot:
        discord.delay_s = 2.0
        discord.say("Hello", user=ANA, place="605")
        discord.until(lambda: discord.texts("605") == ["Thinking..."])
        bot.kill()  # Discord has the message, and the bot no answer
    bot.start()
    discord.until(lambda: len(discord.texts("605")) == 3)
    bot.kill()
    discord.delay_s = 0.0

    with bot:
        whole = "\n\n".join([("long " * 90).strip()] * 14)
        discord.until(lambda: " ".join(" ".join(discord.texts("605")).split()) == " ".join(whole.split()), 40)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_that_restarts_in_mid_answer(
    discord: FakeDiscord, bot: Bot, web: GuardedWeb, number: signal.Signals
) -> None:
    discord.say("Hello", user=ANA, place="606")
    until_some(discord, "606")

    if number is signal.SIGKILL:
        web.kill()
    else:
        web.process.send_signal(number)
        web.process.wait(20)
    web.__enter__()

    discord.until(lambda: discord.texts("606") == [WHOLE])
    assert shortest_gap(discord.sent_to("606")) >= SECOND_S


def test_a_second_bot_on_the_same_state_is_refused(
    discord: FakeDiscord, bot: Bot, make_bot: Callable[..., Bot]
) -> None:
    second = make_bot()

    assert second.start().wait(30) == 1
    assert "another process has" in second.log.read_text()
    assert "[channel_running]" in second.log.read_text()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"principal": "ana"', '"principal": "zoe"', "the key is that of the principal ana, and the table says zoe"),
        ('"decides": "own"', '"desides": "own"', "there is no such field. Did you mean 'decides'?"),
        ("${KEY_2}", "${KEY_9}", f"discord.people.{BEN}.key: KEY_9 is not set, or empty"),
        ("${KEY_1}", "${DISCORD_TOKEN}", "the server refuses the key"),
        ("${DISCORD_TOKEN}", "${KEY_2}", "the token is not that of a bot"),
        ("  api: http://127.0.0.1:", "  api: https://169.254.169.254:", "169.254.169.254"),
    ],
)
def test_a_table_that_cannot_be_used_starts_no_bot(
    discord: FakeDiscord, make_bot: Callable[..., Bot], old: str, new: str, sentence: str
) -> None:
    bot = make_bot()
    bot.file.write_text(bot.file.read_text().replace(old, new, 1))

    assert bot.start().wait(30) != 0

    assert sentence in " ".join(bot.log.read_text().split())
    assert not [key for key in bot.environment.values() if key.startswith("cbk_") and key in bot.log.read_text()]
    assert not discord.by_bot()
