"""The mailbox of a channel, by IMAP: what is new in it, the head of a mail, and the beginning of one part.

Nothing in it is changed, and of a mail only the headers and one text are fetched, however large it is. The methods
wait for the server, so they run on threads; one at a time has the connection.
"""

from __future__ import annotations

import imaplib
import re
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from observers.channels.mails import MAX_DEPTH, MailHead, MailPart, Structure, envelope_of, parts_in, text_of, text_part
from observers.channels.table import EmailFields
from observers.smtp import TIMEOUT_S, host_and_port

MAX_HEAD_BYTES = 64 * 1024
MAX_TEXT_BYTES = 64 * 1024
_TOKEN = re.compile(rb'[()]|"(?:[^"\\]|\\.)*+"?|[^\s()"]+', re.DOTALL)
_LITERAL = re.compile(rb"\{\d+\}$")
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchedMail:
    """What was read of a mail."""

    envelope: MailHead
    text: str
    file_names: Sequence[str]
    arrived_s: float


class Mailbox:
    """A folder of a mailbox, which is connected to when it is needed."""

    def __init__(self, fields: EmailFields, password: str) -> None:
        self._fields, self._password = fields, password
        self._imap: imaplib.IMAP4 | None = None
        self._lock = threading.Lock()
        self.validity = ""
        """What the server calls its numbering of the mails; another one makes the numbers void."""
        self.next_uid = 1
        """The number of the next mail, when the folder was opened."""

    def connect(self) -> None:
        """Open the folder, unless it is open.

        Raises:
            IMAP4.error: the server does not know the password, or has no such folder.
            IMAP4.abort, OSError: as each of these methods: the connection is lost; ``close`` it, and try again.
        """
        with self._lock:
            self._connection()

    def new_uids(self, behind: int) -> list[int]:
        """Return the numbers of the mails behind one, in order."""
        with self._lock:
            connection = self._connection()
            connection.noop()  # some servers tell of new mails only then
            uids = self._search(connection, f"UID {behind + 1}:*")
            return [uid for uid in uids if uid > behind]  # the last mail always matches `*`

    def uids_since(self, since_s: float) -> list[int]:
        """Return the numbers of the mails that came since the day of a time."""
        day = time.gmtime(since_s - 24 * 3600)  # the server's day may be another one
        with self._lock:
            return self._search(self._connection(), f"SINCE {day.tm_mday}-{MONTHS[day.tm_mon - 1]}-{day.tm_year}")

    def uid_of(self, raw_id: str) -> int | None:
        """Return the number of a mail with this Message-Id."""
        if any(mark in raw_id for mark in '"\\'):
            return None
        with self._lock:
            return next(iter(self._search(self._connection(), f'HEADER Message-ID "{raw_id}"')), None)

    def fetch(self, uid: int) -> FetchedMail | None:
        """Return what a mail says; None where it is gone."""
        with self._lock:
            connection = self._connection()
            head = self._fetch(connection, uid, f"(INTERNALDATE BODY.PEEK[HEADER]<0.{MAX_HEAD_BYTES}>)")
            if head is None:
                return None
            envelope = envelope_of(_bytes(head, b"BODY[HEADER]"), self._fields.address, self._fields.authserv_id)
            parts = [] if envelope.machine else self._parts(connection, uid)
            part = text_part(parts)
            return FetchedMail(
                envelope=envelope,
                text="" if part is None else self._text(connection, uid, part),
                file_names=[each.file_name or each.kind for each in parts if each.is_attachment],
                arrived_s=_seconds(_bytes(head, b"INTERNALDATE")),
            )

    def _parts(self, connection: imaplib.IMAP4, uid: int) -> list[MailPart]:
        values = self._fetch(connection, uid, "(BODYSTRUCTURE)") or {}
        return list(parts_in(values.get(b"BODYSTRUCTURE", [])))

    def _text(self, connection: imaplib.IMAP4, uid: int, part: MailPart) -> str:
        values = self._fetch(connection, uid, f"(BODY.PEEK[{part.section}]<0.{MAX_TEXT_BYTES}>)") or {}
        return text_of(_bytes(values, f"BODY[{part.section}]".encode()), part)

    def close(self) -> None:
        """Close the connection, also while another thread waits for it."""
        connection, self._imap = self._imap, None
        if connection is not None:
            connection.shutdown()

    # --- the protocol

    def _connection(self) -> imaplib.IMAP4:
        if self._imap is not None and self._imap.state == "SELECTED":
            return self._imap
        scheme, _, address = self._fields.imap.partition("://")
        host, port = host_and_port(address, 993 if scheme == "imaps" else 143)
        if scheme == "imaps":
            context = ssl.create_default_context()
            connection: imaplib.IMAP4 = imaplib.IMAP4_SSL(host, port, ssl_context=context, timeout=TIMEOUT_S)
        else:
            connection = imaplib.IMAP4(host, port, timeout=TIMEOUT_S)
        try:
            self._open(connection)
        except BaseException:
            connection.shutdown()
            raise
        self._imap = connection
        return connection

    def _open(self, connection: imaplib.IMAP4) -> None:
        connection.login(self._fields.user or self._fields.address, self._password)
        status, data = connection.select(_quoted(self._fields.folder), readonly=True)
        if status != "OK":
            raise imaplib.IMAP4.error(data[0])
        self.validity = _number(connection, "UIDVALIDITY")
        self.next_uid = int(_number(connection, "UIDNEXT") or 1)

    def _search(self, connection: imaplib.IMAP4, criteria: str) -> list[int]:
        status, data = connection.uid("SEARCH", criteria)
        if status != "OK":
            raise imaplib.IMAP4.abort("the search failed")
        return sorted(int(word) for word in b" ".join(each for each in data if each).split() if word.isdigit())

    def _fetch(self, connection: imaplib.IMAP4, uid: int, what: str) -> dict[bytes, Structure] | None:
        status, data = connection.uid("FETCH", str(uid), what)
        if status != "OK":
            raise imaplib.IMAP4.abort("a mail was not fetched")
        for values in responses_in(data):
            if values.get(b"UID") == str(uid).encode() and len(values) > 1:
                return values
        return None


