"""Tickets of streams: one run, one principal, 30 seconds, once, on any web process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import select, update

from bus.identity.credentials import keys
from bus.journal import Journal
from config.database.tables import feed_tickets
from config.identity.principal import Role
from config.settings import Settings
from tests.web.conftest import opened, process_of
from tests.web.test_keys import at_once, bearer, door, journal, make  # noqa: F401 - fixtures
from web.app import create_app


@pytest.fixture
def other_door(settings: Settings, door: Any) -> Iterator[Any]:  # noqa: F811
    """A client of another web process of the deployment."""
    with opened(settings.model_copy(update={"auth": "required"})) as runner:
        app = create_app(runner.settings, runner)
        yield app.test_client()
        process_of(app).close()


@pytest.fixture
def ended_run(door: Any, journal: Journal) -> tuple[str, str]:  # noqa: F811
    """A run whose stream ends, and the key of its principal."""
    _, key = make(journal)
    run_id = door.post("/v1/runs", json={"agent": "assistant", "input": "Hi"}, headers=bearer(key)).json["run_id"]
    door.post(f"/v1/runs/{run_id}/cancel", json={}, headers=bearer(key))
    return run_id, key


def ask(door: Any, run_id: str, key: str) -> Any:  # noqa: F811
    return door.post(f"/v1/runs/{run_id}/ticket", headers=bearer(key))


def test_a_ticket_opens_the_stream_once_on_any_process(door: Any, other_door: Any, ended_run: Any) -> None:  # noqa: F811
    run_id, key = ended_run
    response = ask(door, run_id, key)

    stream = other_door.get(response.json["url"])
    again = [each.get(response.json["url"]) for each in (door, other_door)]

    assert (response.status_code, stream.status_code) == (201, 200)
    assert b"event: end" in stream.data
    assert [answer.status_code for answer in again] == [401, 401]


def test_a_ticket_is_for_one_run(door: Any, journal: Journal, ended_run: Any) -> None:  # noqa: F811
    run_id, key = ended_run
    other = door.post("/v1/runs", json={"agent": "assistant", "input": "Hi"}, headers=bearer(key)).json["run_id"]
    ticket = ask(door, run_id, key).json["ticket"]

    elsewhere = [
        f"/v1/runs/{other}/events",
        f"/v1/runs/{run_id}",
        "/v1/runs",
        "/v1/events",
        f"/v1/runs/{run_id}/approvals",
    ]

    assert [door.get(f"{path}?ticket={ticket}").status_code for path in elsewhere] == [401] * 5
    assert door.post(f"/v1/runs/{run_id}/cancel?ticket={ticket}", json={}).status_code == 401
    assert door.get(f"/v1/runs/{run_id}/events?ticket={ticket}").status_code == 200


def test_only_a_get_uses_a_ticket_up(door: Any, ended_run: Any) -> None:  # noqa: F811
    url = ask(door, *ended_run).json["url"]

    codes = [door.open(url, method=method).status_code for method in ("HEAD", "OPTIONS", "GET", "GET")]

    assert codes == [401, 401, 200, 401]


def test_a_ticket_sees_what_its_principal_sees(door: Any, journal: Journal, ended_run: Any) -> None:  # noqa: F811
    run_id, _ = ended_run
    (_, stranger), (_, viewer) = make(journal, "other"), make(journal, "viewer", Role.VIEWER)

    assert ask(door, run_id, stranger).status_code == 404
    assert door.post(f"/v1/runs/{run_id}/ticket").status_code == 401
    assert door.get(ask(door, run_id, viewer).json["url"]).status_code == 200


def test_a_ticket_expires(door: Any, journal: Journal, ended_run: Any) -> None:  # noqa: F811
    ticket = ask(door, *ended_run)
    with journal.database.write() as connection:
        connection.execute(update(feed_tickets).values(expires_ms=1))

    assert door.get(ticket.json["url"]).status_code == 401
    ask(door, *ended_run)
    with journal.database.read() as connection:
        assert len(connection.execute(select(feed_tickets)).all()) == 1


def test_a_ticket_ends_with_the_key_that_asked_for_it(door: Any, journal: Journal, ended_run: Any) -> None:  # noqa: F811
    ticket = ask(door, *ended_run)
    with journal.database.write() as connection:
        (key,) = keys.of_tenant(connection, None)
        keys.revoke(connection, key.id, None, by="root")

    assert door.get(ticket.json["url"]).status_code == 401


@pytest.mark.parametrize("ticket", ["", "x", "cbt_" + "x" * 36, "cbt_" + "é" * 36, "cbt_" + "x" * 10_000])
def test_garbage_is_refused(door: Any, ended_run: Any, ticket: str) -> None:  # noqa: F811
    assert door.get(f"/v1/runs/{ended_run[0]}/events", query_string={"ticket": ticket}).status_code == 401


def test_a_ticket_is_a_link_without_authentication_too(client: Any, runner: Any) -> None:
    run_id = client.post("/v1/runs", json={"agent": "assistant", "input": "Hi"}).json["run_id"]
    client.post(f"/v1/runs/{run_id}/cancel", json={})
    url = client.post(f"/v1/runs/{run_id}/ticket").json["url"]

    assert [client.get(url).status_code for _ in range(2)] == [200, 401]


def test_the_database_does_not_have_the_ticket(door: Any, journal: Journal, ended_run: Any) -> None:  # noqa: F811
    ticket = ask(door, *ended_run).json["ticket"]

    with journal.database.read() as connection:
        assert ticket not in str(connection.execute(select(feed_tickets)).all())
