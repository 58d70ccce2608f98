"""What a mail says: who wrote it, whether that is genuine, whether a machine did, and which part is a person's text.

All of it is written by others. It is read in linear time, up to limits, and a mail that cannot be read is not answered.
"""

from __future__ import annotations

import binascii
import hashlib
import quopri
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.header import decode_header
from email.message import Message
from email.parser import HeaderParser
from html import unescape
from typing import TypeAlias

from config.text.visible import without_hidden
from observers.smtp import MAIL_ADDRESS, MAX_ADDRESS_CHARS

Structure: TypeAlias = "bytes | list[Structure]"
"""A value of IMAP: an atom or a text, or a list in parentheses."""
MAX_DEPTH = 60
MAX_VALUE_CHARS = 1000
MAX_REFERENCES = 20
MAX_PARTS = 200
_ID = re.compile(r"<[!-;=?-~]{1,250}>")
_CHARSET = re.compile(
    r"(?:utf-?8|us-ascii|iso-?8859-\d{1,2}|windows-125\d|cp125\d|koi8-[ru]|gb\w{2,6}|big5|euc-\w\w|shift_jis)"
)
"""The encodings that are read; Python's list also has some that take quadratic time."""
_TAG = re.compile(r"<[^<>]{0,2000}>")
_BREAKS = re.compile(r"<(?:br|/p|/div|/tr|/li|/h\d)\b[^<>]{0,200}>", re.IGNORECASE)
_HIDDEN_TEXT = re.compile(r"<(style|script|head|title)\b", re.IGNORECASE)
_HIDDEN_ENDS = {
    name: re.compile(f"</{name}[^<>]{{0,20}}>", re.IGNORECASE) for name in "style script head title".split()
}
_ATTRIBUTION = re.compile(r"[^\n]{1,300}:\s{0,20}")
_ORIGINAL = re.compile(
    r"\s{0,20}(?:-{3,20}\s{0,5}(?:Original Message|Forwarded message|Ursprüngliche Nachricht)|_{20,80}\s{0,20}$)", re.I
)
BULK = ("bulk", "junk", "list", "auto_reply")
MACHINES = ("mailer-daemon", "postmaster", "noreply", "no-reply", "donotreply", "do-not-reply", "bounce", "bounces")


@dataclass(frozen=True, kw_only=True, slots=True)
class MailHead:
    """The headers of a mail, as far as they are of interest."""

    author: str | None
    """The address in From; None: there is not exactly one."""
    is_genuine: bool
    """Whether the receiving server says that the address is not forged."""
    machine: str
    """Why no person wrote it to us; nothing: one did."""
    raw_id: str
    """Its Message-Id with the brackets, or nothing."""
    references: Sequence[str]
    """Message-Ids of the conversation, the first one first."""
    subject: str

    def root(self, domain: str) -> str:
        """Return which conversation it belongs to: the first mail of it that is known."""
        for reference in reversed(self.references):
            if match := re.fullmatch(rf"<cb\.([0-9a-f]{{24}})\.[0-9a-f]{{24}}@{re.escape(domain)}>", reference):
                return match[1]
        return digest(self.references[0] if self.references else self.raw_id)


