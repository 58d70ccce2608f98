"""What is read of a mail: who wrote it, whether that is genuine, whether a machine did, and the sender's own text."""

from __future__ import annotations

from email.message import Message

import pytest

from observers.channels.mailbox import responses_in
from observers.channels.mails import (
    MailHead,
    MailPart,
    author_of,
    envelope_of,
    is_genuine,
    machine_in,
    own_text,
    parts_in,
    text_of,
    text_part,
)

OWN, MX = "steward@callboard.example", "mx.callboard.example"


def headers_of(*lines: tuple[str, str]) -> Message:
    message = Message()
    for name, value in lines:
        message[name] = value
    return message


@pytest.mark.parametrize(
    ("value", "author"),
    [
        ("Ana@Example.org", "ana@example.org"),
        ("Ana <ana@example.org>", "ana@example.org"),
        ('"Ana, of <b@c.org>" <ana@example.org>', "ana@example.org"),
        ("ana@corp.example <eve@evil.example>", None),
        ("a@example.org, b@example.org", None),
        ("Ana, <ana@example.org>", None),
        ("<ana@example.org> x", None),
        ('"Ana" <a@b.org>" <ana@example.org>', None),
        ("Ana <ana@exa mple.org>", None),
        ("ana@" + "x" * 200, None),
        ("", None),
    ],
)
def test_a_sender_is_one_address_that_is_read_in_one_way(value: str, author: str | None) -> None:
    assert author_of(headers_of(("From", value))) == author


def test_two_headers_of_a_sender_are_none() -> None:
    assert author_of(headers_of(("From", "ana@example.org"), ("From", "eve@evil.example"))) is None


@pytest.mark.parametrize(
    ("values", "genuine"),
    [
        ([f"{MX}; dmarc=pass (p=none dis=none) header.from=example.org"], True),
        ([f"{MX.upper()} 1; DMARC=Pass header.from=Example.org"], True),
        ([f"{MX}; dkim=pass header.d=example.org header.s=s; spf=fail smtp.mailfrom=x.example"], True),
        ([f"{MX}; dkim=pass header.d=evil.example; dkim=pass header.d=example.org"], True),
        ([f"{MX}; spf=pass smtp.mailfrom=bounce@example.org"], True),
        ([f"{MX}; spf=pass smtp.mailfrom=example.org"], True),
        ([f"{MX}; dmarc=fail header.from=example.org; spf=pass smtp.mailfrom=example.org"], False),
        ([f"{MX}; dmarc=pass header.from=evil.example"], False),
        ([f"{MX}; dmarc=pass header.from=example.org; dmarc=pass header.from=example.org"], False),
        ([f"{MX}; dkim=pass header.d=evil.example"], False),
        ([f"{MX}; dkim=pass header.d=org"], False),
        ([f"{MX}; dkim=fail header.d=example.org"], False),
        ([f"{MX}; spf=pass smtp.mailfrom=example.org; spf=pass smtp.mailfrom=x.example"], False),
        ([f'{MX}; spf=fail smtp.mailfrom="a; dmarc=pass header.from=example.org"@x.example'], False),
        ([f"{MX}; spf=fail (a (b; dmarc=pass header.from=example.org) c); none"], False),
        ([f"{MX}; spf=fail reason=(\\); dmarc=pass header.from=example.org"], False),
        ([f"{MX}; none", f"{MX}; dmarc=pass header.from=example.org"], False),
        ([f"{MX}; spf=none (open", f"{MX}; dmarc=pass header.from=example.org"], False),
        (["mx.evil.example; dmarc=pass header.from=example.org"], False),
        ([f"{MX}.evil.example; dmarc=pass header.from=example.org"], False),
        (["", f"{MX}"], False),
        ([], False),
    ],
)
def test_a_sender_is_genuine_where_the_receiving_server_says_so(values: list[str], genuine: bool) -> None:
    assert is_genuine(values, MX, "example.org") is genuine


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("Auto-Submitted", "no", ""),
        ("Auto-Submitted", "auto-generated; x=y", "is an automatic answer"),
        ("Precedence", "Bulk", "is of a list"),
        ("List-Unsubscribe", "<mailto:x>", "is of a list"),
        ("Return-Path", " <> ", "is a report"),
        ("Content-Type", "multipart/report; report-type=delivery-status", "is a report"),
        ("X-Auto-Response-Suppress", "DR, AutoReply", "wants no automatic answer"),
    ],
)
def test_mails_of_machines_have_a_reason(name: str, value: str, reason: str) -> None:
    assert machine_in(headers_of((name, value)), "ana@example.org", OWN) == reason


def test_our_own_mails_and_those_of_servers_have_one_too() -> None:
    assert machine_in(Message(), OWN, OWN) == "is our own"
    assert machine_in(Message(), "mailer-daemon@example.org", OWN) == "is a report"
    assert machine_in(Message(), None, OWN) == "has not one sender"


