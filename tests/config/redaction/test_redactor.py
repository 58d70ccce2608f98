import base64
import json
from pathlib import Path

import pytest

from config.redaction import redactor as redaction
from config.redaction.redactor import (
    MAX_CHARS,
    REDACTED,
    Redactor,
    forget,
    own_redactor,
    redact,
    redact_start,
    register_secrets,
    set_secrets,
)

OPENAI = "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12Mn34Op56"
ANTHROPIC = "sk-ant-api03-Ab12Cd34Ef56Gh78Ij90_Kl12-Mn34"
AWS_ID = "AKIAIOSFODNN7EXAMPLE"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\nq2w3e4r5t6\n-----END RSA PRIVATE KEY-----"
GITHUB = "ghp_" + "a1B2" * 9
BEGINNINGS = "rk- pk_ ASIA gho_ github_pat_ glpat- xoxb- AIza hf_ gsk_ npm_ pypi- xai- 123456789:AA".split()
SEALED_PEM = PEM.replace("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0A1B2C\n\n", 1)
SECRETS = [OPENAI, ANTHROPIC, AWS_ID, JWT, PEM, GITHUB, *(f"{start}{'A1' * 8}" for start in BEGINNINGS[:3])]
SECRETS += [f"{start}{'aB3' * 11}" for start in BEGINNINGS[3:]]


@pytest.fixture
def plain() -> Redactor:
    return Redactor({})


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "around", ["{}", "key={} was refused", '{{"api_key": "{}"}}', "https://h/v1?key={}&a=1", "x\n{}\ny", "({}), '{}'"]
)
def test_keys_of_the_usual_forms_are_gone_wherever_they_stand(plain, secret, around):
    text = plain(around.format(secret, secret))

    assert secret not in text
    assert REDACTED in text


@pytest.mark.parametrize("secret", [OPENAI, ANTHROPIC, AWS_ID, PEM, SEALED_PEM])
def test_their_base64_is_gone_too(plain, secret):
    encoded = base64.b64encode(secret.encode()).decode()

    assert encoded not in plain(f"blob {encoded} end")


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        (f"Authorization: Bearer {'t0k3n' * 5}", "t0k3n" * 5),
        ("authorization: bearer abcdef012345", "abcdef012345"),
        ("GET /v1/runs?jwt=abcdef012345&a=b", "abcdef012345"),
        ("GET /v1/runs?bearer=abcdef012345", "abcdef012345"),
        ("GET /v1/runs?authorization=abcdef012345", "abcdef012345"),
        ("GET /v1/runs?Authorization=Bearer%20abcdef012345", "abcdef012345"),
        ("GET /v1/runs?authorization=Bearer+abcdef012345", "abcdef012345"),
        ("authorization=Bearer abcdef012345", "abcdef012345"),
        ("https://h/mcp?token=abcdefghijklmnop1234567890", "abcdefghijklmnop1234567890"),
        ("https://h/mcp?a=b&Token=abcdefghijkl#top", "abcdefghijkl"),
        ("https://h/mcp?a=b&amp;id_token=abcdefghijkl", "abcdefghijkl"),
        (r"https://h/mcp?a=b\u0026secret=hunter2", "hunter2"),
        ("https://h/#refresh_token=abcdefghijkl", "abcdefghijkl"),
        ("https://h/mcp?sig=abc%2Bdefghijkl&se=2030", "abc%2Bdefghijkl"),
        ("https://h/mcp?signature=abcdefghijkl", "abcdefghijkl"),
        ("https://h/mcp?pwd=abcdefghijkl", "abcdefghijkl"),
        ("https://h/a?X-Amz-Signature=fe5f80f77d5fa3be&x=y", "fe5f80f77d5fa3be"),
        ("https://h/mcp?key=abcdefghijklmnop1234567890", "abcdefghijklmnop1234567890"),
        ("GET /v1/runs?a=%2563bk_0123456789abcdef0", "0123456789abcdef0"),
        ("GET /v1/runs?a=cbk%5F0123456789abcdef0", "0123456789abcdef0"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="),
        ("x-api-key: 0123456789abcdef", "0123456789abcdef"),
        ("redis://:hunter2@host:6379/0", "hunter2"),
        ("postgresql+psycopg://me:s3cr%40t@db/callboard", "s3cr%40t"),
        ('{"password": "correct horse"}', "correct"),
        ("OPENAI_API_KEY=abcdef0123456789", "abcdef0123456789"),
        (f"aws_secret_access_key = {AWS_SECRET}", AWS_SECRET),
        ("client_secret='q1w2e3r4t5'", "q1w2e3r4t5"),
        ("-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBg", "MIIEvQIBADANBg"),
    ],
)
def test_what_a_word_calls_a_secret_is_gone_and_the_word_stays(plain, line, secret):
    text = plain(line)

    assert secret not in text
    assert REDACTED in text


