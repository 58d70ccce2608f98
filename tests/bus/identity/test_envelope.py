"""Signed envelopes: one that differs from what was signed in anything is refused, whatever it differs in."""

from __future__ import annotations

import hashlib
import hmac
import json
import unicodedata
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.identity.envelope import CallEnvelope, sign, verify, verify_golden_call_envelope
from bus.identity.errors import EnvelopeRefused
from config.errors import CallboardError
from config.settings.callers import parse_keys

SECRET = b"5d2f0c8a91b34e67d0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f7"
OTHER = b"0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"
FORMER = b"ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
KEYS = {"main": SECRET, "next": OTHER, "twin": SECRET}
NOW_S = 1764000000
NONCE = "lT2mVq0d9s3Kx8YbQ7nR4w"
VALUE = {"tool_name": "clock", "arguments": {"zone": "Zürich", "days": 1}}
BODY = json.dumps(VALUE, ensure_ascii=False).encode()
AUDIENCE, METHOD = "default/acme", "POST /execute"
HEAD = f'v1;kid="main";ts={NOW_S};nonce="{NONCE}"'


def tag(head: str, *, key: bytes = SECRET, audience: str = AUDIENCE, method: str = METHOD, body: bytes = BODY) -> str:
    """Return the signature as the documents describe it, without the code that is tested."""
    signed = f"{head}\n{audience}\n{method}\n".encode() + body
    return b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def signed(head: str = HEAD, **other: object) -> str:
    """Return an envelope with this beginning, signed as one who holds the key would."""
    return f"{head};sig=:{tag(head, **other)}:"  # type: ignore[arg-type]  # passed on


TAG = tag(HEAD)
GOOD = signed()


@dataclass(frozen=True, kw_only=True)
class Presented:
    """An envelope, and the call that it comes with."""

    name: str
    text: str = GOOD
    body: bytes = BODY
    audience: str = AUDIENCE
    method: str = METHOD
    now_s: float = NOW_S
    keys: Mapping[str, bytes] = field(default_factory=lambda: KEYS)

    def verify(self) -> CallEnvelope:
        call = {"audience": self.audience, "method": self.method, "body": self.body}
        return verify(self.text, keys=self.keys, now_s=self.now_s, **call)  # type: ignore[arg-type]  # of several types


RIGHT = Presented(name="untouched")


