"""API keys of requests: valid ones are served as their principal, and all others look and cost the same."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import event

from bus.identity import principals
from bus.identity.credentials import keys
from bus.identity.credentials.key_form import SECRET_NAME, KeyForm, encoded
from bus.identity.credentials.keys import ApiKey
from bus.journal import Journal
from config.database.shared_secret import shared_secret
from config.identity.principal import Principal, Role, Verb
from config.settings import Settings
from tests.web.conftest import door_of, eventually, opened, process_of
from web.auth import keys as verifying


@pytest.fixture
def door(settings: Settings) -> Iterator[Any]:
    """A client of a process that requires authentication."""
    with opened(settings.model_copy(update={"auth": "required"})) as runner, door_of(runner) as web_client:
        yield web_client


@pytest.fixture
def journal(door: Any) -> Journal:
    return process_of(door.application).journal


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are looked up for each request."""
    monkeypatch.setattr(verifying, "FRESH_S", 0.0)


def make(journal: Journal, name: str = "ci", *roles: Role, **scope: Any) -> tuple[ApiKey, str]:
    form = KeyForm(partial(shared_secret, journal.database, SECRET_NAME))
    form.open()
    lifetime_s = scope.pop("lifetime_s", None)
    principal = Principal(tenant=scope.pop("tenant", "default"), id=name, roles=frozenset(roles), **scope)
    with journal.database.write() as connection:
        return keys.create(connection, form, principal, by="root", lifetime_s=lifetime_s)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    ("method", "path", "sent"),
    [
        ("post", "/v1/keys", {"json": {"nonsense": 1}}),
        ("post", "/v1/keys", {"data": "not JSON"}),
        ("get", "/v1/keys?limit=many", {}),
        ("get", "/v1/audit?nonsense=1", {}),
        ("delete", "/v1/keys/x?nonsense=1", {}),
    ],
)
def test_who_does_not_administer_is_refused_before_the_request_is_read(
    door: Any, journal: Journal, method: str, path: str, sent: dict[str, Any]
) -> None:
    _, key = make(journal, "olga", Role.OPERATOR)

    refused = getattr(door, method)(path, headers=bearer(key), **sent)

    assert (refused.status_code, refused.json["code"]) == (403, "forbidden")


def test_runs_belong_to_the_name_of_the_key(door: Any, journal: Journal) -> None:
    _, key = make(journal)
    _, rotated = make(journal)
    _, other = make(journal, "cd")

    run_id = door.post("/v1/runs", json={"agent": "assistant", "input": "Hi"}, headers=bearer(key)).json["run_id"]

    assert door.get(f"/v1/runs/{run_id}", headers=bearer(key)).json["principal"] == "ci"
    assert door.get(f"/v1/runs/{run_id}", headers=bearer(rotated)).status_code == 200
    assert door.get(f"/v1/runs/{run_id}", headers=bearer(other)).status_code == 404


def test_the_scope_of_a_key_is_kept(door: Any, journal: Journal) -> None:
    _, key = make(journal, verbs=frozenset({Verb.SEE}))

    refused = door.post("/v1/runs", json={"agent": "assistant", "input": "Hi"}, headers=bearer(key))

    assert refused.status_code == 403
    assert door.get("/v1/runs", headers=bearer(key)).json == {"runs": []}


def test_a_repeated_request_shows_no_run_that_the_key_is_not_for(door: Any, journal: Journal) -> None:
    (_, key), (_, scoped) = make(journal), make(journal, agents=frozenset({"another"}))
    request = {"json": {"agent": "assistant", "input": "Hi"}}

    first, other = (
        door.post("/v1/runs", **request, headers=bearer(each) | {"Idempotency-Key": "once"}) for each in (key, scoped)
    )

    assert (other.status_code, other.json["code"]) == (404, "agent_unknown")
    assert first.json["run_id"] not in other.text