def test_a_cut_or_escaped_pem_block_leaks_nothing(plain):
    text = plain("key -----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIrYSSNQFaA2Hwf1duRSxKt")

    assert "MHcCAQ" not in text


def test_values_of_variables_named_like_secrets_are_gone_whatever_their_form():
    own = Redactor({"ACME_API_KEY": "plain-looking-value", "DB_PASSWORD": "swordfish1", "HOME": "/home/another"})

    text = own("plain-looking-value swordfish1 /home/another " + base64.b64encode(b"swordfish1").decode())

    assert text == f"{REDACTED} {REDACTED} /home/another {REDACTED}"


def test_short_values_are_left_alone_because_they_are_words():
    assert Redactor({"PIN_TOKEN": "cat"})("the cat sat") == "the cat sat"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a plain sentence",
        "https://example.org/a:b@c is no password?",
        "the token was late",
        "skip-the-line",
        "17 * 23 = 391",
        "password",
        "desk-lamp-with-a-very-long-name",
        "run_01JD sk",
        "bearer of news",
        "http://127.0.0.1:8000/v1/runs",
        "https://h/list?key=price_descending&page_token=CAUQAA1234&sort_key=created_at2",
        "https://h/browse?key=PROJ-1234&token={token}&secret=${SECRET}&sig=<your-sig>&token=%s",
        "https://h/list?tokens=12345678&signal=abcdefgh1&passage=abcdefgh1",
        "f(x)&token=a; is it late? token=lateness",
    ],
)
def test_plain_text_comes_back_as_it_was(plain, text):
    assert plain(text) == text


def test_redacting_twice_changes_nothing(plain):
    once = plain(" ".join(SECRETS) + " password=abcdefgh redis://:pw@h/0")

    assert plain(once) == once


def test_this_process_reads_its_environment_once(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "zzz-yyy-xxx-www")
    forget()
    try:
        assert redact("zzz-yyy-xxx-www") == REDACTED
    finally:
        monkeypatch.undo()
        forget()


HOSTILE = [
    "sk-" * 70_000,
    "-----BEGIN " * 20_000,
    "://" * 70_000,
    "a" * 200_000 + "://",
    "password " * 20_000,
    "eyJ" * 70_000,
    "x-api-key" * 20_000,
    "-" * 200_000 + "token",
    " " * 200_000 + "secret=",
    "?token=" * 30_000,
    "&key=" * 40_000,
    "?key=" + "a" * 200_000,
    "&amp;" * 40_000,
]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_of_200_kb_ends(plain, hostile):
    assert plain(hostile) is not None  # a quadratic pattern would take minutes, and the time limit stops the test


def test_a_registered_secret_is_gone_whatever_its_form_and_name():
    register_secrets(["quite plain words", "short"])

    assert "plain" not in redact('said "quite plain words", quite%20plain%20words and ' + "cXVpdGUgcGxhaW4gd29yZHM=")
    assert redact("short") == "short"


@pytest.fixture
def owners():
    yield "one", "other"
    set_secrets("one", ())
    set_secrets("other", ())