def responses_in(data: Sequence[Any]) -> list[dict[bytes, Structure]]:
    """Return the values of each FETCH response, by their names in upper case."""
    responses: list[dict[bytes, Structure]] = []
    tokens: list[tuple[bytes, bool]] = []
    for item in data:
        if isinstance(item, tuple):
            tokens += [*_tokens(_LITERAL.sub(b"", item[0])), (item[1], True)]
            continue
        tokens += _tokens(item or b"")
        values = next((value for value in _nested(tokens) if isinstance(value, list)), [])
        names = [name.partition(b"<")[0].upper() for name in values[::2] if isinstance(name, bytes)]
        responses.append(dict(zip(names, values[1::2], strict=False)))
        tokens = []
    return responses


def _tokens(line: bytes) -> list[tuple[bytes, bool]]:
    """Return the words of a line, each with whether it is a text."""
    words = [match[0] for match in _TOKEN.finditer(line)]
    return [
        (re.sub(rb"\\(.)", rb"\1", word[1:-1]), True) if word.startswith(b'"') and len(word) > 1 else (word, False)
        for word in words
    ]


def _nested(tokens: Sequence[tuple[bytes, bool]]) -> list[Structure]:
    """Return the words with lists for parentheses; what is nested deeper than a mail can be is left out."""
    stack: list[list[Structure]] = [[]]
    for word, is_text in tokens:
        if is_text or word not in (b"(", b")"):
            stack[-1].append(b"" if word == b"NIL" and not is_text else word)
        elif word == b"(":
            if len(stack) > MAX_DEPTH:
                return []
            inner: list[Structure] = []
            stack[-1].append(inner)
            stack.append(inner)
        elif len(stack) > 1:
            stack.pop()
    return stack[0]


def _bytes(values: dict[bytes, Structure], name: bytes) -> bytes:
    value = values.get(name)
    return value if isinstance(value, bytes) else b""


def _seconds(date: bytes) -> float:
    moment = imaplib.Internaldate2tuple(b'INTERNALDATE "' + date + b'"')
    return time.mktime(moment) if moment else 0.0


def _number(connection: imaplib.IMAP4, name: str) -> str:
    value = connection.response(name)[1][-1]
    return value.decode() if isinstance(value, bytes) and value.isdigit() else ""


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
