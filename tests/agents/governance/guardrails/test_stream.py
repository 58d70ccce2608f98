import random

import pytest

from agents.governance.guardrails.scan import Scan
from agents.governance.guardrails.stream import MAX_HELD_CHARS, StreamRedactor
from config.definitions.guardrails.checks import Checks, PatternCheck
from config.redaction import REDACTED, Redactor
from config.redaction.redacted_data import Detection
from tests.agents.governance.guardrails.samples import JWT, KEYS, NAMED, PEM, PERSONAL, REGISTERED, redactor
from tests.hostile_text import SHAPES, cpu_s

PLAIN = Scan(Checks(), redactor())
STRICT = Scan(Checks(pii="redact", patterns=(PatternCheck(name="ticket", pattern=r"TICKET-\d{4,6}"),)), redactor())
SECRETS = {secret: secret for secret in (*KEYS, *REGISTERED)} | NAMED
DATA = [(kind, sample) for kind, samples in PERSONAL.items() for sample in samples] + [("ticket", "TICKET-20041")]
AROUND = (
    "I found {}, did you know?",
    pytest.param("{}", marks=pytest.mark.parity),
    pytest.param('é{{"a": "{}"}}\n', marks=pytest.mark.parity),
)
SEEDS = (*range(6), *(pytest.param(seed, marks=pytest.mark.parity) for seed in range(6, 80)))


def streamed(scan: Scan, *pieces: str) -> str:
    guard = StreamRedactor(scan)
    return "".join([*map(guard.add, pieces), guard.rest()])


def splits(text: str) -> list[tuple[str, ...]]:
    """Return the text cut in two at every place, into characters, and into threes."""
    return [(text[:at], text[at:]) for at in range(len(text) + 1)] + [
        tuple(text),
        tuple(text[at : at + 3] for at in range(0, len(text), 3)),
    ]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(("text", "secret"), SECRETS.items(), ids=[text[:12] for text in SECRETS])
def test_no_secret_leaks_wherever_it_is_split(text, secret, around):
    whole = around.format(text)
    expected = redactor().likely(whole)

    assert secret not in expected
    assert {streamed(PLAIN, *pieces) for pieces in splits(whole)} == {expected}


@pytest.mark.parametrize(
    "text",
    [
        "A basic understanding of bearer certificates, and basic functionality.",
        "Set password: required; api_key=YOUR_API_KEY, access_token: optional",
        "password = getpass2()\nclient_secret = os.environ['A1']\nauth_token = tokens[0]",
        "Authorization=required, see https://example.org:8080/a@b",
    ],
)
def test_words_after_a_word_and_program_texts_stay(text):
    for pieces in splits(text):
        assert streamed(PLAIN, *pieces) == text


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(("kind", "sample"), DATA)
def test_no_personal_data_leaks_wherever_it_is_split(kind, sample, around):
    whole = around.format(sample)
    expected, detections = STRICT.clean(whole)

    assert (expected, detections) == (around.format(REDACTED), [Detection(kind, "redact")])
    assert {streamed(STRICT, *pieces) for pieces in splits(whole)} == {expected}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_streamed_is_what_is_redacted_as_a_whole(seed):
    dice = random.Random(seed)
    words = [
        *SECRETS,
        *(sample for _, sample in DATA),
        "the",
        "sk",
        "-",
        "eyJ",
        "4111",
        "://",
        "@",
        "é",
        "bearer",
        "\n",
    ]
    whole = "".join(dice.choice(words) + dice.choice([" ", "  ", ", ", "\n"]) for _ in range(12))
    cuts = sorted(dice.choices(range(len(whole)), k=24))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    for scan in (PLAIN, STRICT):
        assert streamed(scan, *pieces) == scan.clean(whole)[0]


@pytest.mark.parametrize(
    "pieces", [("Hello", " there", ", how", " are"), ("The", " price", " is", " $", "2", "."), ("## ", "Kosten", ":\n")]
)
def test_usual_pieces_go_out_at_once(pieces):
    guard = StreamRedactor(Scan(Checks(), Redactor({})))

    assert [guard.add(piece) for piece in pieces[:2]] == list(pieces[:2])


