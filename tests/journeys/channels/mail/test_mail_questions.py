"""Questions of runs by mail: a link for one person and one use; the answer to a mail decides nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from email.message import EmailMessage

import pytest

from callboard_client import Callboard
from tests.app_harness import AppHarness
from tests.journeys.channels.conftest import GuardedWeb, Tables, ask_before_calculating
from tests.journeys.channels.mail.conftest import ANA, BEN, MailBot
from tests.observers.channels.mail_servers import Outbox, text_of

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

Write = Callable[..., None]


@pytest.fixture(autouse=True)
def asking_agent(fleet_harness: AppHarness) -> None:
    ask_before_calculating(fleet_harness)


def token_in(mail: EmailMessage) -> str:
    match = re.search(r"/#/approval/(\S+)", text_of(mail))
    assert match, text_of(mail)
    return match[1]


def test_a_link_is_for_one_person_and_one_use(
    outbox: Outbox, bot: MailBot, write: Write, web: GuardedWeb, people: Tables, ana: Callboard
) -> None:
    key_of = {user: {"Authorization": f"Bearer {key}"} for user, (_, key, _) in people.items()}
    write("17 * 23?", "a1")

    outbox.until(lambda: outbox.to(ANA) and outbox.to(BEN))
    [of_ana], [of_ben] = outbox.to(ANA), outbox.to(BEN)
    assert "17 * 23" in text_of(of_ana)
    assert of_ana["In-Reply-To"] == "<a1@example.org>"
    assert token_in(of_ana) != token_in(of_ben)
    path = f"/v1/approval-links/{token_in(of_ana)}"
    assert web.ask(path, {"decision": "approve"}, **key_of[BEN])[0] == 403
    assert web.ask(path, {"decision": "approve"})[0] == 401

    write("approve", "a2", more=[f"In-Reply-To: {of_ana['Message-ID']}"])
    runs = outbox.until(lambda: [run for run in ana.runs.list() if run.status == "waiting"])
    assert len(runs) == 1
    assert web.ask(path, {"decision": "approve"}, **key_of[ANA])[0] == 200

    outbox.until(lambda: any("391" in text for text in outbox.texts(ANA)))
    assert web.ask(path, {"decision": "approve"}, **key_of[ANA])[0] == 409
    assert token_in(of_ana) not in bot.log.read_text()


def test_a_person_who_may_not_answer_gets_no_link(outbox: Outbox, bot: MailBot, write: Write) -> None:
    write("17 * 23?", "b1", BEN)

    outbox.until(lambda: outbox.to(BEN))
    assert "Answer it here, once" in outbox.texts(BEN)[0]
    assert outbox.to(ANA) == [], "she decides about her own runs alone"


def test_a_guest_gets_no_link(outbox: Outbox, make_bot: Callable[..., MailBot], write: Write) -> None:
    with make_bot("  strangers: guest\n  guest: {principal: ana, key: '${KEY_1}'}"):
        write("17 * 23?", "c1", "cem@example.org")

        [mail] = outbox.until(lambda: outbox.to(BEN))
        assert "Answer it here, once" in text_of(mail)
        assert outbox.to("cem@example.org") == []


def test_a_question_is_sent_once_and_survives_a_restart(
    outbox: Outbox, make_bot: Callable[..., MailBot], write: Write, web: GuardedWeb, people: Tables
) -> None:
    bot = make_bot()
    with bot:
        write("17 * 23?", "d1")
        outbox.until(lambda: outbox.to(ANA) and outbox.to(BEN))
        bot.kill()

    with bot:
        key = {"Authorization": f"Bearer {people[BEN][1]}"}
        body = {"decision": "approve"}
        assert web.ask(f"/v1/approval-links/{token_in(outbox.to(BEN)[0])}", body, **key)[0] == 200
        outbox.until(lambda: any("391" in text for text in outbox.texts(ANA)))

    counts = [len({mail["Message-ID"] for mail in outbox.to(address)}) for address in (ANA, BEN)]
    assert counts == [2, 1], "one mail each, and the answer"
