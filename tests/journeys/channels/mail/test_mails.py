"""Persons write mails to an agent: a real Dovecot, a real Callboard, and a server that takes what is sent."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from callboard_client import Callboard
from tests.app_harness import AppHarness
from tests.journeys.channels.mail.conftest import ANA, BEN, MailBot
from tests.model_server import Turn
from tests.observers.channels.mail_servers import ADDRESS, MX, Dovecot, Outbox

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

Write = Callable[..., None]


@pytest.fixture(autouse=True)
def model(fleet_harness: AppHarness) -> None:
    fleet_harness.agent()
    fleet_harness.model.respond = counts


def counts(body: Mapping[str, Any]) -> Turn:
    return Turn(text=f"I have {len(body['messages'])} messages.")


def asked(fleet_harness: AppHarness) -> str:
    """Return what the model was asked last."""
    return str(fleet_harness.model.requests[-1].body["messages"][-1]["content"])


def test_a_mail_is_answered_by_one_mail_in_its_thread(
    fleet_harness: AppHarness, dovecot: Dovecot, outbox: Outbox, bot: MailBot, write: Write, ana: Callboard
) -> None:
    write("Hello?\n\n> an old line\n-- \nAna, Ltd.", "a1", subject="Two\u202e seats")

    [mail] = outbox.until(lambda: outbox.to(ANA))
    assert asked(fleet_harness) == "Subject: Two seats\n\nHello?"
    assert (mail["From"], mail["To"], mail["Subject"]) == (ADDRESS, ANA, "Re: Two seats")
    assert (mail["In-Reply-To"], mail["References"]) == ("<a1@example.org>", "<a1@example.org>")
    assert (mail["Auto-Submitted"], mail["X-Auto-Response-Suppress"]) == ("auto-replied", "All")
    assert "Cc" not in mail

    quoted = "And two?\n\nOn 1 Dec 2026, Steward wrote:\n> I have 2 messages."
    references = [f"References: <a1@example.org> {mail['Message-ID']}", f"In-Reply-To: {mail['Message-ID']}"]
    write(quoted, "a2", more=references)
    write("By its number alone", "a3", more=[f"In-Reply-To: {mail['Message-ID']}"])
    write("Another matter", "a4")

    outbox.until(lambda: len(outbox.to(ANA)) == 4)
    assert sorted(outbox.texts(ANA)) == [f"I have {count} messages." for count in (2, 2, 4, 6)]
    assert len({run.thread_id for run in ana.runs.list()}) == 2
    assert all(flags.endswith(b"(FLAGS (\\Recent))") or b"()" in flags for flags in dovecot.flags())
    assert (bot.status("/health"), bot.status("/ready")) == (200, 200)


def test_a_mail_that_comes_three_times_has_one_run(outbox: Outbox, bot: MailBot, write: Write, ana: Callboard) -> None:
    before = len(ana.runs.list())

    for _ in range(3):
        write("Once", "b1")
    write("End", "b2")

    outbox.until(lambda: len(outbox.mails) == 2)
    assert len(ana.runs.list()) == before + 2


@pytest.mark.parametrize(
    "results",
    [
        None,
        f"{MX}; dmarc=fail header.from=example.org",
        "mx.evil.example; dmarc=pass header.from=example.org",
        f"{MX}; dmarc=pass header.from=evil.example",
        f"{MX}; spf=pass smtp.mailfrom=ana@evil.example",
        f'{MX}; spf=fail smtp.mailfrom="x; dmarc=pass header.from=example.org"@evil.example',
    ],
)
def test_a_forged_sender_is_not_answered(
    outbox: Outbox, bot: MailBot, write: Write, ana: Callboard, results: str | None
) -> None:
    before = len(ana.runs.list())

    write("Pay at once", "c1", results=results)
    below = f"Authentication-Results: {MX}; dmarc=pass header.from=example.org"
    if results is None or results.startswith(MX):
        write("Pay at once, and believe me", "c2", results=results or f"{MX}; none", more=[below])
    write("I am here", "c3", f"Ben <{BEN}>")

    outbox.until(lambda: outbox.to(BEN))
    assert outbox.to(ANA) == []
    assert len(ana.runs.list()) == before


def test_machines_lists_and_loops_are_not_answered(outbox: Outbox, bot: MailBot, write: Write) -> None:
    headers = ["Auto-Submitted: auto-replied", "List-Id: <all.example.org>", "Precedence: bulk", "Return-Path: <>"]
    headers += ["X-Auto-Response-Suppress: All", "Content-Type: multipart/report; boundary=x"]
    for number, header in enumerate(headers):
        write("I am away", f"d{number}", more=[header])
    write("From myself", "d10", f"Steward <{ADDRESS}>")
    write("Of two", "d11", f"{ANA}, {BEN}")
    write("Undelivered", "d12", "MAILER-DAEMON@example.org")

    write("I am here", "d13")

    outbox.until(lambda: outbox.to(ANA))
    assert len(outbox.mails) == 1


def test_a_sender_gets_a_limited_number_of_answers(
    outbox: Outbox, make_bot: Callable[..., MailBot], write: Write
) -> None:
    with make_bot("  max_answers_per_hour: 2") as bot:
        for number in range(5):
            write("Ping", f"e{number}")
        bot.until_logged("too many of its sender")
        write("Hello", "e9", BEN)

        outbox.until(lambda: outbox.to(BEN) and len(outbox.to(ANA)) == 2)
        assert len(outbox.mails) == 3


def test_of_a_large_mail_the_text_and_the_names_are_read(
    fleet_harness: AppHarness, outbox: Outbox, bot: MailBot, write: Write
) -> None:
    kind = "Content-Type: multipart/mixed; boundary=cut"
    alternative = "--cut\nContent-Type: multipart/alternative; boundary=in\n\n"
    html = "--in\nContent-Type: text/html\n\n<p>Please</p>\n--in\nContent-Type: text/plain; charset=utf-8\n"
    plain = "Content-Transfer-Encoding: base64\n\n" + base64.b64encode("Please réad".encode()).decode() + "\n--in--\n"
    file = '--cut\nContent-Type: {0}; name="{1}"\nContent-Disposition: attachment; filename="{1}"\n\n{2}\n'
    large = "\n".join(["A" * 75] * 200_000)
    files = [file.format("application/pdf", "plan (1).pdf", large), file.format("text/plain", "log.txt", large)]
    write(alternative + html + plain + "".join(files) + "--cut--", "f1", more=[kind])
    write("x" * 30_000, "f2", subject="")

    outbox.until(lambda: len(outbox.mails) == 2, 60)
    read = {str(request.body["messages"][-1]["content"]) for request in fleet_harness.model.requests}
    assert "Subject: A question\n\nPlease réad\n\n(Attached, and not available: plan (1).pdf, log.txt)" in read
    assert "x" * 8000 in read


def test_thirty_thousand_characters_without_secrets_are_one_mail(
    fleet_harness: AppHarness, outbox: Outbox, bot: MailBot, write: Write, people: dict[str, tuple[str, str, str]]
) -> None:
    paragraphs = [f"Paragraph {number}: {'and só on ' * 39}." for number in range(75)]
    secret = people[ANA][1]
    answer = [f"{paragraph}\n\n" for paragraph in paragraphs] + [f"[bank](https://evil.example) a\u202eb {secret}"]
    fleet_harness.model.respond = lambda body: Turn(text=answer)

    write("A long one", "g1")

    [text] = outbox.until(lambda: outbox.texts(ANA))
    assert text == "\n\n".join([*paragraphs, "[bank] (https://evil.example) ab [redacted]"])
    assert secret not in bot.log.read_text()


def test_twenty_conversations_at_once(outbox: Outbox, bot: MailBot, write: Write) -> None:
    for number in range(10):
        write(f"Question {number}", f"h{number}")
        write(f"Question {number}", f"h{number}", BEN)

    outbox.until(lambda: len(outbox.mails) == 20, 60)

    for address in (ANA, BEN):
        replies = {mail["In-Reply-To"] for mail in outbox.to(address)}
        assert replies == {f"<h{number}@example.org>" for number in range(10)}


def test_a_guest_is_answered_and_not_a_person_of_the_table(
    outbox: Outbox, make_bot: Callable[..., MailBot], write: Write, ana: Callboard
) -> None:
    with make_bot("  strangers: guest\n  guest: {principal: ben, key: '${KEY_2}'}"):
        before = len(ana.runs.list())
        write("I say that I am Ana", "i1", results=f"{MX}; dmarc=fail")
        write("I am Cem", "i2", "cem@example.org")

        outbox.until(lambda: outbox.to("cem@example.org"))
        assert len(ana.runs.list()) == before, "the run is the guest's"
        assert outbox.to(ANA) == [], "no mail goes to a person who may not have written"
