"""Every call of the OpenAPI document × every place of an id × every kind of caller: others' objects stay theirs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient
from sqlalchemy import and_, insert, select, update

from agents.runner import Runner
from bus.identity.credentials import grants, keys
from bus.identity.credentials.key_form import SECRET_NAME, KeyForm
from config.database.shared_secret import shared_secret
from config.database.tables import api_keys, approval_links, approvals, runs, sticky_approvals, threads
from config.identity.principal import Principal, Role, Verb
from config.ids import new_id
from config.settings import Settings
from tests.web.conftest import AGENT, RunOwner, furnish, opened, process_of, serve_queues
from web.app import create_app
from web.calls.document import document
from web.dialects.seeds import orchestrator

pytestmark = pytest.mark.parity  # half a thousand cases

SECRET = "violet-otter"
"""Stands in everything of ana's; an answer that has it shows something of hers."""
UNKNOWN = {
    "run_id": "run_00000000000000000000000000",
    "thread_id": "",
    "approval_id": "apr_00000000000000000000000000",
    "agent": "no-such-agent",
    "workflow": "no-such-workflow",
    "webhook": "no-such-webhook",
    "call_id": "call_00000000000000000000000000",
    "grant_id": "grt_00000000000000000000000000",
    "key_id": "0000000000000000",
    "token": "lnk_00000000000000000000000000.00",
    "sticky_id": "stk_00000000000000000000000000",
    "owner": "no-such-principal",
}
"""An id of each kind that nothing has; of threads a new one each time, since a call may create it."""
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
KIND = {"agent_id": "agent", "workflow_id": "workflow", "webhook_id": "webhook"}
"""Name of a parameter or field -> the kind of its id, where they differ."""
NO_IDS = {
    *(
        "answers",
        "content",
        "if_busy",
        "on_disconnect",
        "max_iterations",
        "priority",
        "expected_status",
        "place",
        "from_step",
        "mode",
        "unlisted",
        "alias",
        "share",
        "version",
        "after",
        "arguments",
        "digest",
        "at",
        "before",
        "correlation_id",
        "decision",
        "detached",
        "events",
        "event_type",
        "expires_in_s",
        "idle_s",
        "input",
    ),
    *("interval_ms", "Idempotency-Key", "If-None-Match", "Last-Event-ID", "last_event_id", "limit", "message"),
    *(
        "metadata",
        "name",
        "Prefer",
        "payload",
        "principal",
        "prompt",
        "query",
        "result",
        "roles",
        "search",
        "scope",
        "scope_s",
        "trace_id",
        "source",
        "status",
        "strategies",
        "ticket",
        "title",
        "verbs",
        "wait_s",
        "why",
    ),
    *("tool_name", "timeout", "Callboard-Envelope"),
    *("webhook-id", "webhook-timestamp", "webhook-signature", "x-github-delivery", "x-github-event"),
    *("x-github-hook-id", "x-hub-signature-256", "stripe-signature", "user-agent"),
    *("grant", "principal", "reason", "minutes"),
    *("since", "until", "q", "queue", "kind", "model", "sort", "by", "tool", "spans", "step"),
    *("node", "under", "failed_items", "action", "outcome", "target_id"),
    *("state", "code", "iss", "error", "error_description", "session_state", "to", "return_to", "everywhere"),
}
"""Parameters and fields that name no object; a new one has to be added here or to ``UNKNOWN``."""
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "StartRun": {"agent": "assistant", "input": "Hello"},
    "RunAgent": {"input": "Hello"},
    "SteerRun": {"content": "Hello"},
    "SetRun": {"max_iterations": 3},
    "EditMessage": {"place": "first"},
    "ForkThread": {"message": 1},
    "RerunRun": {"from_step": 1},
    "ProcessMessage": {"message": "Hello"},
    "ExecuteTool": {"tool_name": "clock", "timeout": 0},
    "SendPrompt": {"prompt": "Hello"},
    "Decide": {"decision": "fail"},
    "CreateKey": {"name": "made"},
    "Unseal": {"reason": "test"},
    "MakeLink": {"principal": "ana"},
    "Promote": {"version": 1},
    "Upgrade": {"digest": "0" * 64},
    "IssueGrant": {"agent": "assistant", "principal": "ana", "reason": "test"},
}
"""The required fields of a body."""
STREAMS = {("get", "/v1/events"), ("post", "/v1/agent/run"), ("get", "/v1/selftest/stream")}
"""Calls whose answers may stay open; the first piece is looked at."""
VERBS = {"get": Verb.SEE, "delete": Verb.CONTROL}


