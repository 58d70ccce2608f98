"""E-mail: mails that come by IMAP are a person's messages, and answers and questions are mails that SMTP sends.

A sender counts as a person of the table only where the receiving server has verified the address. Mails of machines
and of lists are not answered, and a sender gets a limited number of answers an hour, so that no loop lasts.
"""

from __future__ import annotations

import asyncio
import imaplib
import logging
import smtplib
import time
from collections.abc import Sequence
from email.mime.text import MIMEText

from aiohttp import web

from config.errors import ModelVisible
from config.redaction import redact
from config.text.visible import without_hidden
from observers.channels.channel import Button, ChannelLimits, PersonMessage, PostDelivery
from observers.channels.conversation import Conversations
from observers.channels.errors import CHANNEL_REFUSED
from observers.channels.mailbox import FetchedMail, Mailbox
from observers.channels.mails import MailHead, digest
from observers.channels.questions import Questions
from observers.channels.records import Records
from observers.channels.table import EmailFields
from observers.smtp import mail_problem, send_mail, text_mail

log = logging.getLogger(__name__)

MAX_CHARS = 200_000
"""Of a mail; longer answers are cut before."""
HOUR_S = 3600.0
READ_AGAIN_S = 5 * 24 * HOUR_S
"""How far back a mailbox is read whose numbers are void; what was answered is remembered for longer."""
MAX_TRIES = 3
"""Of reading one mail, which may be what makes the connection fail."""
SENDERS = 4
"""Connections to the server that sends, at a time."""
CURSOR = "mailbox"
LOST = (imaplib.IMAP4.error, OSError, EOFError)