def _signatures() -> Iterator[Presented]:
    start = len(f"{HEAD};sig=:")
    for at, letter in enumerate(TAG):
        for other in sorted({"A", "z", "0", "+", "=", "é", letter.swapcase()} - {letter}):
            position = start + at
            yield Presented(name=f"signature {at} {other!a}", text=GOOD[:position] + other + GOOD[position + 1 :])
        yield Presented(name=f"signature cut at {at}", text=f"{HEAD};sig=:{TAG[:at]}:")
    for bit in range(256):
        changed = bytearray(b64decode(TAG))
        changed[bit // 8] ^= 1 << bit % 8
        yield Presented(name=f"signature bit {bit}", text=f"{HEAD};sig=:{b64encode(changed).decode()}:")


def _characters() -> Iterator[Presented]:
    for at, letter in enumerate(GOOD):
        yield Presented(name=f"character {at} dropped", text=GOOD[:at] + GOOD[at + 1 :])
        yield Presented(name=f"character {at} doubled", text=GOOD[:at] + letter + GOOD[at:])
        yield Presented(name=f"character {at} replaced", text=GOOD[:at] + chr(ord(letter) ^ 1) + GOOD[at + 1 :])
        yield Presented(name=f"cut at {at}", text=GOOD[:at])


def _bodies() -> Iterator[Presented]:
    for bit in range(8 * len(BODY)):
        changed = bytearray(BODY)
        changed[bit // 8] ^= 1 << bit % 8
        yield Presented(name=f"body bit {bit}", body=bytes(changed))
    text = BODY.decode()
    spellings = {
        "no spaces": json.dumps(VALUE, ensure_ascii=False, separators=(",", ":")),
        "a space more": text + " ",
        "a line end": text + "\n",
        "a space in front": " " + text,
        "a byte order mark": "\ufeff" + text,
        "order of keys": json.dumps(dict(reversed(VALUE.items())), ensure_ascii=False),
        "1.0": text.replace("1}", "1.0}"),
        "1e0": text.replace("1}", "1e0}"),
        "unicode escape": json.dumps(VALUE),
        "NFD": unicodedata.normalize("NFD", text),
        "a field twice": text[:-1] + ', "tool_name": "shell"}',
        "another tool": text.replace("clock", "shell"),
        "twice": text * 2,
        "half": text[: len(text) // 2],
        "empty": "",
    }
    assert all(spelling != text for spelling in spellings.values())
    for name, spelling in spellings.items():
        yield Presented(name=f"body: {name}", body=spelling.encode())
    yield Presented(name="body: UTF-16", body=text.encode("utf-16"))


def _calls() -> Iterator[Presented]:
    for audience in ("default/zeta", "other/acme", "default", "default/", "Default/acme", "default/acme/", "", "*"):
        yield Presented(name=f"audience {audience!r}", audience=audience)
    for method in (
        "GET /execute",
        "post /execute",
        "POST /execute/",
        "POST //execute",
        "POST /v1/runs",
        "tools/call",
        "",
    ):
        yield Presented(name=f"method {method!r}", method=method)
    # Without the check of line ends the parts of a call could be moved into each other.
    yield Presented(name="audience into method", audience="default", method=f"acme\n{METHOD}")
    joined = signed(audience="a", method="b\nc")
    yield Presented(name="method into audience", text=joined, audience="a\nb", method="c")
    yield Presented(name="method into body", text=signed(), method=f"{METHOD}\n{BODY.decode()}", body=b"")
    first = signed(method=f"{METHOD}\nx", body=b"")
    yield Presented(name="a method of two lines", text=first, method=f"{METHOD}\nx", body=b"")


def _times() -> Iterator[Presented]:
    for away_s in (301, 300.001, 600, 3600, 86400 * 365, float("inf"), float("nan")):
        yield Presented(name=f"{away_s} s late", now_s=NOW_S + away_s)
        yield Presented(name=f"{away_s} s early", now_s=NOW_S - away_s)
    texts = "0 -1 1 176400000 17640000000 01764000000 1764000000.0 1764000000e0 0x6924f300".split()
    texts += ["1e9", "1e309", "NaN", "Infinity", "inf"]
    texts += [
        "",
        " 1764000000",
        "+1764000000",
        "1_764_000_000",
        "soon",
        "null",
        '"1764000000"',
        "١٧٦٤٠٠٠٠٠٠",
        "17640000０0",
    ]
    texts += ["-1764000000", "9" * 10, "9" * 400, "1764000000 ", "1764000000\n", "true"]
    for text in texts:
        yield Presented(name=f"time {text[:20]!a}", text=signed(HEAD.replace(str(NOW_S), text)))


def _keys() -> Iterator[Presented]:
    yield Presented(name="signed by another key", text=signed(key=OTHER))
    yield Presented(name="another key's id", text=GOOD.replace("main", "next"))
    yield Presented(name="another id of the same secret", text=GOOD.replace("main", "twin"))
    yield Presented(name="an unknown key", text=signed(HEAD.replace("main", "none")))
    former = signed(HEAD.replace("main", "old"), key=FORMER)
    yield Presented(name="a former key after its rotation", text=former)
    yield Presented(name="a former secret of the present id", text=signed(key=FORMER))
    yield Presented(name="no keys", keys={})
    for key in (
        b"",
        b"\0" * 32,
        b"main",
        b"secret",
        SECRET.upper(),
        SECRET + b"\n",
        SECRET[:-1],
        bytes.fromhex(SECRET.decode()),
    ):
        yield Presented(name=f"key {key[:8]!r} {len(key)}", text=signed(key=key))
    for key_id in ("", "MAIN", "main ", "ma in", 'main"', "main;", "x" * 65, "mäin", "../main", "main\0", "*"):
        everything = {**KEYS, key_id: SECRET}
        yield Presented(
            name=f"id {key_id[:10]!a}", text=signed(HEAD.replace("main", key_id)), keys=everything | {"MAIN": OTHER}
        )
    for nonce in (
        "",
        "short",
        "x" * 21,
        "x" * 65,
        "x" * 21 + " ",
        "x" * 21 + "é",
        "x" * 21 + "\n",
        "x" * 21 + "+",
        "x" * 21 + '"',
    ):
        yield Presented(name=f"nonce {nonce[-3:]!a} {len(nonce)}", text=signed(HEAD.replace(NONCE, nonce)))


def _spellings() -> Iterator[Presented]:
    raw = b64decode(TAG)
    line = f"{HEAD}\n{AUDIENCE}\n{METHOD}\n".encode() + BODY
    tags = {
        "hex": raw.hex(),
        "capital hex": raw.hex().upper(),
        "without padding": TAG[:-1],
        "more padding": TAG + "=",
        "small letters": TAG.lower(),
        "capital letters": TAG.upper(),
        "truncated to 16 bytes": b64encode(raw[:16]).decode(),
        "truncated to 31 bytes": b64encode(raw[:31]).decode(),
        "a byte more": b64encode(raw + b"\0").decode(),
        "reversed": b64encode(raw[::-1]).decode(),
        "zeros": b64encode(b"\0" * 32).decode(),
        "none": "",
        "SHA-256 without a key": b64encode(hashlib.sha256(line).digest()).decode(),
        "SHA-256 of key and text": b64encode(hashlib.sha256(SECRET + line).digest()).decode(),
        "HMAC-SHA1": b64encode(hmac.digest(SECRET, line, "sha1")).decode(),
        "HMAC-SHA512": b64encode(hmac.digest(SECRET, line, "sha512")).decode(),
        "HMAC-SHA512 cut": b64encode(hmac.digest(SECRET, line, "sha512")[:32]).decode(),
        "HMAC of the body alone": b64encode(hmac.digest(SECRET, BODY, "sha256")).decode(),
        "HMAC of the parsed body": tag(HEAD, body=json.dumps(VALUE).encode()),
        "HMAC in hex, encoded": b64encode(raw.hex().encode()).decode(),
        "beyond ASCII": "é" * 44,
        "of a line end": TAG + "\n",
    }
    for name, spelling in tags.items():
        yield Presented(name=f"tag: {name}", text=f"{HEAD};sig=:{spelling}:")
    if urlsafe_b64encode(raw).decode() != TAG:
        yield Presented(name="tag: base64url", text=f"{HEAD};sig=:{urlsafe_b64encode(raw).decode()}:")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for more in (1, 2, 3):  # the last letter has two bits that mean nothing
        same = TAG[:-2] + letters[letters.index(TAG[-2]) + more] + "="
        assert b64decode(same) == raw
        yield Presented(name=f"tag: other spelling {more}", text=f"{HEAD};sig=:{same}:")


def _forms() -> Iterator[Presented]:
    version, key_id, time, nonce = HEAD.split(";")
    heads = {
        "alg none": f"{HEAD};alg=none",
        "alg none at the start": f"{version};alg=none;{key_id};{time};{nonce}",
        "alg HS256": f'{HEAD};alg="HS256"',
        "none for the version": f"none;{key_id};{time};{nonce}",
        "v2": f"v2;{key_id};{time};{nonce}",
        "V1": f"V1;{key_id};{time};{nonce}",
        "no version": f"{key_id};{time};{nonce}",
        "no key id": f"{version};{time};{nonce}",
        "no time": f"{version};{key_id};{nonce}",
        "no nonce": f"{version};{key_id};{time}",
        "two key ids": f"{version};{key_id};{key_id};{time};{nonce}",
        "two times": f"{version};{key_id};{time};{time};{nonce}",
        "two nonces": f"{HEAD};{nonce}",
        "another order": f"{version};{time};{key_id};{nonce}",
        "a space": HEAD.replace(";", "; "),
        "a comma": HEAD.replace(";", ","),
        "no quotes": HEAD.replace('"', ""),
        "single quotes": HEAD.replace('"', "'"),
        "capital names": HEAD.replace("kid", "KID"),
        "an unknown member": f"{HEAD};x=1",
        "an expiry": f"{HEAD};exp=9999999999",
        "an empty context": f"{HEAD};ctx=::",
        "a context that is no base64": f"{HEAD};ctx=:A:",
        "a context of another spelling": f"{HEAD};ctx=:QR==:",
        "two contexts": f"{HEAD};ctx=:QQ==:;ctx=:Qg==:",
        "a context before the nonce": f"{version};{key_id};{time};ctx=:QQ==:;{nonce}",
        "a long context": f"{HEAD};ctx=:{b64encode(b'x' * 4000).decode()}:",
        "an escape": HEAD.replace("main", "m\\ain"),
    }
    for name, head in heads.items():
        yield Presented(name=f"form: {name}", text=signed(head))
    other = signed(HEAD.replace(NONCE, "x" * 22))
    texts = {
        "empty": "",
        "a space": " ",
        "a comma": ",",
        "none": "none",
        "alg:none": "alg:none",
        "a JWT of alg none": "eyJhbGciOiJub25lIn0.e30.",
        "Stripe's": f"t={NOW_S},v1={b64decode(TAG).hex()}",
        "Standard Webhooks'": f"v1,{TAG}",
        "JSON": json.dumps({"kid": "main", "sig": TAG}),
        "a space in front": " " + GOOD,
        "a space behind": GOOD + " ",
        "a tab": GOOD + "\t",
        "a line end": GOOD + "\n",
        "NUL": GOOD + "\0",
        "quotes": f'"{GOOD}"',
        "two": f"{GOOD},{other}",
        "two with a space": f"{GOOD}, {other}",
        "the same twice": f"{GOOD},{GOOD}",
        "two lines": f"{GOOD}\n{other}",
        "a comma behind": f"{GOOD},",
        "a member behind": f"{GOOD};x=1",
        "alg none behind": f"{GOOD};alg=none",
        "a second signature": f"{GOOD};sig=:{TAG}:",
        "a signature in front": f"sig=:{TAG}:;{HEAD}",
        "no colons": f"{HEAD};sig={TAG}",
        "quotes for colons": f'{HEAD};sig="{TAG}"',
        "full-width letters": GOOD.translate({ord(c): ord(c) + 0xFEE0 for c in "v1main"}),
        "a megabyte": "v1;" * 350_000,
        "a megabyte of context": f"{HEAD};ctx=:{'A' * 2**20}:;sig=:{TAG}:",
        "lone surrogates": GOOD + "\udc80",
        "in capitals": GOOD.upper(),
        "as bytes print": repr(GOOD.encode()),
    }
    for name, text in texts.items():
        yield Presented(name=f"text: {name}", text=text)


TAMPERED = {
    part.__name__: list(part())
    for part in (_signatures, _characters, _bodies, _calls, _times, _keys, _spellings, _forms)
}
"""Presented envelopes of which none may be accepted, in groups: as tests of their own they would take twice as long."""


def test_there_are_more_than_a_thousand_and_no_two_are_one() -> None:
    names = [envelope.name for part in TAMPERED.values() for envelope in part]

    assert len(set(names)) == len(names) > 1000


@pytest.mark.parametrize("part", TAMPERED)
def test_a_tampered_envelope_is_refused(part: str) -> None:
    for presented in TAMPERED[part]:
        with pytest.raises(EnvelopeRefused) as refused:
            presented.verify()

        assert (refused.value.code, refused.value.status) == ("envelope_refused", 401), presented.name
        assert SECRET.decode() not in str(refused.value) + str(refused.value.facts), presented.name


@given(
    text=st.text()
    | st.from_regex(r"v1;kid=\"[a-z]{4}\";ts=[0-9]{10};nonce=\"[A-Za-z0-9_-]{22}\";sig=:[A-Za-z0-9+/]{43}=:"),
    body=st.binary(max_size=50),
)
def test_no_text_is_accepted_that_was_not_signed_and_none_is_a_defect(text: str, body: bytes) -> None:
    with pytest.raises(EnvelopeRefused):
        replace(RIGHT, text=text, body=body).verify()


@pytest.mark.parametrize("away_s", [0, 299, 300, -300, 0.5])
def test_one_that_nothing_was_done_to_is_accepted_within_the_window(away_s: float) -> None:
    envelope = replace(RIGHT, now_s=NOW_S + away_s).verify()

    assert envelope == CallEnvelope(key_id="main", time_s=NOW_S, nonce=NONCE)


def test_what_openssl_signs_is_accepted() -> None:
    """The signatures are those of ``openssl dgst -sha256 -hmac KEY -binary | base64``."""
    body = '{"tool_name": "clock", "arguments": {"zone": "Zürich"}}'.encode()
    text = f"{HEAD};sig=:KwPEoahoQIQx43cFsduzZls9wTfw+hlg4raDYD1ar2A=:"
    head = f"{HEAD};ctx=:eyJ0cmFjZV9pZCI6ICI0YmY5MiJ9:"
    other = f"{head};sig=:WISpY37lod1RfjrhyHmTD+bX6gYdE0V+iWDLf5iPbvs=:"

    accepted = replace(RIGHT, text=text, audience="default/default", body=body).verify()
    with_context = replace(RIGHT, text=other, audience="default/default", method="tools/call", body=b"").verify()

    assert accepted.context == b""
    assert with_context.context == b'{"trace_id": "4bf92"}'


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        (b"\x0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        (b"\xaa" * 20, b"\xdd" * 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
        (
            b"\xaa" * 131,
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
    ],
)
def test_the_function_gives_the_values_of_rfc_4231(key: bytes, text: bytes, expected: str) -> None:
    assert hmac.digest(key, text, "sha256").hex() == expected


# --- signing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("context", [b"", b"x", b'{"trace_id": "4bf92"}', bytes(range(256)), b"x" * 2000])
@pytest.mark.parametrize("body", [b"", b"{}", BODY, bytes(range(256)), b"x" * 2**21])
def test_what_is_signed_is_verified_and_carries_its_context(body: bytes, context: bytes) -> None:
    call = {"audience": AUDIENCE, "method": METHOD}
    text = sign(body, key_id="next", key=OTHER, time_s=NOW_S, nonce=NONCE, context=context, **call)

    verification = replace(RIGHT, text=text, body=body).verify()

    assert (verification.key_id, verification.nonce, verification.context) == ("next", NONCE, context)


@pytest.mark.parametrize(
    "wrong", [{"key_id": "a b"}, {"nonce": "short"}, {"time_s": 5}, {"audience": "a\nb"}, {"method": "a\nb"}]
)
def test_what_could_not_be_verified_is_not_signed(wrong: dict[str, object]) -> None:
    call = {"key_id": "main", "key": SECRET, "time_s": NOW_S, "nonce": NONCE, "audience": AUDIENCE, "method": METHOD}

    with pytest.raises(ValueError, match="not one of an envelope"):
        sign(BODY, **(call | wrong))  # type: ignore[arg-type]  # of several types


# --- use ---------------------------------------------------------------------------------------


class MemoryNonces:
    """Remembers in this process."""

    def __init__(self) -> None:
        self.used: set[tuple[str, str]] = set()

    def use_up(self, envelope: CallEnvelope) -> None:
        if (envelope.key_id, envelope.nonce) in self.used:
            raise EnvelopeRefused("used")
        self.used.add((envelope.key_id, envelope.nonce))


class NoAnswer:
    """A store that does not answer."""

    def use_up(self, envelope: CallEnvelope) -> None:
        raise CallboardError("away")


def golden(presented: Presented, nonces: MemoryNonces | NoAnswer, **other: object) -> CallEnvelope:
    call = {"text": presented.text, "keys": KEYS, "audience": AUDIENCE, "method": METHOD, "now_s": NOW_S}
    return verify_golden_call_envelope(nonces=nonces, **(call | {"body": presented.body} | other))  # type: ignore[arg-type]


def test_an_envelope_is_used_once() -> None:
    nonces = MemoryNonces()
    golden(RIGHT, nonces)

    for presented in (RIGHT, replace(RIGHT, text=signed(body=b"{}"), body=b"{}")):
        with pytest.raises(EnvelopeRefused, match="used before"):
            golden(presented, nonces)


def test_only_a_valid_envelope_uses_up_its_nonce() -> None:
    nonces = MemoryNonces()
    for presented in [part[0] for part in TAMPERED.values()]:
        with pytest.raises(EnvelopeRefused):
            golden(replace(presented, body=b"other"), nonces)

    assert nonces.used == set()


def test_a_call_without_an_envelope_is_refused() -> None:
    with pytest.raises(EnvelopeRefused, match="no valid signed envelope"):
        golden(RIGHT, MemoryNonces(), text=None)


def test_a_store_that_does_not_answer_lets_no_call_pass() -> None:
    with pytest.raises(CallboardError, match="away"):
        golden(RIGHT, NoAnswer())


def test_only_who_holds_the_key_learns_why() -> None:
    def message(presented: Presented) -> str:
        with pytest.raises(EnvelopeRefused) as refused:
            presented.verify()
        return str(refused.value)

    guesses = {
        message(replace(RIGHT, text=text)) for text in ("", "v1", signed(key=OTHER), signed(HEAD.replace("main", "x")))
    }

    assert len(guesses) == 1
    assert "450 s before the server's" in message(replace(RIGHT, now_s=NOW_S + 450))
    assert "450 s after the server's" in message(replace(RIGHT, now_s=NOW_S - 450))
    late_guess = replace(RIGHT, text=signed(key=OTHER), now_s=NOW_S + 450)
    assert {message(late_guess)} == guesses


# --- keys --------------------------------------------------------------------------------------


def test_keys_have_ids_and_a_secret_alone_is_the_default_one() -> None:
    assert parse_keys(f"main:{SECRET.decode()}, old:{FORMER.decode()}") == {"main": SECRET, "old": FORMER}
    assert parse_keys(OTHER.decode()) == {"default": OTHER}
    assert parse_keys("a/b+c=" * 6) == {"default": b"a/b+c=" * 6}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ",",
        "main:",
        ":" + "x" * 32,
        "x" * 31,
        "main:" + "x" * 31,
        "main:" + "x" * 513,
        "main:" + "x" * 32 + ",",
        "main:" + "x" * 32 + ",main:" + "y" * 32,
        "x" * 32 + "," + "y" * 32,
        "ma in:" + "x" * 32,
        "main:" + "x" * 32 + ":y",
        "main:" + "ü" * 32,
        "main:" + "x x" * 12,
        "x" * 65 + ":" + "y" * 32,
    ],
)
def test_other_keys_are_refused_without_repeating_them(text: str) -> None:
    with pytest.raises(ValueError, match="key") as refused:
        parse_keys(text)

    assert not any(run in str(refused.value) for run in ("xxx", "yyy", "ü", "x x"))