def test_a_key_that_does_not_start_runs_repeats_no_start(door: Any, journal: Journal) -> None:
    (_, key), (_, seeing) = make(journal), make(journal, verbs=frozenset({Verb.SEE}))
    request = {"json": {"agent": "assistant", "input": "Hi"}}

    started, repeated = (
        door.post("/v1/runs", **request, headers=bearer(each) | {"Idempotency-Key": "once"}) for each in (key, seeing)
    )

    assert started.status_code == 202
    assert (repeated.status_code, repeated.json["code"]) == (403, "agent_forbidden")


TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}


def test_every_invalid_key_is_refused_with_the_same_words(door: Any, journal: Journal) -> None:
    (revoked, revoked_key), (_, wrong), (_, disabled_key) = make(journal), make(journal), make(journal, "gone")
    _, foreign = KeyForm(lambda: "0f" * 32).make()
    with journal.database.write() as connection:
        keys.revoke(connection, revoked.id, None, by="root")
        principals.disable(connection, "default", "gone", by="root")
    form = KeyForm(partial(shared_secret, journal.database, SECRET_NAME))
    forged = forge(wrong)
    assert form.id_of(forged)

    answers = [
        door.get("/v1/runs", headers=TRACE | bearer(key))
        for key in (revoked_key, forged, disabled_key, foreign, "cbk_x")
    ]

    assert {(answer.status_code, answer.text) for answer in answers} == {(401, answers[0].text)}


def forge(key: str) -> str:
    """Return a key with the same id and another secret, whose checksum is right."""
    start = key[:-36] + "x" * 30
    return start + encoded(zlib.crc32(start.encode()), 6)


def test_revocation_is_seen_by_the_next_request(door: Any, journal: Journal) -> None:
    api_key, key = make(journal)
    assert door.get("/v1/runs", headers=bearer(key)).status_code == 200

    with journal.database.write() as connection:
        keys.revoke(connection, api_key.id, None, by="root")

    assert door.get("/v1/runs", headers=bearer(key)).status_code == 401


def test_a_key_of_this_deployment_is_checked_where_none_is_required(client: Any, runner: Any) -> None:
    api_key, key = make(runner.journal)
    run_id = client.post("/v1/runs", json={"agent": "assistant", "input": "Hi"}, headers=bearer(key)).json["run_id"]
    with runner.journal.database.write() as connection:
        keys.revoke(connection, api_key.id, None, by="root")

    assert client.get(f"/v1/runs/{run_id}").json["principal"] == "ci"
    assert client.get("/v1/runs", headers=bearer(key)).status_code == 401
    assert client.get("/v1/runs", headers=bearer("eyJhbGciOiJub25lIn0.e30.")).status_code == 200


def test_last_use_is_recorded_beside_the_request(door: Any, journal: Journal) -> None:
    _, key = make(journal)

    door.get("/v1/agents", headers=bearer(key))

    def used_ms() -> int | None:
        with journal.database.read() as connection:
            return keys.of_tenant(connection, None)[0].used_ms

    eventually(lambda: used_ms() is not None)


@pytest.mark.usefixtures("at_once")
def test_a_known_key_is_asked_for_once(door: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "FRESH_S", 60.0)
    _, key = make(journal)
    (_, wrong), (_, foreign) = make(journal), KeyForm(lambda: "0f" * 32).make()
    door.get("/v1/agents", headers=bearer(key))
    queries = []
    event.listen(journal.database.engine, "before_cursor_execute", lambda *facts: queries.append(facts[2]))

    for _ in range(5):
        assert door.get("/v1/agents", headers=bearer(key)).status_code == 200
        assert door.get("/v1/agents", headers=bearer(foreign)).status_code == 401
        assert door.get("/v1/agents", headers=bearer(forge(wrong))).status_code == 401

    assert len([query for query in queries if "FROM api_keys" in query]) == 1


def test_strangers_with_a_key_see_the_whole_health(door: Any, journal: Journal) -> None:
    _, key = make(journal)

    assert door.get("/health").json.keys() == {"status"}
    assert "workers" in door.get("/health", headers=bearer(key)).json
    assert door.get("/health", headers=bearer(forge(key))).json.keys() == {"status"}


# --- keys over HTTP