WORKFLOW = f"""\
name: Books
description: {SECRET}
access: {{tenants: [acme], principals: [ana]}}
nodes: [{{id: start, type: START}}, {{id: end, type: END}}]
edges: [{{source: start, target: end}}]
"""


WEBHOOK = f"""\
format: github
secret: "file:{__file__}"
start: {{agent: assistant, input: {SECRET}}}
"""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One call with one id in one place."""

    method: str
    path: str
    place: str
    """``path``, ``query`` or ``body``."""
    name: str
    is_body: bool
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return KIND.get(self.name, self.name)

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.place} {self.name}"

    @property
    def verb(self) -> Verb:
        """What the call does with a run or a thread."""
        if self.path.endswith(("/cancel", "/pause", "/resume", "/set", "/steer", "/upgrade")):
            return Verb.CONTROL
        if "/queue/" in self.path or "/signals/" in self.path:
            return Verb.CONTROL
        if self.path.endswith("/unseal"):
            return Verb.ADMINISTER
        if "/approvals/" in self.path:
            return Verb.DECIDE
        return VERBS.get(self.method, Verb.SEE)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory, empty_database: Any) -> Iterator[Runner]:
    folder = tmp_path_factory.mktemp("access")
    bare = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own; a developer's .env is not the tests'
        state_dir=folder,
        database_url=f"sqlite:///{folder / 'callboard.db'}",
        auth="required",
    )
    (folder / "webhooks").mkdir()
    furnished = furnish(bare.model_copy(update={"webhooks_dir": str(folder / "webhooks")}), folder, empty_database)
    with opened(furnished) as new_runner:
        (folder / "agents" / "ledger.yaml").write_text(f"{AGENT}access:\n  tenants: [acme]\n  principals: [ana]\n")
        (folder / "agents" / "books.yaml").write_text(WORKFLOW)
        (folder / "webhooks" / "shop.yaml").write_text(WEBHOOK)
        (folder / "agents" / "broken.yaml").write_text(f"name: {SECRET}\nnonsense: true\n")
        yield new_runner


@pytest.fixture(scope="module")
def client(runner: Runner) -> Iterator[FlaskClient]:
    app = create_app(runner.settings, runner)
    yield app.test_client()
    process_of(app).close()


ANA = Principal(tenant="acme", id="ana")
_IS_OF_ANA = and_(api_keys.c.tenant == ANA.tenant, api_keys.c.name == ANA.id)
CALLERS: dict[str, Principal] = {
    "another tenant": Principal(tenant="zeta", id="ana", roles=frozenset(Role)),
    "another principal": Principal(tenant="acme", id="ben"),
    "another agent's credential": Principal(tenant="acme", id="ana", agents=frozenset({"none"})),
    **{str(role): Principal(tenant="acme", id=f"a-{role}", roles=frozenset({role})) for role in Role},
    "its owner": ANA,
}
REFUSED = ("no credential", "garbage", "a wrong secret", "expired", "revoked")


@pytest.fixture(scope="module")
def credentials(runner: Runner) -> dict[str, dict[str, str]]:
    """The headers of each kind of caller."""
    database = runner.journal.database
    form = KeyForm(partial(shared_secret, database, SECRET_NAME))
    form.open()
    with database.write() as connection:
        make = partial(keys.create, connection, form, by="root")
        tokens = {name: make(principal)[1] for name, principal in CALLERS.items()}
        (old, expired), (gone, revoked), (_, wrong) = (make(Principal(tenant="acme", id="ana")) for _ in range(3))
        connection.execute(update(api_keys).where(api_keys.c.id == old.id).values(expires_ms=1))
        keys.revoke(connection, gone.id, None, by="root")
    tokens |= {"garbage": "cbk_garbage", "a wrong secret": wrong[:-8] + wrong[-8:][::-1]}
    tokens |= {"expired": expired, "revoked": revoked}
    headers = {name: {"Authorization": f"Bearer {key}"} for name, key in tokens.items()}
    return headers | {"no credential": {}}


def issued(runner: Runner) -> str:
    """Return the id of a grant that ana may use."""
    form = grants.GrantForm(partial(shared_secret, runner.journal.database, grants.SECRET_NAME))
    form.open()
    with runner.journal.database.write() as connection:
        fields = {"principal": "ana", "agent_id": "ledger", "reason": SECRET}
        return grants.issue(connection, form, CALLERS["admin"], **fields, lifetime_s=60)[0].id


@dataclass(frozen=True, kw_only=True)
class Objects:
    """What ana has: one object of each kind."""

    make: Callable[[bool], Mapping[str, str]]
    """Returns the ids of new objects, by kind, for a call that may change them; True: of a private run."""
    same: Callable[[bool], Mapping[str, str]]
    """Returns the ids of objects that calls share which are all refused, so that they change nothing."""


@pytest.fixture(scope="module")
def objects(runner: Runner, credentials: Mapping[str, object]) -> Objects:

    def make(is_private: bool) -> Mapping[str, str]:
        thread_id = new_id("talk")
        run_id = runner.run(f"{SECRET} says hello", "assistant", thread_id=thread_id, principal=ANA).run_id
        owner = RunOwner(runner.journal, run_id)
        owner.finish(f"{SECRET} answers")
        with runner.journal.database.write() as connection:
            question = {"id": f"apr_{run_id}", "run_id": run_id, "decisions_json": '["fail"]', "created_ms": 1}
            connection.execute(insert(approvals), question | {"name": SECRET})
            if is_private:
                connection.execute(update(runs).where(runs.c.id == run_id).values(private=True))
                connection.execute(update(threads).where(threads.c.id == thread_id).values(private=True))
            key_id = connection.execute(select(api_keys.c.id).where(_IS_OF_ANA)).scalars().first() or ""
        ids = {"run_id": run_id, "thread_id": thread_id, "approval_id": f"apr_{run_id}", "key_id": key_id}
        ids["call_id"], ids["sticky_id"] = ids["approval_id"], _sticky(runner, run_id, thread_id)
        ids["grant_id"] = issued(runner)
        ids["token"] = _link(runner, run_id)
        return ids | {"agent": "ledger", "workflow": "books", "webhook": "shop", "owner": "ana", "name": "paid"}

    return Objects(make=make, same=cache(make))


def _link(runner: Runner, run_id: str) -> str:
    """Return what a link of ana's to the question of a run would end with, if the run were waiting."""
    row = {"id": f"lnk_{run_id}", "tenant": ANA.tenant, "run_id": run_id, "approval_id": f"apr_{run_id}"}
    row |= {"principal": ANA.id, "created_by": ANA.id}
    with runner.journal.database.write() as connection:
        connection.execute(insert(approval_links), row | {"created_ms": 1, "expires_ms": 2**60})
    return f"lnk_{run_id}.00"


