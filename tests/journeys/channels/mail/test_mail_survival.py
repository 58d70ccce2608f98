"""An answer survives what happens to the channel, to the servers of mail and to Callboard, and is sent once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from callboard_client import Callboard
from tests.app_harness import AppHarness
from tests.journeys.channels.conftest import GuardedWeb
from tests.journeys.channels.mail.conftest import ANA, BEN, MailBot
from tests.model_server import Turn
from tests.observers.channels.mail_servers import Dovecot, Outbox

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

Write = Callable[..., None]
WORDS = [f"word{number} " for number in range(60)]
WHOLE = "".join(WORDS).strip()


@pytest.fixture(autouse=True)
def slow_model(fleet_harness: AppHarness) -> None:
    fleet_harness.agent()
    fleet_harness.model.respond = lambda body: Turn(text=WORDS, pace=20)


def test_a_channel_that_is_killed_again_and_again_sends_one_mail(
    outbox: Outbox, make_bot: Callable[..., MailBot], write: Write, ana: Callboard
) -> None:
    bot, before = make_bot(), len(ana.runs.list())
    for number in range(3):
        with bot:
            if number == 0:
                write("Hello", "a1")
                outbox.until(lambda: len(ana.runs.list()) > before)
            bot.kill()
    write("While it was away", "a2", BEN)

    with bot:
        outbox.until(lambda: outbox.texts(ANA) == [WHOLE] and outbox.texts(BEN) == [WHOLE])
        write("And another", "a3")
        outbox.until(lambda: outbox.texts(ANA) == [WHOLE, WHOLE])

    assert len(ana.runs.list()) == before + 2


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "ended"])
def test_a_mail_that_was_sent_as_the_channel_ended(
    fleet_harness: AppHarness, outbox: Outbox, make_bot: Callable[..., MailBot], write: Write, is_killed: bool
) -> None:
    """A channel that ends waits for the server's word; of one that is killed, both mails have one Message-Id."""
    fleet_harness.model.respond = lambda body: Turn(text="Done.")
    bot = make_bot()
    with bot:
        outbox.delay_s = 1.0
        write("Hello", "b1")
        outbox.until(lambda: outbox.mails)
        if is_killed:
            bot.kill()
    outbox.delay_s = 0.0

    with bot:
        write("Hello", "b2", BEN)
        outbox.until(lambda: outbox.to(BEN))
        if is_killed:
            outbox.until(lambda: len(outbox.to(ANA)) == 2)

    assert len({mail["Message-ID"] for mail in outbox.to(ANA)}) == 1
    assert len(outbox.to(ANA)) == (2 if is_killed else 1)


def test_a_server_that_is_killed_in_mid_answer(
    outbox: Outbox, bot: MailBot, write: Write, web: GuardedWeb, ana: Callboard
) -> None:
    before = len(ana.runs.list())
    write("Hello", "c1")
    outbox.until(lambda: len(ana.runs.list()) > before)

    web.kill()
    web.__enter__()

    outbox.until(lambda: outbox.texts(ANA) == [WHOLE], 60)


def test_a_mail_server_that_is_away_comes_back(
    dovecot: Dovecot, outbox: Outbox, bot: MailBot, write: Write, ana: Callboard
) -> None:
    before = len(ana.runs.list())
    write("Hello", "d1")
    outbox.until(lambda: outbox.to(ANA))

    dovecot.stop()
    bot.until_logged("the mailbox was not reached")
    assert (bot.status("/health"), bot.status("/ready")) == (200, 503)
    dovecot.start()
    write("Hello", "d2", BEN)
    outbox.until(lambda: outbox.to(BEN))

    dovecot.stop()
    dovecot.renumber()
    dovecot.start()
    write("Hello", "d3", BEN)
    outbox.until(lambda: len(outbox.to(BEN)) == 2)
    assert len(ana.runs.list()) == before + 1
    assert len(outbox.mails) == 3


def test_a_mail_that_is_not_taken_now_is_sent_later_and_one_that_is_refused_is_not(
    outbox: Outbox, bot: MailBot, write: Write
) -> None:
    outbox.answers = ["451 greylisted", "421 busy"]
    write("Hello", "e1")
    outbox.until(lambda: outbox.texts(ANA) == [WHOLE])

    outbox.answers = ["550 no such person"]
    write("Hello", "e2")
    bot.until_logged("code=550")
    write("Hello", "e3")

    outbox.until(lambda: len(outbox.to(ANA)) == 2)
    assert outbox.mails[-1]["In-Reply-To"] == "<e3@example.org>"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("password: ${MAIL_PASSWORD}", "password: ${KEY_1}", "[AUTHENTICATIONFAILED]"),
        ("  poll_s: 0.2", "  folder: Nowhere", "does not open Nowhere"),
        ("smtp: smtp://127.0.0.1", "smtp: smtps://169.254.169.254", "169.254.169.254"),
        ("${KEY_2}", "${KEY_9}", f"email.people.{BEN}.key: KEY_9 is not set, or empty"),
    ],
)
def test_a_section_that_cannot_be_used_starts_no_channel(
    make_bot: Callable[..., MailBot], old: str, new: str, sentence: str
) -> None:
    bot = make_bot()
    bot.file.write_text(bot.file.read_text().replace(old, new, 1))

    assert bot.start().wait(30) != 0

    assert sentence in " ".join(bot.log.read_text().split())
    assert not [key for key in bot.environment.values() if key.startswith("cbk_") and key in bot.log.read_text()]