def test_any_number_of_strangers_costs_one_look_at_the_health(
    door: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.api.health.FRESH_S", 60.0)
    monkeypatch.setattr("bus.journal.storage.write_probe.FRESH_S", 60.0)
    first, statements = door.get("/health"), []
    event.listen(journal.database.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))

    others = [door.get("/health") for _ in range(20)]

    assert {(each.status_code, each.text) for each in others} == {(first.status_code, first.text)}
    assert [sql for sql in statements if "workers" in sql] == []


def test_an_administrator_manages_the_keys_of_its_tenant(door: Any, journal: Journal) -> None:
    (_, admin), (other, _) = make(journal, "root", Role.ADMIN, tenant="acme"), make(journal, tenant="zeta")
    fields = {"name": "ci", "roles": ["viewer"], "verbs": ["see"], "agents": ["assistant"], "expires_in_s": 3600}

    response = door.post("/v1/keys", json=fields, headers=bearer(admin))
    facts = {name: response.json[name] for name in ("name", "tenant", "roles", "verbs", "agents", "created_by")}
    assert (response.status_code, facts) == (
        201,
        {name: fields[name] for name in ("name", "roles", "verbs", "agents")}
        | {"tenant": "acme", "created_by": "root"},
    )
    assert door.get("/v1/runs", headers=bearer(response.json["key"])).status_code == 200
    listed = door.get("/v1/keys", headers=bearer(admin))
    assert [key["name"] for key in listed.json["keys"]] == ["ci", "root"]
    assert "cbk_" not in listed.text

    for _ in range(2):
        assert door.delete(f"/v1/keys/{response.json['id']}", headers=bearer(admin)).status_code == 204
    assert door.get("/v1/runs", headers=bearer(response.json["key"])).status_code == 401
    refused = [door.delete(f"/v1/keys/{key_id}", headers=bearer(admin)) for key_id in (other.id, "none")]
    assert [(answer.status_code, answer.json["code"]) for answer in refused] == [(404, "key_unknown")] * 2


def test_a_key_that_was_revoked_this_moment_creates_no_other(
    door: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "FRESH_S", 60.0)
    api_key, admin = make(journal, "root", Role.ADMIN)
    assert door.get("/v1/runs", headers=bearer(admin)).status_code == 200
    with journal.database.write() as connection:
        keys.revoke(connection, api_key.id, None, by="root")

    assert door.get("/v1/runs", headers=bearer(admin)).status_code == 200, "it is used for half a second"
    assert door.post("/v1/keys", json={"name": "ci"}, headers=bearer(admin)).status_code == 401


def test_keys_are_listed_in_pages(door: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "wall_ms", lambda _: 1_800_000_000_000)  # all of one millisecond
    _, admin = make(journal, "root", Role.ADMIN)
    key_ids = {make(journal, f"ci{number}")[0].id for number in range(6)}
    make(journal, "other", tenant="zeta")

    listed, path = [], "/v1/keys?limit=3"
    while path:
        page = door.get(path, headers=bearer(admin)).json
        listed.append([key["id"] for key in page["keys"]])
        path = f"/v1/keys?limit=3&before={page['next']}" if "next" in page else ""

    assert [len(ids) for ids in listed] == [3, 3, 1]
    assert key_ids < {key_id for ids in listed for key_id in ids}


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "before=x", "before=WzEsMl0", "after=1"])
def test_a_place_that_is_none_is_refused(door: Any, journal: Journal, query: str) -> None:
    _, admin = make(journal, "root", Role.ADMIN)

    refused = door.get(f"/v1/keys?{query}", headers=bearer(admin))

    assert (refused.status_code, refused.json["code"]) == (400, "bad_request")


def test_no_key_acts_as_the_own_principal_of_the_installation(door: Any, journal: Journal) -> None:
    _, admin = make(journal, "root", Role.ADMIN)

    refused = door.post("/v1/keys", json={"name": "local"}, headers=bearer(admin))

    assert (refused.status_code, refused.json["code"]) == (400, "name_reserved")
    assert "give the key another name" in refused.json["detail"]