def _sticky(runner: Runner, run_id: str, thread_id: str) -> str:
    """Return a new sticky approval of ana's."""
    row: dict[str, Any] = {"id": f"stk_{run_id}", "tenant": ANA.tenant, "principal": ANA.id, "agent_id": "assistant"}
    row |= {"thread_id": thread_id, "private": False, "scope": "thread", "name": SECRET, "tool_digest": "0" * 64}
    row |= {"approval_id": f"apr_{run_id}", "approved_by": "ana", "created_ms": 1, "expires_ms": 2**60}
    with runner.journal.database.write() as connection:
        connection.execute(insert(sticky_approvals), row)
    return f"stk_{run_id}"


# --- the calls of the document ------------------------------------------------------------------


def operations(doc: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, calls in doc["paths"].items():
        for method, operation in calls.items():
            yield method, path, operation


def fields_of(doc: Mapping[str, Any], operation: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the fields of an operation's body."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = str(content.get("schema", {}).get("$ref", "")).rpartition("/")[2]
    schema = doc["components"]["schemas"].get(name, {})
    return name, schema.get("properties", {})


def probes(doc: Mapping[str, Any]) -> Iterator[Probe]:
    """Yield each place of an id in each call."""
    for method, path, operation in operations(doc):
        schema, fields = fields_of(doc, operation)
        probe = partial(Probe, method=method, path=path, is_body=bool(schema), body=FIELDS.get(schema, {}))
        for parameter in operation.get("parameters", ()):
            if KIND.get(parameter["name"], parameter["name"]) in UNKNOWN:
                yield probe(place=parameter["in"], name=parameter["name"])
        for name in fields:
            if KIND.get(name, name) in UNKNOWN:
                yield probe(place="body", name=name)
        if "config" in fields:
            yield probe(place="config", name="agent_id")
        if "agents" in fields:
            yield probe(place="agents", name="agent")


DOC = document(create_app(Settings(_env_file=None)))  # type: ignore[call-arg]
PROBES = list(probes(DOC))


def test_every_parameter_and_field_is_known_to_name_an_object_or_none() -> None:
    names: set[str] = set()
    for _, _, operation in operations(DOC):
        names |= {parameter["name"] for parameter in operation.get("parameters", ())} | set(
            fields_of(DOC, operation)[1]
        )
    ids = {name for name in names if KIND.get(name, name) in UNKNOWN}

    assert names - ids - NO_IDS - {"config", "agents"} == set(), "add them to UNKNOWN or NO_IDS"
    assert {probe.path for probe in PROBES} >= {path for _, path, _ in operations(DOC) if "{" in path}


# --- asking -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Got:
    status: int
    text: str
    etag: str | None


def ask(client: FlaskClient, probe: Probe, ids: Mapping[str, str], headers: Mapping[str, str], **query: str) -> Got:
    """Return the answer to a call with these ids in its path, and the probed one in its place."""
    path = re.sub(r"\{(\w+)\}", lambda match: {"version": "1", **ids}[KIND.get(match[1], match[1])], probe.path)
    value, body = ids[probe.kind], dict(probe.body)
    if probe.kind == "workflow" and body:
        body = {"input": {}}  # in place of an agent's message
    if probe.place == "query":
        query[probe.name] = value
    elif probe.place == "body":
        body[probe.name] = value
    elif probe.place == "config":
        body["config"] = {probe.name: value}
    elif probe.place == "agents":
        body["agents"] = [value]
    sent: dict[str, Any] = {"json": body} if probe.is_body else {}
    headers = {"traceparent": TRACE, **headers}  # answers to compare have the same trace id
    response = client.open(path, method=probe.method.upper(), query_string=query, headers=headers, **sent)
    with closing(response):
        if (probe.method, probe.path) in STREAMS and response.status_code == 200:
            first: Any = next(iter(response.response), b"")
            text = first.decode() if isinstance(first, bytes) else first
        else:
            text = response.get_data(as_text=True)
    return Got(status=response.status_code, text=text, etag=response.headers.get("ETag"))


def code_of(text: str) -> str:
    return str(orjson.loads(text)["code"])


def unknown_ids(probe: Probe, ids: Mapping[str, str]) -> dict[str, str]:
    """Return the ids with an unknown one in the probed place."""
    return {**ids, probe.kind: new_id("talk") if probe.kind == "thread_id" else UNKNOWN[probe.kind]}


def alike(got: Got, ids: Mapping[str, str]) -> tuple[int, str]:
    """Return an answer without the ids of the request, and without what is made anew for each."""
    text = got.text
    for value in sorted(ids.values(), key=len, reverse=True):
        text = text.replace(value, "ID")
    text = re.sub(r"(run|thr|msg|cbk|err|talk)_[0-9A-Za-z]+", "NEW", text)
    text = re.sub(r'"(id|key)":"[^"]+"', r'"\1":"NEW"', text)
    return got.status, re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orchestrator, "WAIT_S", 0)


@pytest.mark.parametrize("caller", REFUSED)
@pytest.mark.parametrize("probe", PROBES, ids=str)
def test_without_a_valid_credential_every_call_is_refused_alike(
    probe: Probe, caller: str, client: FlaskClient, credentials: Mapping[str, Mapping[str, str]], objects: Objects
) -> None:
    ids = objects.same(False)

    theirs = ask(client, probe, ids, credentials[caller])
    unknown = ask(client, probe, unknown_ids(probe, ids), credentials[caller])

    assert theirs.status == 401
    assert SECRET not in theirs.text
    assert theirs == unknown


DEFINED = ("agent", "workflow")
STRANGERS = ("another tenant", "another principal", "another agent's credential")


def is_exempt(probe: Probe, caller: str) -> bool:
    """Return whether the caller has, or sees, an object of this name after all."""
    if caller == "another tenant":
        return probe.kind == "owner"  # its own name
    return caller == "another principal" and probe.kind in DEFINED  # one of its tenant, which it may not start


FOREIGN = [(probe, caller) for probe in PROBES for caller in STRANGERS if not is_exempt(probe, caller)]


@pytest.mark.parametrize("is_private", [False, True], ids=["shared", "private"])
@pytest.mark.parametrize(("probe", "caller"), FOREIGN, ids=str)
def test_what_is_foreign_looks_as_what_is_unknown(
    probe: Probe,
    caller: str,
    is_private: bool,
    client: FlaskClient,
    credentials: Mapping[str, Mapping[str, str]],
    objects: Objects,
) -> None:
    ids = objects.make(is_private)
    none = unknown_ids(probe, ids)

    theirs = ask(client, probe, ids, credentials[caller])
    unknown = ask(client, probe, none, credentials[caller])

    assert theirs.status < 500
    assert SECRET not in theirs.text
    assert alike(theirs, ids) == alike(unknown, none)


@pytest.mark.parametrize("caller", [name for name in CALLERS if name != "another agent's credential"])
@pytest.mark.parametrize("probe", [probe for probe in PROBES if probe.kind in DEFINED], ids=str)
def test_a_broken_definition_is_unknown_to_all_but_the_deployments_administrators(
    probe: Probe, caller: str, client: FlaskClient, credentials: Mapping[str, Mapping[str, str]], objects: Objects
) -> None:
    ids = {**objects.make(False), probe.kind: "broken"}
    none = unknown_ids(probe, ids)

    broken = ask(client, probe, ids, credentials[caller])

    assert SECRET not in broken.text
    assert alike(broken, ids) == alike(ask(client, probe, none, credentials[caller]), none)


# --- with a role --------------------------------------------------------------------------------


REACHED = [probe for probe in PROBES if probe.place == "path" and probe.kind in ("run_id", "thread_id")]
"""Elsewhere such an id names a thread of the caller's own, or filters a list."""


@pytest.mark.parametrize("is_private", [False, True], ids=["shared", "private"])
@pytest.mark.parametrize("caller", [*map(str, Role), "its owner"])
@pytest.mark.parametrize("probe", REACHED, ids=str)
def test_a_role_reaches_what_it_says(
    probe: Probe,
    caller: str,
    is_private: bool,
    client: FlaskClient,
    credentials: Mapping[str, Mapping[str, str]],
    objects: Objects,
) -> None:
    ids, principal = objects.make(is_private), CALLERS[caller]
    is_repeated = probe.path.endswith(("/fork", "/rerun", "/retry"))  # what comes of it is the caller's own
    query = {"owner": "ana"} if probe.kind == "thread_id" and not is_repeated else {}

    got = ask(client, probe, ids, credentials[caller], **query)

    is_own, needs = principal.id == "ana", 3 if is_private else 2
    sees = is_own or principal.reach(Verb.SEE) >= needs
    may = (is_own and probe.verb is not Verb.ADMINISTER) or principal.reach(probe.verb) >= needs
    if is_repeated and not is_own:
        assert got.status in (403, 404)
        assert SECRET not in got.text
    elif not sees:
        assert got.status == 404
        assert SECRET not in got.text
    elif not may:
        assert (got.status, code_of(got.text)) == (403, "forbidden")
    else:
        assert got.status in (200, 201, 202, 204, 409) or code_of(got.text) == "step_unknown", got.text


@pytest.mark.parametrize("caller", [name for name in CALLERS if name not in ("admin", "another tenant")])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/keys", None),
        ("POST", "/v1/keys", {"name": "mine", "roles": ["admin"]}),
        ("DELETE", "/v1/keys/0000000000000000", None),
        ("GET", "/v1/audit", None),
        ("GET", "/v1/audit/verification", None),
        ("GET", "/v1/grants", None),
        ("POST", "/v1/grants", {"agent": "assistant", "principal": "ben", "reason": "mine"}),
        ("DELETE", "/v1/grants/grt_00000000000000000000000000", None),
    ],
)
def test_only_administrators_administer(
    caller: str,
    method: str,
    path: str,
    body: Mapping[str, Any] | None,
    client: FlaskClient,
    credentials: Mapping[str, Mapping[str, str]],
) -> None:
    answer = client.open(path, method=method, headers=dict(credentials[caller]), json=body)

    assert (answer.status_code, code_of(answer.text)) == (403, "forbidden")


