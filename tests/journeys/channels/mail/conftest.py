"""A mailbox and the channel that answers its mails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import need
from tests.journeys.channels.conftest import GuardedWeb, Tables
from tests.observers.channels.bot import ChannelProcess, People, table_of
from tests.observers.channels.mail_servers import ADDRESS, MX, PASSWORD, Dovecot, Outbox, dovecot_program, mail_of

ANA, BEN = "ana@example.org", "ben@example.org"


class MailBot(ChannelProcess):
    """The process `./callboard email`."""

    def __init__(self, folder: Path, imap: str, smtp: str, server: str, people: People, more: str = "") -> None:
        """``more``: further lines of the section ``email``."""
        lines = [f"server: {server}", "email:", f"  address: {ADDRESS}", "  password: ${MAIL_PASSWORD}"]
        lines += ["  user: steward", f"  imap: {imap}", f"  smtp: {smtp}", f"  authserv_id: {MX}", "  poll_s: 0.2"]
        lines += ["  agent: tester", f"  people: {table_of(people)}", more]
        super().__init__(folder, "email", lines, people, MAIL_PASSWORD=PASSWORD)


@pytest.fixture(scope="module")
def ids() -> tuple[str, str]:
    return ANA, BEN


@pytest.fixture
def dovecot() -> Iterator[Dovecot]:
    with Dovecot(need(dovecot_program(), "Dovecot (dovecot-imapd)")) as server:
        yield server


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    with Outbox() as server:
        yield server


@pytest.fixture
def make_bot(
    tmp_path: Path, dovecot: Dovecot, outbox: Outbox, web: GuardedWeb, people: Tables
) -> Callable[..., MailBot]:
    """Makes a channel of this test's own, which is not started; what is given are further lines of its file."""
    return lambda more="", server=web.address: MailBot(tmp_path, dovecot.address, outbox.address, server, people, more)


@pytest.fixture
def bot(make_bot: Callable[..., MailBot]) -> Iterator[MailBot]:
    with make_bot() as started:
        yield started


@pytest.fixture
def write(dovecot: Dovecot) -> Callable[..., None]:
    """Delivers a mail of a person; without more a genuine one of Ana's."""

    def deliver(text: str, message_id: str, author: str = f"Ana <{ANA}>", **more: object) -> None:
        dovecot.deliver(mail_of(text, author, message_id=f"<{message_id}@example.org>", **more))  # type: ignore[arg-type]

    return deliver