@pytest.mark.parametrize("role", [None, Role.VIEWER, Role.OPERATOR, Role.APPROVER])
@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/keys"), ("POST", "/v1/keys"), ("DELETE", "/v1/keys/x")])
def test_only_administrators_manage_keys(
    door: Any, journal: Journal, role: Role | None, method: str, path: str
) -> None:
    _, key = make(journal, "ci", *([role] if role else []))

    refused = door.open(path, method=method, json={"name": "x"} if method == "POST" else None, headers=bearer(key))

    assert (refused.status_code, refused.json["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/keys"), ("POST", "/v1/keys"), ("DELETE", "/v1/keys/{id}"), ("GET", "/v1/audit")],
)
def test_a_key_for_some_agents_administers_nothing(door: Any, journal: Journal, method: str, path: str) -> None:
    (other, _), (_, key) = make(journal), make(journal, "root", Role.ADMIN, agents=frozenset({"assistant"}))
    body = {"name": "x", "agents": ["assistant"]} if method == "POST" else None

    refused = door.open(path.format(id=other.id), method=method, json=body, headers=bearer(key))

    assert (refused.status_code, refused.json["code"]) == (403, "forbidden")
    assert "for all agents" in refused.json["detail"]


def test_a_key_for_some_agents_is_refused_the_verb_that_needs_all(door: Any, journal: Journal) -> None:
    _, key = make(journal, "root", Role.ADMIN)
    body = {"name": "ci", "agents": ["assistant"], "verbs": ["see", "administer"]}

    refused = door.post("/v1/keys", json=body, headers=bearer(key))

    assert (refused.status_code, refused.json["code"]) == (400, "bad_request")
    assert "leave out the verb or the agents" in refused.json["detail"]


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"name": "ci", "verbs": []}, "'verbs' has to be a list that is not empty."),
        ({"name": "ci", "agents": []}, "'agents' has to be a list of 1 to 100 values."),
        ({"name": "ci", "agents": ["a"] * 101}, "'agents' has to be a list of 1 to 100 values."),
    ],
)
def test_a_list_of_the_wrong_length_is_refused_with_the_right_one(
    door: Any, journal: Journal, body: dict[str, Any], detail: str
) -> None:
    _, key = make(journal, "root", Role.ADMIN)

    refused = door.post("/v1/keys", json=body, headers=bearer(key))

    assert (refused.status_code, refused.json["detail"]) == (400, detail)


@pytest.mark.parametrize(
    ("scope", "fields"),
    [
        ({"verbs": frozenset({Verb.SEE, Verb.ADMINISTER})}, {}),
        ({"verbs": frozenset({Verb.SEE, Verb.ADMINISTER})}, {"verbs": ["start"]}),
        ({"lifetime_s": 60}, {}),
        ({"lifetime_s": 60}, {"expires_in_s": 3600}),
    ],
)
def test_a_key_has_no_more_than_its_creator(
    door: Any, journal: Journal, scope: dict[str, Any], fields: dict[str, Any]
) -> None:
    _, key = make(journal, "root", Role.ADMIN, **scope)

    refused = door.post("/v1/keys", json={"name": "ci", **fields}, headers=bearer(key))

    assert (refused.status_code, refused.json["code"]) == (403, "scope_exceeded")


@pytest.mark.parametrize(
    "fields",
    [
        *({}, {"name": "../x"}, {"name": "x\n"}, {"name": ""}, {"name": "x" * 65}, {"name": "x", "roles": ["emperor"]}),
        *({"name": "x", "verbs": []}, {"name": "x", "expires_in_s": 0}, {"name": "x", "tenant": "zeta"}),
    ],
)
def test_what_cannot_be_is_refused(door: Any, journal: Journal, fields: dict[str, Any]) -> None:
    _, key = make(journal, "root", Role.ADMIN)

    refused = door.post("/v1/keys", json=fields, headers=bearer(key))

    assert (refused.status_code, refused.json["code"]) == (400, "bad_request")
    if "roles" in fields:
        assert "viewer" in refused.json["detail"]