def digest(text: str) -> str:
    """Return a name for a text of any length."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:24]


def envelope_of(head: bytes, own_address: str, authserv_id: str) -> MailHead:
    """Return what the headers of a mail say."""
    headers = HeaderParser().parsestr(head.decode("utf-8", "replace"))
    author = author_of(headers)
    ids = [match[0] for name in ("References", "In-Reply-To") for match in _ID.finditer(_value(headers, name, 20_000))]
    references = list(dict.fromkeys(ids))
    raw_id = _ID.match(_value(headers, "Message-ID").strip())
    return MailHead(
        author=author,
        is_genuine=author is not None
        and is_genuine(_values(headers, "Authentication-Results"), authserv_id, author.partition("@")[2]),
        machine=machine_in(headers, author, own_address),
        raw_id=raw_id[0] if raw_id else "",
        references=[*references[:1], *references[1:][-MAX_REFERENCES:]],
        subject=" ".join(without_hidden(_decoded(_value(headers, "Subject"))).split())[:200],
    )


def _values(headers: Message, name: str) -> list[str]:
    return [str(value)[:8000] for value in headers.get_all(name, [])]


def _value(headers: Message, name: str, max_chars: int = MAX_VALUE_CHARS) -> str:
    return next(iter(_values(headers, name)), "")[:max_chars]


def author_of(headers: Message) -> str | None:
    """Return the address of a From header that has exactly one, in lower case."""
    values = _values(headers, "From")
    if len(values) != 1 or len(values[0]) > MAX_VALUE_CHARS:
        return None
    name, bracket, rest = values[0].strip().rpartition("<")
    address = rest.removesuffix(">") if bracket else rest
    is_quoted = re.fullmatch(r'"(?:[^"\\]|\\.)*"', name.strip(), re.DOTALL) is not None
    if (bracket and not rest.endswith(">")) or (not is_quoted and any(mark in name for mark in '@,;<>"')):
        return None  # servers and clients may read it in different ways
    fits = MAIL_ADDRESS.fullmatch(address) is not None and len(address) <= MAX_ADDRESS_CHARS
    return address.lower() if fits else None


# --- whether the sender is genuine


def is_genuine(values: Sequence[str], authserv_id: str, domain: str) -> bool:
    """Return whether the receiving server has verified the domain in From (RFC 8601).

    The topmost header with its name counts alone: servers write theirs above what the sender wrote.
    """
    for value in values:
        results = [tokens for tokens in _results(value) if tokens]
        if not results:
            return False  # what cannot be read may be the server's
        if results[0][0].lower() == authserv_id.lower():
            return _is_passed([_result(tokens) for tokens in results[1:]], domain)
    return False


def _is_passed(results: Sequence[tuple[str, str, dict[str, str]]], domain: str) -> bool:
    dmarc = [(result, facts) for method, result, facts in results if method == "dmarc"]
    if dmarc:
        result, facts = dmarc[0]
        return len(dmarc) == 1 and result == "pass" and _domain(facts.get("header.from", domain)) == domain
    spf = [(result, facts) for method, result, facts in results if method == "spf"]
    if len(spf) == 1 and spf[0][0] == "pass" and _domain(spf[0][1].get("smtp.mailfrom", "")) == domain:
        return True
    signers = [
        facts.get("header.d", "").lower() for method, result, facts in results if (method, result) == ("dkim", "pass")
    ]
    return any(signer == domain or ("." in signer and domain.endswith(f".{signer}")) for signer in signers)


def _domain(address: str) -> str:
    return address.rpartition("@")[2].lower()


def _result(tokens: Sequence[str]) -> tuple[str, str, dict[str, str]]:
    method, _, result = tokens[0].partition("=")
    pairs = [token.lower().partition("=") for token in reversed(tokens[1:])]
    facts = {name: value for name, _, value in pairs}
    return method.partition("/")[0].lower(), result.lower(), facts


def _results(value: str) -> list[list[str]]:
    """Return the words between semicolons; those in quotes are one word, and comments are left out."""
    groups: list[list[str]] = [[]]
    word, depth, is_quoted, is_escaped = "", 0, False, False
    for character in value + ";":
        if is_escaped or (character == "\\" and (depth or is_quoted)):
            word += character if is_escaped and not depth else ""
            is_escaped = not is_escaped
        elif depth or (character == "(" and not is_quoted):
            depth += {"(": 1, ")": -1}.get(character, 0)
        elif character == '"':
            is_quoted = not is_quoted
        elif is_quoted or not (character.isspace() or character == ";"):
            word += character
        else:
            groups[-1] += [word] if word else []
            word = ""
            if character == ";":
                groups.append([])
    return groups if not (depth or is_quoted) else []


# --- whether a machine wrote it


def machine_in(headers: Message, author: str | None, own_address: str) -> str:
    """Return why a mail is not answered: it is of a list or a machine, or our own (RFC 3834)."""
    if author is None:
        return "has not one sender"
    if author == own_address:
        return "is our own"
    if author.partition("@")[0] in MACHINES or _value(headers, "Return-Path").strip() == "<>":
        return "is a report"
    if _value(headers, "Auto-Submitted", 50).partition(";")[0].strip().lower() not in ("", "no"):
        return "is an automatic answer"
    if "List-Id" in headers or "List-Unsubscribe" in headers or _value(headers, "Precedence").strip().lower() in BULK:
        return "is of a list"
    purposes = {word.strip().lower() for word in _value(headers, "X-Auto-Response-Suppress").split(",")}
    if purposes & {"all", "autoreply"}:
        return "wants no automatic answer"
    return "is a report" if _value(headers, "Content-Type").strip().lower().startswith("multipart/report") else ""


# --- its text


@dataclass(frozen=True, kw_only=True, slots=True)
class MailPart:
    """A part of a mail, as IMAP's BODYSTRUCTURE names it."""

    section: str
    kind: str
    encoding: str
    charset: str
    file_name: str
    is_attachment: bool


