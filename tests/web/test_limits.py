"""Limits: requests, open and queued runs and viewers of a principal and a tenant; 429 with Retry-After beyond them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from flask.testing import FlaskClient
from limits.storage import MemoryStorage

from config.errors import SettingInvalid
from config.identity.principal import Principal, Role
from config.logs import acting_for
from config.settings import Settings, read_settings
from config.settings.limits import WITH_AUTHENTICATION, Tenants, TenantSettings
from tests.web.conftest import eventually, opened, process_of
from tests.web.test_keys import bearer, make
from web.app import create_app
from web.limits import WINDOW_S, Blocks, Counter, Scope
from web.limits import key_of as key_in

Opens = Callable[..., FlaskClient]
UNIX_NOWHERE = "unix:///nowhere/redis.sock?db=0"


@pytest.fixture
def web(settings: Settings) -> Iterator[Opens]:
    """Opens web processes that require authentication; each call is another process of the same deployment."""
    with ExitStack() as stack:

        def client(**chosen: Any) -> FlaskClient:
            runner = stack.enter_context(opened(settings.model_copy(update={"auth": "required", **chosen})))
            app = create_app(runner.settings, runner)
            stack.callback(process_of(app).close)
            return app.test_client()

        yield client


def key_of(client: FlaskClient, name: str, *roles: Role, **scope: Any) -> dict[str, str]:
    return bearer(make(process_of(client.application).journal, name, *roles, **scope)[1])


def statuses(client: FlaskClient, headers: dict[str, str], count: int, path: str = "/v1/agents") -> list[int]:
    return [client.get(path, headers=headers).status_code for _ in range(count)]


def test_a_principal_that_sends_too_much_is_refused(web: Opens) -> None:
    client = web(principal_requests_per_minute=3)
    first_headers, other = key_of(client, "one"), key_of(client, "other")

    assert statuses(client, first_headers, 4) == [200, 200, 200, 429]
    assert statuses(client, other, 1) == [200]
    refused = client.get("/v1/agents", headers=first_headers)
    assert refused.get_json()["code"] == "too_many_requests"
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert refused.get_json()["limit"] == 3


def test_unknown_addresses_count_and_the_health_and_the_page_do_not(web: Opens) -> None:
    client = web(principal_requests_per_minute=2)
    key = key_of(client, "one")

    assert statuses(client, key, 5, "/health") == [200] * 5
    assert statuses(client, key, 5, "/") == [200] * 5
    assert statuses(client, key, 3, "/nowhere") == [404, 404, 429]


def test_all_principals_of_a_tenant_share_its_limit(web: Opens) -> None:
    client = web(principal_requests_per_minute=3, tenant_requests_per_minute=4)
    first_headers, two = key_of(client, "one", tenant="acme"), key_of(client, "two", tenant="acme")
    same_name = key_of(client, "one", tenant="other")

    assert statuses(client, first_headers, 3) + statuses(client, two, 2) == [200, 200, 200, 200, 429]
    assert statuses(client, same_name, 3) == [200] * 3


def test_a_tenant_has_limits_of_its_own(web: Opens) -> None:
    sections = {
        "acme": TenantSettings(principal_requests_per_minute=1),
        "free": TenantSettings(principal_requests_per_minute=0),
    }
    client = web(principal_requests_per_minute=2, tenants=Tenants(sections))
    acme, free, other = (key_of(client, "one", tenant=tenant) for tenant in ("acme", "free", "other"))

    assert statuses(client, acme, 2) == [200, 429]
    assert statuses(client, free, 4) == [200] * 4
    assert statuses(client, other, 3) == [200, 200, 429]


def test_without_authentication_there_is_no_limit_unless_one_is_set(web: Opens) -> None:
    client, limited = web(auth="none"), web(auth="none", principal_requests_per_minute=1)

    assert "limit_requests" not in {function.__name__ for function in client.application.before_request_funcs[None]}
    assert statuses(limited, {}, 2) == [200, 429]


def test_a_redis_that_is_away_neither_refuses_requests_nor_lifts_the_limit(web: Opens) -> None:
    client = web(principal_requests_per_minute=3, redis_url=UNIX_NOWHERE)

    assert statuses(client, key_of(client, "one"), 4) == [200, 200, 200, 429]


@pytest.mark.parity
def test_requests_are_counted_in_blocks_and_the_limit_holds(web: Opens) -> None:
    client = web(principal_requests_per_minute=400, tenant_requests_per_minute=600)
    first_headers, two = key_of(client, "one", tenant="acme"), key_of(client, "two", tenant="acme")

    first, second = statuses(client, first_headers, 402, "/nowhere"), statuses(client, two, 202, "/nowhere")

    assert (first.count(404), first[400:]) == (400, [429, 429])
    assert (second.count(404), second[200:]) == (200, [429, 429])


@pytest.mark.parity  # thousands of requests
def test_a_tenant_is_charged_for_the_requests_that_its_principals_have_sent(web: Opens) -> None:
    client = web(principal_requests_per_minute=200, tenant_requests_per_minute=200)
    keys = [key_of(client, f"p{number}", tenant="acme") for number in range(101)]  # whose blocks are 202 requests

    assert [status for key in keys for status in statuses(client, key, 1, "/nowhere")] == [404] * 101
    assert statuses(client, keys[0], 100, "/nowhere") == [404] * 99 + [429]


@pytest.mark.parity
def test_a_principal_that_is_refused_costs_its_tenant_nothing(web: Opens) -> None:
    client = web(principal_requests_per_minute=1, tenant_requests_per_minute=200)
    first_headers, other = key_of(client, "one", tenant="acme"), key_of(client, "other", tenant="acme")

    assert statuses(client, first_headers, 210, "/nowhere") == [404] + [429] * 209
    assert statuses(client, other, 1, "/nowhere") == [404]


@pytest.mark.parity  # hundreds of requests
def test_a_tenant_that_is_refused_costs_its_principals_nothing(web: Opens) -> None:
    client = web(principal_requests_per_minute=400, tenant_requests_per_minute=200)
    key = key_of(client, "one", tenant="acme")
    assert statuses(client, key, 200, "/nowhere") == [404] * 200

    refused = [client.get("/nowhere", headers=key).get_json()["detail"] for _ in range(250)]

    assert all("tenant 'acme'" in detail for detail in refused)


ONE = Principal(tenant="acme", id="one")
SIZES: dict[Scope, int] = {"principal": 3, "tenant": 5}


def test_a_request_is_taken_from_each_block_or_from_none() -> None:
    blocks = Blocks()
    assert blocks.take(ONE, SIZES) == SIZES
    blocks.add(key_in(ONE, "tenant"), 1)

    assert blocks.take(ONE, SIZES) == {"principal": 3, "tenant": 0}
    blocks.add(key_in(ONE, "principal"), 2)
    assert blocks.take(ONE, SIZES) == {}
    assert blocks.take(ONE, SIZES) == {"principal": 0, "tenant": 5}


def test_a_scope_without_a_limit_is_not_asked_for() -> None:
    assert Blocks().take(ONE, {"tenant": 5}) == {"tenant": 5}
    assert Blocks().take(ONE, {}) == {}


def test_a_block_is_kept_for_a_minute() -> None:
    now = [0.0]
    blocks = Blocks(clock=lambda: now[0])
    blocks.add("acme", 3)
    blocks.add("acme", -1)

    assert blocks.take(ONE, {"tenant": 5}) == {}
    now[0] = WINDOW_S
    assert blocks.take(ONE, {"tenant": 5}) == {"tenant": 5}


def test_what_concurrent_requests_take_beyond_a_block_is_taken_from_the_next() -> None:
    blocks = Blocks()
    for count in (1, -1, -1, 2):
        blocks.add("acme", count)

    assert blocks.take(ONE, {"tenant": 5}) == {}
    assert blocks.take(ONE, {"tenant": 5}) == {"tenant": 5}


class FailingStorage(MemoryStorage):
    """A Redis that can go away."""

    is_away = False
    tries = 0
    all_are_there: threading.Barrier | None = None

    def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        self.tries += 1
        if self.all_are_there is not None:
            self.all_are_there.wait(10)
        if self.is_away:
            raise ConnectionError
        return super().incr(key, expiry, amount)


def test_a_redis_that_fails_is_tried_again_after_longer_pauses(settings: Settings) -> None:
    now, storage = [0.0], FailingStorage()
    limited = settings.model_copy(update={"auth": "required", "principal_requests_per_minute": 2})
    counter = Counter(limited, storage, clock=lambda: now[0])

    def refused(at_s: float) -> bool:
        now[0] = at_s
        return counter.count(ONE, {"principal": 1}) is not None

    assert (refused(0.0), storage.tries) == (False, 1)
    storage.is_away = True
    assert [refused(at_s) for at_s in (0.1, 0.2, 0.3)] == [False, False, True]
    assert storage.tries == 2
    assert (refused(1.2), storage.tries) == (True, 3)
    assert (refused(2.5), storage.tries) == (True, 3)
    storage.is_away = False
    assert (refused(3.3), storage.tries) == (False, 4)
    assert (refused(3.4), storage.tries) == (True, 5)


def test_requests_that_meet_the_same_failure_count_it_once(settings: Settings) -> None:
    now, storage = [0.0], FailingStorage()
    counter = Counter(
        settings.model_copy(update={"auth": "required", "principal_requests_per_minute": 100}),
        storage,
        clock=lambda: now[0],
    )
    storage.is_away, storage.all_are_there = True, threading.Barrier(8)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: counter.count(ONE, {"principal": 1}), range(8)))
    storage.is_away, storage.all_are_there, storage.tries, now[0] = False, None, 0, 1.1
    counter.count(ONE, {"principal": 1})

    assert storage.tries == 1


@pytest.mark.parity
def test_web_processes_share_the_limit(web: Opens, redis_settings: Settings) -> None:
    shared = {"redis_url": redis_settings.redis_url, "deployment": redis_settings.deployment}
    first, second = (web(principal_requests_per_minute=3, **shared) for _ in range(2))
    key = key_of(first, "one")

    assert statuses(first, key, 2) + statuses(second, key, 2) == [200, 200, 200, 429]


@pytest.mark.parametrize("name", sorted(WITH_AUTHENTICATION))
def test_a_limit_counts_where_callers_are_authenticated(name: Any) -> None:
    assert Settings(auth="none").limit(name, "default") == 0
    assert Settings(auth="required").limit(name, "default") == WITH_AUTHENTICATION[name]
    assert Settings.model_validate({"auth": "required", name: 0}).limit(name, "default") == 0


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ('{"acme": {"open_runs": 1}}', r"\[tenants.acme\]: a tenant has no setting 'open_runs'"),
        ('{"acme": {"tenant_open_rums": 1}}', "Did you mean 'tenant_open_runs'"),
        (
            '{"acme": {"tenant_open_runs": -1}}',
            r"\[tenants.acme\]: tenant_open_runs is '-1'.*greater than or equal to 0",
        ),
        ('{"acme": {"retain_runs_days": "x"}}', r"\[tenants.acme\]: retain_runs_days is 'x'.*number"),
        ('{"../x": {}}', r"'\.\./x' is not the name of a tenant, which is a name: 1 to 64 letters"),
        ("[]", "dictionary"),
        ("x", "is not JSON"),
    ],
)
def test_sections_of_tenants_are_checked(monkeypatch: pytest.MonkeyPatch, sections: str, message: str) -> None:
    monkeypatch.setenv("CALLBOARD_TENANTS", sections)

    with pytest.raises(SettingInvalid, match=f"CALLBOARD_TENANTS.*{message}.*(Correct|write an object)"):
        read_settings()


def start(client: FlaskClient, headers: dict[str, str], **more: Any) -> Any:
    return client.post("/v1/runs", json={"agent": "assistant", "input": "Hi", **more}, headers=headers)


def test_a_principal_with_too_many_runs_starts_no_other(web: Opens) -> None:
    client = web(principal_open_runs=2)
    first_headers, other = key_of(client, "one"), key_of(client, "other")

    first, second, third = (start(client, first_headers | {"Idempotency-Key": f"n{n}"}) for n in range(3))

    assert [answer.status_code for answer in (first, second, third)] == [202, 202, 429]
    assert (third.json["code"], third.json["limit"], third.headers["Retry-After"]) == ("too_many_runs", 2, "5")
    assert start(client, other).status_code == 202
    assert start(client, first_headers | {"Idempotency-Key": "n0"}).json["run_id"] == first.json["run_id"]
    client.post(f"/v1/runs/{first.json['run_id']}/cancel", headers=first_headers)
    assert (
        start(client, first_headers | {"Idempotency-Key": "n2"}).status_code == 202
    )  # the refusal did not use up the key


def test_a_principal_and_a_tenant_have_as_many_viewers_as_they_may(web: Opens) -> None:
    client = web(principal_viewers=1, tenant_viewers=2)
    viewers = process_of(client.application).hub.viewers
    first_headers, two, three, other = (key_of(client, name, tenant="acme") for name in ("one", "two", "three", "four"))
    other = key_of(client, "one", tenant="other")

    def follows(headers: dict[str, str], count: int) -> Any:
        stream = client.get("/v1/events", headers=headers)
        assert next(iter(stream.response))  # the first bytes of the stream
        assert len(viewers) == count
        return stream

    first, second = follows(first_headers, 1), follows(two, 2)
    for headers, whose in ((first_headers, "'one'"), (three, "tenant 'acme'")):
        refused = client.get("/v1/events", headers=headers)
        assert (refused.status_code, refused.get_json()["code"]) == (429, "too_many_viewers")
        assert refused.headers["Retry-After"] == "5"
        assert whose in refused.get_json()["detail"]
    third = follows(other, 3)
    viewers.loop.call_soon_threadsafe(viewers.drop_all)
    eventually(lambda: not len(viewers))
    assert follows(first_headers, 1)
    for stream in (first, second, third):
        stream.close()


def test_only_the_deployments_administrators_see_what_tenants_share(web: Opens) -> None:
    client = web()
    admin, plain = key_of(client, "root", Role.ADMIN), key_of(client, "plain")
    foreign = key_of(client, "root", Role.ADMIN, tenant="acme")
    stream = client.get("/v1/events", headers=plain)
    assert next(iter(stream.response))

    counts = {
        name: client.get("/health", headers=key).get_json()["viewers"]
        for name, key in [("admin", admin), ("plain", plain), ("foreign", foreign)]
    }
    queues = ["unserved_queues" in client.get("/ready", headers=key).get_json() for key in (admin, plain, foreign)]

    assert counts == {"admin": 1, "plain": 1, "foreign": 0}
    assert queues == [True, False, False]
    stream.close()


def test_log_records_of_a_request_have_its_caller_and_those_after_it_do_not(web: Opens) -> None:
    client, seen = web(), list[Any]()
    key = key_of(client, "one", tenant="acme")

    def note() -> str:
        seen.append(acting_for.get())
        return ""

    client.application.add_url_rule("/seen", view_func=note)

    client.get("/seen", headers=key)

    assert seen == [("acme", "one")]
    assert acting_for.get() is None
