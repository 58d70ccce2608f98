"""The form of API keys: recognised by scanners, and refused without a query where no deployment made it."""

from __future__ import annotations

import re
import string

import pytest

from bus.identity.credentials.key_form import KeyForm, random_text
from config.redaction import REDACTED, redact

FORM = KeyForm(lambda: "5e" * 32)
OTHER = KeyForm(lambda: "0f" * 32)


def test_a_key_has_its_id_and_a_checksum() -> None:
    key_id, key = FORM.make()

    assert re.fullmatch(rf"cbk_{key_id}_[0-9A-Za-z]{{36}}", key)
    assert FORM.id_of(key) == key_id
    assert FORM.make() != FORM.make()


def test_every_changed_character_is_noticed_without_a_query() -> None:
    _, key = FORM.make()
    letters = string.ascii_letters + string.digits

    changed = [
        key[:at] + next(each for each in letters if each != letter) + key[at + 1 :] for at, letter in enumerate(key)
    ]

    assert [text for text in changed if FORM.id_of(text)] == []


def test_an_id_of_another_deployment_is_unknown_though_its_checksum_is_right() -> None:
    _, key = OTHER.make()

    assert FORM.id_of(key) is None
    assert OTHER.digest(key) != FORM.digest(key)


@pytest.mark.parametrize("text", ["", "cbk_", "cbk__", "cbk_x_y", "cbk_" + "x" * 10_000, "cbk_é_" + "x" * 36])
def test_garbage_is_refused(text: str) -> None:
    assert FORM.id_of(text) is None


@pytest.mark.parametrize(
    "secret", [FORM.make()[1], FORM.make_ticket(), f"cbl_{random_text(40)}"], ids=["key", "ticket", "local"]
)
def test_secrets_of_our_own_do_not_reach_logs(secret: str) -> None:
    assert (
        redact(f"GET /v1/runs/run_1/events?ticket={secret}&after=4")
        == f"GET /v1/runs/run_1/events?ticket={REDACTED}&after=4"
    )


def test_tickets_of_others_are_refused() -> None:
    ticket = FORM.make_ticket()

    assert FORM.is_ticket(ticket)
    assert not any(map(FORM.is_ticket, (OTHER.make_ticket(), ticket[:-1], ticket + "0", ticket.swapcase(), "")))
