"""A process recognises secrets that it does not have, and nothing else is taken for one."""

from __future__ import annotations

import time

import pytest

from config.redaction.provider_keys import without_keys
from config.redaction.redactor import DIGESTS_HELD, REDACTED, Redactor
from config.redaction.secret_digests import MIN_CHARS

SECRET = "Zq8vT1mKx4Lw9RbN"
ODD = "p&ss/w0rd+with=marks!"
ENVIRONMENT = {"MISTRAL_API_KEY": SECRET, "SHOP_PASSWORD": ODD, "SHORT_TOKEN": "abc123def456"}


@pytest.fixture
def web() -> Redactor:
    """What the web process redacts with."""
    return Redactor(without_keys(ENVIRONMENT))


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "use {} now",
        "k={}&x",
        '"{}"',
        "({}).",
        "a-b-{}-c",
        "{0} {0}",
        "key_{}",
        "Zq8vT1mKx4Lw9RbX {}",
    ],
)
@pytest.mark.parametrize("secret", [SECRET, ODD])
def test_what_the_parent_holds_is_replaced(web: Redactor, text: str, secret: str) -> None:
    assert web.known(text.format(secret)) == text.format(REDACTED)


def test_its_spellings_are_replaced(web: Redactor) -> None:
    assert web.known("x cCZzcy93MHJkK3dpdGg9bWFya3Mh y p%26ss%2Fw0rd%2Bwith%3Dmarks%21") == f"x {REDACTED} y {REDACTED}"


@pytest.mark.parametrize("text", [SECRET[:-1], f"{SECRET}x", SECRET.lower(), "abc123def456", "a-" * 50, ""])
def test_what_only_resembles_it_stays(web: Redactor, text: str) -> None:
    assert web.known(text) == text


def test_the_process_gets_no_value_and_another_key_at_each_start() -> None:
    first, second = without_keys(ENVIRONMENT), without_keys(ENVIRONMENT)

    assert not [value for value in ENVIRONMENT.values() if value in str(first)]
    assert len("abc123def456") < MIN_CHARS
    digests = [set(environment[DIGESTS_HELD].split()) for environment in (first, second)]
    assert digests[0].isdisjoint(digests[1])
    assert without_keys({"LANG": "C"})[DIGESTS_HELD] == ""


@pytest.mark.parity
@pytest.mark.parametrize("unit", ["a", "-", "a-", f"{SECRET[:-1]}x ", f"{SECRET} ", "p&ss/w0rd+with=marks? "])
def test_a_hostile_text_takes_time_by_its_length(unit: str) -> None:
    secrets = {f"NO{number}_API_KEY": f"{SECRET}{'-x' * number}" for number in range(20)}
    web, times = Redactor(without_keys(secrets)), list[float]()
    for size in (2**14, 2**17):
        text = unit * (size // len(unit))
        tries = []
        for _ in range(3):
            began = time.process_time()
            web.known(text)
            tries.append(time.process_time() - began)
        times.append(min(tries))

    assert times[1] < 24 * times[0] + 0.1, "eight times the length"