def test_an_envelope_has_the_conversation_and_a_subject_in_one_line() -> None:
    ours = f"<cb.{'a' * 24}.{'b' * 24}@callboard.example>"
    ids = " ".join(f"<{number}@x>" for number in range(50))
    head = f"From: ana@example.org\r\nSubject: =?utf-8?q?Caf=C3=A9?=\r\n =?x?b?!!?=\r\nReferences: {ids}\r\n".encode()

    envelope = envelope_of(head + b"Message-ID: <1@x> junk\r\n\r\n", OWN, MX)

    assert (envelope.subject.startswith("Café"), envelope.raw_id, envelope.is_genuine) == (True, "<1@x>", False)
    assert (len(envelope.references), envelope.references[0], envelope.references[-1]) == (21, "<0@x>", "<49@x>")
    reply = envelope_of(head + f"In-Reply-To: {ours}\r\n\r\n".encode(), OWN, MX)
    assert reply.root("callboard.example") == "a" * 24
    assert reply.root("other.example") == envelope.root("callboard.example") != "a" * 24
    assert isinstance(envelope_of(b"\xff\xfe: \x00", OWN, MX), MailHead)


def structure(*lines: bytes | tuple[bytes, bytes]) -> list[MailPart]:
    [values] = responses_in([*lines])
    return list(parts_in(values[b"BODYSTRUCTURE"]))


def test_parts_are_named_as_the_server_numbers_them() -> None:
    plain = b'("TEXT" "PLAIN" ("CHARSET" "utf-8") NIL NIL "BASE64" 9 1 NIL NIL NIL NIL)'
    html = b'("TEXT" "HTML" NIL NIL NIL "7BIT" 9 1 NIL NIL NIL NIL)'
    head = b"1 (UID 7 BODYSTRUCTURE ((" + html + plain + b' "ALTERNATIVE" ("BOUNDARY" "c") NIL NIL NIL)'
    file = b'("APPLICATION" "PDF" ("NAME" "x.pdf") NIL NIL "BASE64" 8 NIL ("ATTACHMENT" ("FILENAME" {11}'
    end = b')) NIL NIL) "MIXED" ("BOUNDARY" "b") NIL NIL NIL))'

    parts = structure((head + file, b'a "q" 1.pdf'), end)

    assert [part.section for part in parts] == ["1.1", "1.2", "2"]
    assert [part.file_name for part in parts if part.is_attachment] == ['a "q" 1.pdf']
    chosen = text_part(parts)
    assert chosen is not None
    assert (chosen.section, chosen.encoding) == ("1.2", "base64")


@pytest.mark.parametrize("line", [b"1 (UID 7 BODYSTRUCTURE " + b"(" * 5000, b"1 (UID 7 BODYSTRUCTURE NIL)", b'1 ("'])
def test_a_structure_that_cannot_be_read_has_no_parts(line: bytes) -> None:
    values = responses_in([line])[0]

    assert list(parts_in(values.get(b"BODYSTRUCTURE", []))) == []


def part(**facts: str) -> MailPart:
    fields = {"section": "1", "kind": "text/plain", "encoding": "7bit", "charset": "utf-8", "file_name": ""} | facts
    return MailPart(**fields, is_attachment=False)


def test_a_text_is_read_in_its_encoding_also_where_its_end_is_missing() -> None:
    assert text_of(b"SGVsbG8gQW5h\r\nLCA", part(encoding="base64")) == "Hello Ana"
    assert text_of(b"Caf=E9=\r\n!", part(encoding="quoted-printable", charset="iso-8859-1")) == "Café!"
    assert text_of("Café".encode(), part(charset="idna")) == "Café", "one of Python's that is not for texts"
    assert text_of(b"a\xff", part(charset="gb99")) == "a\ufffd"


def test_of_html_the_visible_text_is_read() -> None:
    html = b"<style>p {}</style ><p>Dear&nbsp;you</p><script>x()</script>Bye<br>A<title>cut"

    assert text_of(html, part(kind="text/html")) == "Dear\xa0you\nBye\nA"


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("Yes.\n\nOn 1 Dec 2026, Ana <a@b.c> wrote:\n> one\n> two\n", "Yes."),
        ("Yes.\n\nAm 1. Dez 2026 schrieb Ana\n<a@b.c>:\n\n> one\n", "Yes."),
        ("> May I?\nYes, on this:\n> and now?\nNo.", "Yes, on this:\nNo."),
        ("Yes.\n-- \nAna\nExample Ltd.", "Yes."),
        ("Yes.\n-----Original Message-----\nFrom: me", "Yes."),
        ("> all of it", ""),
    ],
)
def test_what_a_mail_quotes_is_left_out(text: str, own: str) -> None:
    assert own_text(text) == own
