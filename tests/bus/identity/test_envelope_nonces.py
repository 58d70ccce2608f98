"""Nonces of signed envelopes in SQL: each is used once, in whichever process, and forgotten when no clock needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import func, insert, select

from bus.identity import envelope as store
from bus.identity.envelope import (
    SLACK_MS,
    WINDOW_S,
    CallEnvelope,
    SqlNonces,
    are_expired,
    delete_expired,
    sign,
    verify_golden_call_envelope,
)
from bus.identity.errors import EnvelopeRefused
from config.clock import epoch_ms
from config.database import engine as databases
from config.database.engine import Database, open_database, wall_ms
from config.database.errors import DatabaseBusy, DatabaseUnreachable
from config.database.migrate import migrate
from config.database.tables import envelope_nonces
from config.settings import Settings
from tests.bus.racing import at_once
from tests.processes import run_python

SECRET = "5d2f0c8a91b34e67d0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f7"


def envelope(nonce: str = "n" * 22, *, key_id: str = "main", age_s: float = 0) -> CallEnvelope:
    return CallEnvelope(key_id=key_id, time_s=int(epoch_ms() / 1000 - age_s), nonce=nonce)


def rows(database: Database) -> int:
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(envelope_nonces)).scalar_one()


@pytest.fixture
def nonces(database: Database) -> SqlNonces:
    return SqlNonces(lambda: database)


def test_a_nonce_is_used_once(nonces: SqlNonces, database: Database) -> None:
    nonces.use_up(envelope())

    for again in (envelope(), envelope(age_s=100)):
        with pytest.raises(EnvelopeRefused, match="used before"):
            nonces.use_up(again)
    assert rows(database) == 1


def test_another_nonce_or_another_keys_is_another_one(nonces: SqlNonces, database: Database) -> None:
    nonces.use_up(envelope())

    nonces.use_up(envelope("m" * 22))
    nonces.use_up(envelope(key_id="next"))

    assert rows(database) == 3


@pytest.fixture
def reopened(database: Database) -> Iterator[Database]:
    """The same database, as a process opens it that starts later."""
    opened = open_database(database.engine.url.render_as_string(hide_password=False))
    yield opened
    opened.close()


def test_a_restart_forgets_nothing(nonces: SqlNonces, database: Database, reopened: Database) -> None:
    nonces.use_up(envelope())
    database.close()

    with pytest.raises(EnvelopeRefused, match="used before"):
        SqlNonces(lambda: reopened).use_up(envelope())


@pytest.mark.parity
def test_another_process_knows_of_it(settings: Settings, database_url: str) -> None:
    migrate(settings.model_copy(update={"database_url": database_url}))
    program = (
        "import sys\n"
        "from config.database.engine import open_database\n"
        "from bus.identity.envelope import CallEnvelope\n"
        "from bus.identity.envelope import SqlNonces\n"
        "from bus.identity.errors import EnvelopeRefused\n"
        "database = open_database(sys.argv[1])\n"
        "try:\n"
        "    SqlNonces(lambda: database).use_up(\n"
        "        CallEnvelope(key_id='main', time_s=int(sys.argv[2]), nonce='n' * 22)\n"
        "    )\n"
        "    print('accepted')\n"
        "except EnvelopeRefused as error:\n"
        "    print(error.facts['why'])\n"
    )
    time_s = str(envelope().time_s)

    answers = [run_python("-c", program, database_url, time_s).stdout.strip() for _ in range(2)]

    assert answers == ["accepted", "used"]


def test_of_many_at_once_one_is_accepted(nonces: SqlNonces) -> None:
    same = envelope()

    answers = at_once(8, lambda _: nonces.use_up(same))

    assert sum(answer is None for answer in answers) == 1
    assert {answer.facts["why"] for answer in answers if answer is not None} == {"used"}


def test_one_that_expired_meanwhile_is_refused(nonces: SqlNonces, database: Database) -> None:
    with pytest.raises(EnvelopeRefused, match="expired"):
        nonces.use_up(envelope(age_s=WINDOW_S + 5))

    assert rows(database) == 0


def test_a_slow_clock_accepts_none_again_whose_row_is_gone(database: Database) -> None:
    """The verifier's clock is an hour and more behind, and retention has deleted the row."""
    then_s = int(epoch_ms() / 1000) - WINDOW_S - SLACK_MS // 1000 - 60
    text = sign(b"{}", key_id="main", key=SECRET.encode(), audience="a/b", method="m", time_s=then_s, nonce="n" * 22)

    with pytest.raises(EnvelopeRefused, match="by the database's clock"):
        verify_golden_call_envelope(
            text,
            keys={"main": SECRET.encode()},
            nonces=SqlNonces(lambda: database),
            audience="a/b",
            method="m",
            body=b"{}",
            now_s=then_s,
        )


def test_expired_ones_are_deleted_in_batches_and_others_stay(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BATCH", 4)
    with database.write() as connection:
        now_ms = wall_ms(connection)
        gone, valid_times = now_ms - SLACK_MS - 1, [now_ms - SLACK_MS + 1000, now_ms + 1000]
        times = [*[gone] * 9, *valid_times]
        records = [{"key_id": "main", "nonce": str(at), "expires_ms": ms} for at, ms in enumerate(times)]
        connection.execute(insert(envelope_nonces), records)
        assert are_expired(connection, now_ms)

    counts = []
    for _ in range(4):
        with database.write() as connection:
            counts.append(delete_expired(connection, now_ms))

    assert counts == [4, 4, 1, 0]
    assert rows(database) == 2
    with database.read() as connection:
        assert not are_expired(connection, now_ms)


def test_a_database_that_is_locked_lets_no_call_pass(
    settings: Settings, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(settings.model_copy(update={"database_url": database_url}))
    monkeypatch.setattr(databases, "BUSY_TIMEOUT_MS", 50)
    monkeypatch.setattr(databases, "LOCKED_TIMEOUT_MS", 20)
    first, second = open_database(database_url), open_database(database_url)

    with first.write(), pytest.raises(DatabaseBusy):
        SqlNonces(lambda: second).use_up(envelope())

    assert rows(first) == 0
    SqlNonces(lambda: second).use_up(envelope())
    for opened in (first, second):
        opened.close()


def test_a_database_that_is_away_lets_no_call_pass() -> None:
    away = open_database("sqlite:////nowhere/at/all/callboard.db")

    with pytest.raises(DatabaseUnreachable):
        SqlNonces(lambda: away).use_up(envelope())
    away.close()
