"""Sessions in SQL: valid until a sign-out, another sign-in, their end, or a minute too long without use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from bus.identity import principals
from bus.identity.credentials import sessions
from bus.identity.credentials.credential import Caller, CredentialKind
from bus.identity.credentials.sessions import SECRET_NAME, Lifetime, Session, SessionForm
from bus.identity.validity import ended
from config.clock import epoch_ms
from config.database.engine import Database
from config.database.shared_secret import shared_secret
from config.database.tables import sessions as table
from config.identity.principal import Principal, Role

OLGA = Principal(tenant="acme", id="olga", roles=frozenset({Role.OPERATOR}))
HOUR_MS = 3_600_000


@pytest.fixture
def form(database: Database) -> SessionForm:
    form = SessionForm(partial(shared_secret, database, SECRET_NAME), "https://login.example.org")
    form.make()
    return form


def made(database: Database, form: SessionForm, principal: Principal = OLGA, sign_in: str = "") -> str:
    session_id, text = form.make()
    lifetime = Lifetime(idle_ms=HOUR_MS, most_ms=2 * HOUR_MS)
    with database.write() as connection:
        sessions.create(
            connection,
            session_id,
            form.digest(text),
            principal,
            sign_in_digest=sign_in or session_id,
            display_name="Olga",
            lifetime=lifetime,
        )
    return session_id


def found(database: Database, session_id: str) -> Session | None:
    with database.read() as connection:
        return sessions.live(connection, [session_id]).get(session_id)


def caller_of(database: Database, session_id: str) -> Caller:
    session = found(database, session_id)
    assert session is not None
    return session.caller


def test_a_session_acts_as_its_principal_with_the_roles_of_the_last_sign_in(
    database: Database, form: SessionForm
) -> None:
    session_id = made(database, form)
    caller = caller_of(database, session_id)

    assert caller.principal == OLGA
    assert (caller.credential.kind, caller.credential.id) == (CredentialKind.SESSION, session_id)
    assert ended(database, [caller]) == frozenset()

    made(database, form, Principal(tenant="acme", id="olga"))

    assert caller_of(database, session_id).principal.roles == frozenset()
    assert ended(database, [caller]) == {caller}  # an open stream ends, and begins with what is left


def _signs_out(connection, session_id) -> None:
    sessions.end(connection, session_id, OLGA)


def _signs_out_everywhere(connection, session_id) -> None:
    sessions.end_all(connection, OLGA)


def _is_disabled(connection, session_id) -> None:
    principals.disable(connection, "acme", "olga", by="root")


def _is_idle(connection, session_id) -> None:
    connection.execute(update(table).values(seen_ms=epoch_ms() - HOUR_MS - 1))


def _expires(connection, session_id) -> None:
    connection.execute(update(table).values(expires_ms=epoch_ms() - 1))


@pytest.mark.parametrize("end", [_signs_out, _signs_out_everywhere, _is_disabled, _is_idle, _expires])
def test_a_session_ends(database: Database, form: SessionForm, end: Callable[..., None]) -> None:
    session_id = made(database, form)
    caller = caller_of(database, session_id)

    with database.write() as connection:
        end(connection, session_id)

    assert found(database, session_id) is None
    assert ended(database, [caller]) == {caller}


def test_signing_out_everywhere_leaves_other_principals_alone(database: Database, form: SessionForm) -> None:
    other_tenant = made(database, form, Principal(tenant="other", id="olga"))
    other = made(database, form, Principal(tenant="acme", id="adam"))
    mine = made(database, form)

    with database.write() as connection:
        sessions.end_all(connection, OLGA)

    assert [found(database, each) is None for each in (mine, other, other_tenant)] == [True, False, False]


def test_a_sign_in_makes_one_session(database: Database, form: SessionForm) -> None:
    made(database, form, sign_in="a")

    with pytest.raises(IntegrityError):
        made(database, form, sign_in="a")


def test_use_keeps_a_session_and_is_written_once_a_minute(database: Database, form: SessionForm) -> None:
    session_id = made(database, form)
    with database.write() as connection:
        connection.execute(update(table).values(seen_ms=epoch_ms() - HOUR_MS + 10_000))
        sessions.note_use(connection, session_id)
        first = connection.execute(select(table.c.seen_ms)).scalar_one()
        sessions.note_use(connection, session_id)

        assert abs(first - epoch_ms()) < 5000
        assert connection.execute(select(table.c.seen_ms)).scalar_one() == first


def test_rows_of_sessions_go_a_day_after_their_end(database: Database, form: SessionForm) -> None:
    made(database, form)
    with database.write() as connection:
        connection.execute(update(table).values(expires_ms=epoch_ms() - sessions.KEPT_MS - 1000))
    session_id = made(database, form)

    with database.read() as connection:
        assert connection.execute(select(table.c.id)).scalars().all() == [session_id]


def test_the_text_of_a_session_is_recognised_by_its_deployment_and_issuer_only(form: SessionForm) -> None:
    other, elsewhere = (SessionForm(lambda: "ab" * 32, issuer) for issuer in ("https://login.example.org", "https://a"))
    session_id, text = other.make()

    assert other.id_of(text) == session_id
    assert [each.id_of(text) for each in (form, elsewhere)] == [None, None]
    assert other.csrf_token(text) != elsewhere.csrf_token(text)
    assert len({other.cookie_tag, elsewhere.cookie_tag, form.cookie_tag}) == 3


@pytest.mark.parametrize("odd", ["", "cbs_", "x" * 500, "cbs_é", "cbs_" + "0" * 24 + "_" + "0" * 43, "cbs_\x00"])
def test_other_texts_are_no_sessions(form: SessionForm, odd: str) -> None:
    assert form.id_of(odd) is None