def parts_in(structure: Structure, section: str = "") -> Iterator[MailPart]:
    """Yield the parts of a mail that are not made of others, in order."""
    if not isinstance(structure, list) or not structure:
        return
    if isinstance(structure[0], list):
        for number, child in enumerate((child for child in structure if isinstance(child, list)), 1):
            if number > MAX_PARTS or not child or not isinstance(child[0], (bytes, list)):
                return
            yield from parts_in(child, f"{section}.{number}".lstrip("."))
        return
    if len(structure) < 7:
        return
    kind = f"{_text(structure[0])}/{_text(structure[1])}".lower()
    disposition = next((each for each in structure[8:] if isinstance(each, list) and len(each) == 2), [])
    facts = _pairs(structure[2]) | (_pairs(disposition[1]) if disposition else {})
    yield MailPart(
        section=section or "1",
        kind=kind,
        encoding=_text(structure[5]).lower(),
        charset=facts.get("charset", "utf-8").lower(),
        file_name=_decoded(
            next((facts[name] for name in ("filename", "filename*", "name", "name*") if name in facts), "")
        ),
        is_attachment=not kind.startswith("text/")
        or bool(disposition and _text(disposition[0]).lower() == "attachment"),
    )


def _pairs(values: Structure) -> dict[str, str]:
    if not isinstance(values, list):
        return {}
    return {_text(name).lower(): _text(value)[:300] for name, value in zip(values[::2], values[1::2], strict=False)}


def _text(value: Structure) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def text_part(parts: Sequence[MailPart]) -> MailPart | None:
    """Return the part that a person wrote: plain text where there is one."""
    texts = [part for part in parts if not part.is_attachment]
    return next((part for part in texts if part.kind == "text/plain"), texts[0] if texts else None)


def text_of(body: bytes, part: MailPart) -> str:
    """Return the text of a part whose beginning was fetched, without what it quotes."""
    if part.encoding == "base64":
        letters = re.sub(rb"[^A-Za-z0-9+/]", b"", body)
        body = binascii.a2b_base64(letters[: len(letters) // 4 * 4])
    elif part.encoding == "quoted-printable":
        body = quopri.decodestring(body)
    text = _in_charset(body, part.charset).replace("\r\n", "\n").replace("\x00", "")
    return own_text(_without_tags(text) if part.kind == "text/html" else text)


def _in_charset(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset if _CHARSET.fullmatch(charset.lower()) else "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def _decoded(value: str) -> str:
    """Return the text of a header's value (RFC 2047)."""
    try:
        pieces = decode_header(value[:MAX_VALUE_CHARS])
    except (ValueError, binascii.Error):
        return value
    return "".join(_in_charset(text, kind or "utf-8") if isinstance(text, bytes) else text for text, kind in pieces)


def _without_tags(text: str) -> str:
    pieces, at = [], 0
    while match := _HIDDEN_TEXT.search(text, at):
        pieces.append(text[at : match.start()])
        end = _HIDDEN_ENDS[match[1].lower()].search(text, match.end())
        at = end.end() if end else len(text)
    visible_text = "".join([*pieces, text[at:]])
    return unescape(_TAG.sub(" ", _BREAKS.sub("\n", visible_text)))


def own_text(text: str) -> str:
    """Return what the sender wrote: without quoted lines, the lines that announce them, and the signature."""
    lines: list[str] = []
    for line in text.split("\n"):
        if line.rstrip("\r") in ("-- ", "--") or _ORIGINAL.match(line):
            break
        if not line.startswith(">"):
            lines.append(line)
            continue
        while lines and not lines[-1].strip():
            lines.pop()
        if lines and _ATTRIBUTION.fullmatch(lines[-1]) and any(mark in lines[-1] for mark in "@0123456789"):
            del lines[-2 if lines[-1].startswith("<") else -1 :]  # a long one has two lines
    return "\n".join(lines).strip()
