"""A revoked key, a narrowed one and a disabled principal: within a second on two web processes, streams included."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import update

from bus.identity import principals
from bus.identity.credentials import keys
from bus.identity.credentials.key_form import SECRET_NAME, KeyForm
from bus.identity.credentials.keys import ApiKey
from config.database.engine import Database, open_database
from config.database.migrate import migrate
from config.database.shared_secret import shared_secret
from config.database.tables import api_keys
from config.identity.principal import Principal, Role
from config.settings import Settings
from tests.journeys.web_server import Web
from tests.ports import free_port

pytestmark = pytest.mark.journey

BAR_S = 1.0


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    new_settings = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own
        state_dir=tmp_path_factory.mktemp("revocation"),
        auth="required",
    )
    migrate(new_settings)
    return new_settings


@pytest.fixture(scope="module")
def database(settings: Settings) -> Iterator[Database]:
    opened = open_database(settings.database)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def webs(settings: Settings) -> Iterator[tuple[Web, Web]]:
    """Two web processes of one deployment."""
    first, second = (settings.model_copy(update={"port": free_port()}) for _ in range(2))
    with Web(first) as web, Web(second) as two:
        yield web, two


class Stream:
    """A stream that a program follows; notes when the server ends it."""

    def __init__(self, web: Web, path: str, key: str = "", **headers: str) -> None:
        self._connection = http.client.HTTPConnection(web.address.removeprefix("http://"), timeout=30)
        self._connection.request("GET", path, headers=headers or {"Authorization": f"Bearer {key}"})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        assert self._answer.fp.readline()
        self._over = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while self._answer.read1(65536):
                pass
        except (OSError, http.client.HTTPException):
            pass
        self._over.set()

    def ends_within(self, seconds: float) -> bool:
        return self._over.wait(seconds)


def make(database: Database, name: str, *roles: Role) -> tuple[ApiKey, str]:
    form = KeyForm(partial(shared_secret, database, SECRET_NAME))
    form.open()
    with database.write() as connection:
        return keys.create(connection, form, Principal(id=name, roles=frozenset(roles)), by="root")


def revoke(database: Database, key: ApiKey) -> None:
    with database.write() as connection:
        keys.revoke(connection, key.id, None, by="root")


def disable(database: Database, key: ApiKey) -> None:
    with database.write() as connection:
        principals.disable(connection, key.tenant, key.name, by="root")


def expire(database: Database, key: ApiKey) -> None:
    with database.write() as connection:
        connection.execute(update(api_keys).where(api_keys.c.id == key.id).values(expires_ms=key.created_ms))


@pytest.mark.parametrize("end", [revoke, disable, expire])
def test_streams_and_requests_end_on_both_processes(
    webs: tuple[Web, Web], database: Database, end: Callable[[Database, ApiKey], None]
) -> None:
    key, text = make(database, f"ci-{end.__name__}")
    _, other = make(database, f"other-{end.__name__}")
    bearer, run_id = {"Authorization": f"Bearer {text}"}, start(webs[0], text)
    paths = (f"/v1/runs/{run_id}/events", "/v1/events")
    streams = [Stream(web, path, text) for web in webs for path in paths]
    open_streams = [Stream(web, "/v1/events", other) for web in webs]

    end(database, key)
    began = time.monotonic()

    refused_s = [seconds_until(401, web, "/v1/runs", bearer, began) for web in webs]
    assert all(stream.ends_within(BAR_S - (time.monotonic() - began)) for stream in streams)
    assert max(refused_s) < BAR_S
    assert not any(stream.ends_within(0) for stream in open_streams)


def test_a_stream_ends_with_the_role_that_showed_the_run(webs: tuple[Web, Web], database: Database) -> None:
    _, owner = make(database, "owner")
    key, viewer = make(database, "viewer", Role.VIEWER)
    run = f"/v1/runs/{start(webs[0], owner)}"
    stream = Stream(webs[1], f"{run}/events", viewer)

    with database.write() as connection:
        connection.execute(update(api_keys).where(api_keys.c.id == key.id).values(roles_json="[]"))

    began = time.monotonic()
    assert stream.ends_within(BAR_S)
    assert seconds_until(404, webs[1], run, {"Authorization": f"Bearer {viewer}"}, began) < BAR_S


def test_a_long_poll_answers_nothing_after_the_revocation(webs: tuple[Web, Web], database: Database) -> None:
    key, text = make(database, "poller")
    run_id, bearer = start(webs[0], text), {"Authorization": f"Bearer {text}"}
    cursor = webs[0].ask(f"/v1/runs/{run_id}/events", Accept="application/json", **bearer)[2]["cursor"]
    answers: list[int] = []
    path = f"/v1/runs/{run_id}/events?after={cursor}&wait_s=3"
    polling = threading.Thread(target=lambda: answers.append(webs[0].ask(path, **bearer)[0]))
    polling.start()

    revoke(database, key)
    polling.join(20)

    assert answers == [401]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_more_than_one_header_is_no_credential(webs: tuple[Web, Web], database: Database, number: int) -> None:
    _, text = make(database, f"headers-{number}")
    connection = http.client.HTTPConnection(webs[0].address.removeprefix("http://"), timeout=30)
    connection.putrequest("GET", "/v1/runs")
    for _ in range(number):
        connection.putheader("Authorization", f"Bearer {text}")
    connection.endheaders()

    assert connection.getresponse().status == (200 if number == 1 else 401)
    connection.close()


def test_no_log_has_a_key(webs: tuple[Web, Web], database: Database) -> None:
    _, text = make(database, "logged")

    assert webs[0].ask(f"/v1/runs?api_key={text}")[0] == 400
    assert webs[0].ask(f"/v1/runs/{text}", Authorization=f"Bearer {text}")[0] == 400
    for target in (f"/v1/runs?agent={text}", f"/v1/runs#{text}", f"http://ci:{text}@127.0.0.1/v1/runs"):
        connection = http.client.HTTPConnection(webs[0].address.removeprefix("http://"), timeout=30)
        named = {"Host": "127.0.0.1", "Authorization": f"Bearer {text}"}
        connection.request("GET", target, headers=named)  # as it is, fragment included
        assert connection.getresponse().status == 400
        connection.close()

    logs = [path for path in Path(webs[0].settings.state).rglob("*") if path.suffix == ".log"]
    assert logs
    assert not any("cbk_" in log.read_text() for log in logs)


def start(web: Web, key: str) -> str:
    status, _, body, _ = web.ask("/v1/runs", {"agent": "assistant", "input": "Hello"}, Authorization=f"Bearer {key}")
    assert status == 202
    return str(body["run_id"])


def seconds_until(status: int, web: Web, path: str, bearer: dict[str, str], began: float) -> float:
    while web.ask(path, **bearer)[0] != status:
        assert time.monotonic() - began < 10, f"it is not answered with {status}"
        time.sleep(0.01)  # another process; only its answers tell
    return time.monotonic() - began