LISTS = ("/v1/runs", "/v1/threads?owner=*", "/v1/agents", "/v1/workflows", "/v1/tools", "/tools", "/health", "/ready")
METRICS = "/metrics"
FLEET = ("/v1/workers", "/v1/queues", "/v1/metrics", "/v1/policy", "/v1/doctor")
DECIDED = ("/v1/approvals?state=answered", "/v1/approvals?state=holding", "/v1/approvals/decided?tool=violet-otter")
COUNTS = [f"/v1/runs/counts?by={by}" for by in ("status", "agent", "code", "queue", "owner")]


@pytest.mark.parametrize(
    "path",
    [
        *LISTS,
        *COUNTS,
        *FLEET,
        *DECIDED,
        METRICS,
        "/v1/runs?status=open",
        "/v1/runs?q=violet",
        "/v1/threads?search=violet",
        "/v1/keys",
        "/v1/audit",
        "/v1/audit/verification",
        "/v1/observers?name=violet",
        "/v1/runs?tool=violet",
    ],
)
@pytest.mark.parametrize("caller", STRANGERS)
def test_no_list_shows_a_stranger_anything(
    caller: str, path: str, client: FlaskClient, credentials: Mapping[str, Mapping[str, str]], objects: Objects
) -> None:
    serve_queues(process_of(client.application).journal, "runs")
    objects.make(False)

    answer = client.get(path, headers=dict(credentials[caller]))

    assert answer.status_code in (200, 403)
    assert SECRET not in answer.text
    assert "/agents/" not in answer.text  # the folder of a definition that cannot be used


@pytest.mark.parametrize("caller", [*REFUSED, *STRANGERS])
def test_no_query_shows_a_stranger_what_belongs_together(
    caller: str, client: FlaskClient, credentials: Mapping[str, Mapping[str, str]]
) -> None:
    event = {"correlation_id": "theirs", "event_type": "said", "source": SECRET, "payload": {"text": SECRET}}
    started = {"agent": "assistant", "input": SECRET, "metadata": {"correlation_id": "theirs"}}
    for path, body in (("/events", event), ("/v1/runs", started)):
        assert client.post(path, headers=dict(credentials["its owner"]), json=body).status_code in (201, 202)

    answer = client.post("/query", headers=dict(credentials[caller]), json={"query": "theirs"})

    if caller in REFUSED:
        assert (answer.status_code, code_of(answer.text)) == (401, "unauthenticated")
    elif caller == "another agent's credential":  # an event is its principal's, and of no agent
        assert {result["kind"] for result in orjson.loads(answer.text)["results"]} == {"event"}
    else:
        assert answer.json == {"results": []}