class EmailChannel:
    """One mailbox. A place is a conversation with one sender: the mails that refer to its first one."""

    name = "email"
    limits = ChannelLimits(max_chars=MAX_CHARS, can_edit=False, has_buttons=False, answers_strangers=False)
    problem = "the mailbox is not reached."

    def __init__(self, fields: EmailFields, password: str, records: Records) -> None:
        self._fields, self._password, self._records = fields, password, records
        self._mailbox = Mailbox(fields, password)
        self._domain = fields.address.partition("@")[2]
        self._envelopes: dict[str, MailHead] = {}
        self._sending = asyncio.Semaphore(SENDERS)
        self.conversations: Conversations | None = None
        """Takes what persons write; set before the channel is started."""
        self.questions: Questions | None = None
        self.is_connected = False
        """Whether the mailbox was read a moment ago."""

    @property
    def account(self) -> str:
        return self._fields.address

    async def serve(self) -> None:
        """Look for new mails until it is cancelled.

        Raises:
            CHANNEL_REFUSED: the server does not know the password, or has no such folder.
        """
        await self._first_connection()
        if self.conversations is not None:
            self.conversations.resume()
        tries: dict[int, int] = {}
        while True:
            try:
                await asyncio.to_thread(self._mailbox.connect)
                await self._take_new(tries)
                self.is_connected = True
            except LOST as error:
                self._lost(error)
            await asyncio.sleep(self._fields.poll_s)

    async def _first_connection(self) -> None:
        while True:
            try:
                return await asyncio.to_thread(self._mailbox.connect)
            except (imaplib.IMAP4.abort, OSError) as error:
                self._lost(error)
                await asyncio.sleep(self._fields.poll_s)
            except imaplib.IMAP4.error as error:
                problem = f"{self._fields.imap} does not open {self._fields.folder} ({mail_problem(error)})."
                raise CHANNEL_REFUSED(platform="The mail server", problem=problem) from error

    def _lost(self, error: Exception) -> None:
        self.is_connected = False
        self._mailbox.close()
        facts = {"address": self._fields.imap, "problem": redact(mail_problem(error))}
        log.warning("the mailbox was not reached", extra=facts)

    async def close(self) -> None:
        """End the connections."""
        self._mailbox.close()

    # --- what arrives

    async def _take_new(self, tries: dict[int, int]) -> None:
        """Take each mail behind the last one; one that cannot be read at the third time is left out."""
        for uid in await self._new_uids():
            tries[uid] = tries.get(uid, 0) + 1
            mail = await self._read(uid) if tries[uid] <= MAX_TRIES else None
            if mail is not None:
                self._take(uid, mail)
            self._read_up_to(uid)
            tries.pop(uid, None)

    async def _read(self, uid: int) -> FetchedMail | None:
        try:
            return await asyncio.to_thread(self._mailbox.fetch, uid)
        except LOST:
            raise
        except Exception as error:  # of one mail, which others wrote
            log.error("a mail could not be read and is left out", exc_info=error, extra={"uid": uid})
            return None

    async def _new_uids(self) -> list[int]:
        cursor = self._records.noted(CURSOR)
        if cursor is None:
            self._note_cursor(self._mailbox.next_uid - 1, time.time())  # what was there before is not answered
            return []
        if cursor["validity"] == self._mailbox.validity:
            return await asyncio.to_thread(self._mailbox.new_uids, cursor["uid"])
        since_s = max(cursor["started_s"], time.time() - READ_AGAIN_S)
        uids = await asyncio.to_thread(self._mailbox.uids_since, since_s)
        if not uids:
            self._note_cursor(self._mailbox.next_uid - 1, cursor["started_s"])
        return uids

    def _read_up_to(self, uid: int) -> None:
        self._note_cursor(uid, self._records.noted(CURSOR)["started_s"])

    def _note_cursor(self, uid: int, started_s: float) -> None:
        value = {"validity": self._mailbox.validity, "uid": uid, "started_s": started_s}
        self._records.note(CURSOR, value, time.time())

    def _take(self, uid: int, mail: FetchedMail) -> None:
        """Answer a mail that a person wrote."""
        envelope, now = mail.envelope, time.time()
        if envelope.machine or envelope.author is None or mail.arrived_s + 1 < self._records.noted(CURSOR)["started_s"]:
            log.info("a mail is not answered", extra={"uid": uid, "problem": envelope.machine or "is old"})
            return
        if not envelope.is_genuine:  # an answer would go to a person who may not have written
            problem = f"{self._fields.authserv_id} has not verified its sender; `authserv_id` names your mail server"
            log.warning("a mail is not answered", extra={"uid": uid, "problem": problem})
            return
        message = self._message(uid, mail)
        if self._records.count_of(message.author_id, now - HOUR_S) >= self._fields.max_answers_per_hour:
            log.warning("a mail is not answered", extra={"uid": uid, "problem": "too many of its sender in an hour"})
            return
        facts = {"uid": uid, "validity": self._mailbox.validity, "id": envelope.raw_id, "to": envelope.author}
        self._records.note(_note_of(message.message_id), facts, now)
        self._envelopes[message.message_id] = envelope
        if len(self._envelopes) > 1000:
            del self._envelopes[next(iter(self._envelopes))]
        if self.conversations is not None:
            self.conversations.receive(message)

    def _message(self, uid: int, mail: FetchedMail) -> PersonMessage:
        envelope = mail.envelope
        author = envelope.author or ""
        raw_id = envelope.raw_id or f"{self._mailbox.validity}-{uid}"
        subject = f"Subject: {envelope.subject}\n\n" if envelope.subject and not envelope.references else ""
        return PersonMessage(
            message_id=digest(f"{author} {raw_id}"),  # another sender's mail with the same id is another mail
            place=f"{envelope.root(self._domain)}-{digest(author)[:16]}",
            author_id=author,
            author_name=author,
            text=f"{subject}{mail.text}".strip(),
            attachments=[without_hidden(name) for name in mail.file_names],
        )

    async def fetch(self, place: str, message_id: str) -> PersonMessage | None:
        facts = self._records.noted(_note_of(message_id))
        if facts is None:
            return None
        while True:
            try:
                uid = await self._uid(facts)
                mail = None if uid is None else await asyncio.to_thread(self._mailbox.fetch, uid)
                if uid is None or mail is None or not mail.envelope.is_genuine:
                    return None
                message = self._message(uid, mail)
                return message if message.message_id == message_id else None  # another may have the same Message-Id
            except LOST as error:
                self._lost(error)
                await asyncio.sleep(self._fields.poll_s)

    async def _uid(self, facts: dict[str, str]) -> int | None:
        """Return the number of a mail now."""
        await asyncio.to_thread(self._mailbox.connect)
        if facts["validity"] == self._mailbox.validity:
            return int(facts["uid"])
        return await asyncio.to_thread(self._mailbox.uid_of, facts["id"]) if facts["id"] else None

    async def replies(self, place: str, message_id: str) -> list[str]:
        return []  # what was sent is written down before anything else is done

    # --- what is sent

    async def send(
        self, place: str, text: str, *, reply_to: str, key: str, buttons: Sequence[Button] = ()
    ) -> PostDelivery:
        note = f"sent-{key}"
        if (earlier := self._records.noted(note)) is not None:
            return PostDelivery(state="done", message_id=earlier)
        facts = self._records.noted(_note_of(reply_to))
        if facts is None:
            return PostDelivery(state="gone")
        conversation, _, person = place.partition(" ")
        envelope = await self._envelope(reply_to, facts)
        message_id = f"<cb.{conversation.partition('-')[0]}.{digest(key)}@{self._domain}>"
        mail = self._mail(person or facts["to"], message_id, envelope, facts["id"], text)
        work = asyncio.ensure_future(self._delivered(mail, person or facts["to"], message_id, note))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await work  # the server may have the mail by now, and that has to be written down
            raise

    async def _envelope(self, message_id: str, facts: dict[str, str]) -> MailHead | None:
        """Return the headers of the mail that is answered; None where it is gone, or the mailbox is away."""
        if (envelope := self._envelopes.get(message_id)) is None:
            try:
                uid = await self._uid(facts)
                mail = None if uid is None else await asyncio.to_thread(self._mailbox.fetch, uid)
                envelope = None if mail is None else mail.envelope
            except LOST as error:
                self._lost(error)
        return envelope

    def _mail(self, to: str, message_id: str, envelope: MailHead | None, raw_id: str, text: str) -> MIMEText:
        subject = redact(envelope.subject) if envelope else ""
        is_reply = subject.lower().startswith("re:")
        subject = subject if is_reply else f"Re: {subject or 'your message'}"
        mail = text_mail(self._fields, [to], subject, text, message_id)
        if raw_id:
            mail["In-Reply-To"] = raw_id
            mail["References"] = " ".join([*(envelope.references if envelope else ()), raw_id])
        mail["Auto-Submitted"] = "auto-replied"
        return mail

    async def _delivered(self, mail: MIMEText, to: str, message_id: str, note: str) -> PostDelivery:
        async with self._sending:
            try:
                await asyncio.to_thread(send_mail, self._fields, self._password, mail, [to])
            except (smtplib.SMTPException, OSError, ModelVisible) as error:
                code = _refusal_code(error)
                log.warning("a mail was not sent", extra={"code": code, "problem": redact(mail_problem(error))})
                if 500 <= code < 600:
                    return PostDelivery(state="gone")
                return PostDelivery(state="later", wait_s=self._fields.poll_s)
        self._records.note(note, message_id, time.time())
        return PostDelivery(state="done", message_id=message_id)

    async def edit(self, place: str, message_id: str, text: str, buttons: Sequence[Button] = ()) -> PostDelivery:
        return PostDelivery(state="gone")  # a mail that was sent stays

    def routes(self) -> list[web.RouteDef]:
        return []

    async def finish(self, place: str, message_id: str) -> None:
        return None


def _note_of(message_id: str) -> str:
    return f"mail-{message_id}"


def _refusal_code(error: Exception) -> int:
    """Return the code of a mail that is refused; 0 where it may be taken later: a wrong password is corrected."""
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return 0
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return next(iter(error.recipients.values()))[0]
    return error.smtp_code if isinstance(error, smtplib.SMTPResponseException) else 0