def test_a_piece_is_held_only_from_where_a_secret_may_begin():
    guard = StreamRedactor(PLAIN)

    assert guard.add("the key is sk-") == "the key is "
    assert guard.add("proj") == ""
    assert guard.add(" or not") == "sk-proj or not"
    assert not guard.is_changed


def test_a_word_of_letters_that_began_before_is_no_secret():
    assert streamed(PLAIN, "de", "sk-lamp-with-a-very-long-name") == "desk-lamp-with-a-very-long-name"


def test_a_secret_that_the_end_of_the_text_cuts_off_is_redacted_where_it_is_recognised():
    assert streamed(PLAIN, "key ", PEM[:60]) == f"key {REDACTED}"
    assert streamed(PLAIN, "key sk-", "abc") == "key sk-abc"


def test_values_that_overlap_do_not_let_each_other_through():
    guard = Scan(Checks(), Redactor({}, ["abcsk-1", "second-secret"]))

    for pieces in splits("abcsk-12345678901234567 second-secret"):
        assert "sk-1" not in streamed(guard, *pieces)


def test_a_token_that_is_too_long_to_be_held_is_replaced_up_to_the_next_blank():
    text = ["see ", *["eyJ" + "a" * 997] * 40, " and", " go"]

    assert streamed(PLAIN, *text) == f"see {REDACTED} and go"
    assert streamed(PLAIN, "bearer", *[" " * 1000] * 20, "abcdefghijk", " end") == f"{REDACTED} end"


def test_prose_that_a_pattern_holds_for_long_is_shown_all_the_same():
    scan = Scan(Checks(patterns=(PatternCheck(name="any", pattern=".*secret.*"),)), redactor())
    line = "nothing of interest is said here " * 600
    guard = StreamRedactor(scan)

    pieces = [guard.add(line[at : at + 99]) for at in range(0, len(line), 99)]

    assert "".join(pieces) + guard.rest() == line
    assert any(pieces)
    assert streamed(scan, "one\nthe ", "sec", "ret is", " out\ntwo") == f"one\n{REDACTED}\ntwo"


def test_held_text_is_bounded():
    guard = StreamRedactor(PLAIN)
    for _ in range(100):
        guard.add("eyJ" * 400)
        assert len(guard._held) <= MAX_HELD_CHARS


def test_what_was_found_is_reported_before_it_goes_out():
    detections: list[Detection] = []
    guard = StreamRedactor(STRICT, detections.extend)
    guard.add(f"a {JWT} b jane@example.org")
    guard.rest()

    assert {detection.name for detection in detections} == {"secrets", "email"}


@pytest.mark.parametrize("text", ["\ud800", "a\ud800sk-" + "b" * 20, "\U0001f600" * 5, "\0", "￿ﬀK"])
def test_odd_characters_pass(text):
    for pieces in splits(text):
        assert streamed(STRICT, *pieces) == STRICT.clean(text)[0]


def test_a_letter_that_python_takes_for_another_does_not_hide_a_name():
    for pieces in splits("api\u212aey=abcdefgh1234 api_\u212aEY: abcdefgh1234"):
        assert "abcdefgh" not in streamed(PLAIN, *pieces)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scan", [PLAIN, STRICT], ids=["plain", "strict"])
def test_hostile_text_in_one_piece_ends_soon(scan, shape):
    text = SHAPES[shape](1 << 16)

    assert cpu_s(lambda text: streamed(scan, text), text) < 1


@pytest.mark.parity
def test_many_large_patterns_are_compiled_and_found_at_every_split():
    large = "".join(f"(?:{letter}[b-z]{{1,60}})" for letter in "acegikmo" * 2)
    checks = Checks(patterns=tuple(PatternCheck(name=f"p{i}", pattern=f"{large}#{i}!") for i in range(10, 20)))
    text = "a word " + "".join(letter + "xy" for letter in "acegikmo" * 2) + "#17! and more"

    for cut in range(len(text)):
        guard = StreamRedactor(Scan(checks, Redactor({})))
        assert guard.add(text[:cut]) + guard.add(text[cut:]) + guard.rest() == f"a word {REDACTED} and more"