def test_an_owner_takes_its_own_values_back(owners):
    first_owner, other = owners
    register_secrets(["registered words"])
    set_secrets(first_owner, ["registered words", "words of both", "words of one", "short"])
    set_secrets(other, ["words of both"])
    assert (
        redact("registered words, words of both, words of one, short") == f"{REDACTED}, {REDACTED}, {REDACTED}, short"
    )

    set_secrets(first_owner, ["newer words of one"])

    sentence = "registered words, words of both, words of one, newer words of one"
    assert redact(sentence) == f"{REDACTED}, {REDACTED}, words of one, {REDACTED}"
    set_secrets(other, ())
    assert redact("words of both") == "words of both"


def test_values_that_stay_the_same_keep_the_redactor(owners):
    set_secrets(owners[0], ["words of one"])
    before = own_redactor()

    set_secrets(owners[0], ["words of one"])

    assert own_redactor() is before


def test_a_value_that_comes_while_a_redactor_is_made_is_not_missed(monkeypatch, owners):
    def made_slowly(environment, registered):
        redactor = Redactor(environment, registered)
        set_secrets(owners[0], ["words in between"])  # as another thread does
        return redactor

    monkeypatch.setattr(redaction, "Redactor", made_slowly)
    forget()
    redact("the first text")

    assert redact("words in between") == REDACTED


def test_passwords_of_addresses_are_secrets_in_any_variable():
    own = Redactor({"SOMEWHERE": "amqp://me:hunter%402secret@host/x?sslkey=abcdefgh", "PLAIN": "http://host/path"})

    assert "hunter" not in own("it said hunter@2secret and hunter%402secret")
    assert own("http://host/path") == "http://host/path"


def test_the_start_of_a_text_holds_no_part_of_a_secret():
    register_secrets(["0123456789" * 5])

    assert "012" not in redact_start("x" * 95 + "0123456789" * 5, 100)
    assert len(redact_start("x" * 10_000_000, 100)) == 100


def test_a_text_of_any_length_is_cut_before_it_is_examined():
    assert redact("x" * 1_000_000).endswith("more characters)")


@pytest.mark.parametrize("before", ["x" * (MAX_CHARS - 10), "x" * (MAX_CHARS + 8182) + "\n"])
def test_a_long_text_is_not_cut_inside_a_secret(before):
    own = Redactor({"ACME_TOKEN": "0123456789" * 5})

    output = own(before + "0123456789" * 5 + "y" * 20_000)

    assert "012" not in output.rpartition("… (")[0]


def test_no_part_of_a_secret_moves_up_to_the_limit_where_another_became_shorter():
    own = Redactor({"ACME_TOKEN": "0123456789" * 5})
    token = "eyJ" + "a" * 4200 + ".eyJ" + "b" * 4200 + ".c "

    output = own.start(
        f"broken: {token}{'x' * (400 + own.margin_chars - len(token) - 18)}{'0123456789' * 5} and more", 400
    )

    assert output.startswith("broken: [redacted]")
    assert "012" not in output


def test_a_secret_is_found_as_json_writes_it_and_a_short_spelling_is_no_secret():
    own = Redactor({}, ['pässword\n\tof "mine"', "%41%42%43"])

    assert "mine" not in own(json.dumps('it said pässword\n\tof "mine"')) + own('pässword\\n\\tof \\"mine\\"')
    assert own("ABC") == "ABC"


@pytest.mark.parametrize("secret", ["/XalrFUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY", "./abcd1234efgh", "~abcd1234efgh"])
def test_a_secret_that_looks_like_a_path_is_redacted(secret: str) -> None:
    own = Redactor({"AWS_SECRET_ACCESS_KEY": secret})

    assert own(f"boom {secret}") == "boom [redacted]"


def test_the_path_of_a_file_with_a_secret_stays(tmp_path: Path) -> None:
    there, missing = str(tmp_path), "/run/secrets/not-here"
    own = Redactor(
        {"TLS_KEY": there, "CLIENT_SECRET_FILE": missing, "SECRET_DIR": missing, "KEYS_SECRET_PATH": missing}
    )

    assert own(f"{there} {missing}") == f"{there} {missing}"
