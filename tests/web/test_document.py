"""The OpenAPI document: it has every call, and what the calls take and answer is what it says."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import jsonschema_rs
import orjson
import pytest
from authlib.integrations.httpx_client import OAuth2Client
from flask import Blueprint, Flask, Response

from bus.payloads import EVENT_TYPES, ErrorPayload, ReasoningPayload, ToolPayload, ToolResultPayload
from config.folders import ROOT
from config.settings import Settings
from tests.raising import raises
from tests.web.conftest import RunOwner, accept, process_of
from tests.web.contract import DIFFERENCES, contract_of, data_of, watch
from web.app import create_app
from web.calls.call import call, declared
from web.calls.document import COMPATIBILITY
from web.calls.fields import Answer, Maybe, docstrings
from web.oidc.errors import PROVIDER_UNREACHABLE
from web.oidc.provider import ENDPOINTS, Provider

FILES = {"page.callback", "page.index", "page.reference", "page.icon", "page.static_file"}
OTHERS = {"mcp.endpoint", "mcp.metadata"}
"""What follows another protocol's document."""
KEY = "Idempotency-Key"
READS = re.compile(r"request\.(args|values|form|json|get_json|data|get_data|headers|cookies)\b")


@pytest.fixture
def doc(door) -> dict[str, Any]:
    return door.get("/openapi.json").json


def test_every_call_is_declared(app: Flask) -> None:
    undeclared = {
        rule.endpoint for rule in app.url_map.iter_rules() if declared(app.view_functions[rule.endpoint]) is None
    }

    assert undeclared == FILES | OTHERS, "declare each HTTP call with @call (web/calls/call.py)"


@pytest.mark.parity
def test_every_call_that_starts_a_run_takes_an_idempotency_key(doc) -> None:
    posts = {path: calls["post"] for path, calls in doc["paths"].items() if "post" in calls}
    starting = {path for path, call in posts.items() if "too_many_runs" in orjson.dumps(call).decode()}
    keyed = {
        path
        for path, call in posts.items()
        if any(parameter["name"] == KEY for parameter in call.get("parameters", ()))
    }

    assert starting >= {"/v1/runs", "/execute", "/process", "/v1/agent/run", "/send-prompt"}
    assert starting - {"/v1/webhooks/{webhook_id}"} <= keyed  # a delivery has an id


@pytest.mark.parity
def test_no_field_of_an_answer_is_null_besides_those_that_the_page_names(doc) -> None:
    schemas = doc["components"]["schemas"]
    answers = {name for name in schemas if name not in inputs_of(doc)}
    nullable = {
        field
        for name in answers
        for field, schema in schemas[name].get("properties", {}).items()
        if {"type": "null"} in schema.get("anyOf", ())
    }

    assert nullable == {"effect", "input_schema", "scope_s"}


def inputs_of(doc: dict[str, Any]) -> set[str]:
    bodies = [
        call["requestBody"] for calls in doc["paths"].values() for call in calls.values() if "requestBody" in call
    ]
    return set(re.findall(r"#/components/schemas/([^\"]*)", orjson.dumps(bodies).decode()))


def test_what_a_call_reads_of_a_request_is_what_it_declares() -> None:
    names = [path.name for path in (ROOT / "web/api").glob("*.py") if READS.search(path.read_text())]

    assert names == ["page.py"], "take `query`, `headers` and `body` as parameters, so that they are in the document"


def test_the_document_is_the_same_until_the_code_changes(door) -> None:
    first = door.get("/openapi.json")
    again = door.get("/openapi.json", headers={"If-None-Match": first.headers["ETag"]})

    assert first.json["openapi"].startswith("3.1.")
    assert (again.status_code, again.data) == (304, b"")


def test_its_schemas_are_json_schema(doc) -> None:
    schemas = [*doc["components"]["schemas"].values(), *(parameter["schema"] for parameter in parameters_of(doc))]

    for schema in schemas:
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


def parameters_of(doc: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        parameter
        for calls in doc["paths"].values()
        for call in calls.values()
        for parameter in call.get("parameters", ())
    ]


def test_its_references_lead_somewhere(doc) -> None:
    for reference in set(re.findall(r'"#/([^"]*)"', orjson.dumps(doc).decode())):
        node = doc
        for part in reference.split("/"):
            node = node[part]


def test_every_call_parameter_and_body_is_described(doc) -> None:
    calls = [call for calls in doc["paths"].values() for call in calls.values()]

    assert all(call["summary"].endswith(".") for call in calls), [call["operationId"] for call in calls]
    assert len({call["operationId"] for call in calls}) == len(calls)
    assert all(
        schema["description"] for schema in doc["components"]["schemas"].values() if schema.get("type") == "object"
    )


def test_every_parameter_and_header_is_described(doc) -> None:
    headers = [header for response in responses_of(doc) for header in response.get("headers", {}).values()]

    assert [parameter["name"] for parameter in parameters_of(doc) if not parameter.get("description")] == []
    assert len(headers) > 20
    assert all(header["description"] for header in headers)


def responses_of(doc: dict[str, Any]) -> list[dict[str, Any]]:
    calls = [call for calls in doc["paths"].values() for call in calls.values()]
    return [
        *doc["components"]["responses"].values(),
        *(response for call in calls for response in call["responses"].values()),
    ]


def test_every_call_says_how_it_refuses_and_when_to_try_again(doc) -> None:
    for calls in doc["paths"].values():
        for operation in calls.values():
            responses = {status: resolved(doc, response) for status, response in operation["responses"].items()}
            assert {"400", "401", "403", "429", "500", "503", "507"} <= set(responses), operation["operationId"]
            assert responses["401"]["headers"]["WWW-Authenticate"]["required"]
            assert all(
                responses[status]["headers"]["Retry-After"]["required"] for status in ("408", "429", "503", "507")
            )


def test_every_problem_says_whether_the_request_may_succeed_later(doc) -> None:
    problem = doc["components"]["schemas"]["ProblemDetails"]

    assert problem["properties"]["retryable"]["type"] == "boolean"
    assert "retryable" in problem["required"]


def resolved(doc: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    reference = response.get("$ref", "")
    return doc["components"]["responses"][reference.rpartition("/")[2]] if reference else response


def test_every_field_of_a_body_is_described_and_required_ones_have_an_example_that_is_taken(doc) -> None:
    schemas = doc["components"]["schemas"]
    bodies = [
        call["requestBody"] for calls in doc["paths"].values() for call in calls.values() if "requestBody" in call
    ]
    names = {body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2] for body in bodies}

    assert [
        (name, field)
        for name in names
        for field, field_schema in schemas[name].get("properties", {}).items()
        if "description" not in field_schema
    ] == []
    for name in names - {"ProviderAnswer"}:  # only the page sends what the provider made
        for field in schemas[name].get("required", ()):
            schema = schemas[name]["properties"][field]
            jsonschema_rs.validate({**schema, "components": doc["components"]}, schema["examples"][0])


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/threads", "/v1/threads/x/messages", "/v1/runs/x/events"])
def test_a_default_is_one_that_the_call_takes(doc, path: str) -> None:
    for parameter in doc["paths"][re.sub("/x/", "/{id}/", path).replace("{id}", id_of(path))]["get"]["parameters"]:
        if "default" in parameter["schema"]:
            jsonschema_rs.validate(parameter["schema"], parameter["schema"]["default"])


def test_both_bounds_of_every_number_in_an_address_are_taken(doc, door) -> None:
    for path, name, schema in numbers_of_addresses(doc):
        for bound in (schema["minimum"], schema["maximum"]):
            answer = door.get(re.sub(r"\{\w+\}", "unknown", path), query_string={name: bound})
            assert answer.status_code != 400, (path, name, bound, answer.json)


def numbers_of_addresses(doc: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return path, name and schema of each parameter of a GET that is a number between two bounds."""
    rows = [
        (path, parameter["name"], parameter["schema"])
        for path, methods in doc["paths"].items()
        for parameter in methods.get("get", {}).get("parameters", ())
        if parameter["in"] == "query" and {"minimum", "maximum"} <= set(parameter["schema"])
    ]
    assert ("/v1/runs/{run_id}/decisions", "after") in {(path, name) for path, name, _ in rows}
    return rows


def test_the_calls_of_earlier_designs_are_one_group_the_last(doc) -> None:
    groups = {path: call["tags"] for path, methods in doc["paths"].items() for call in methods.values()}

    assert doc["tags"][-1]["name"] == COMPATIBILITY
    older = "/v1/agent/run /process /execute /tools /events /query /send-prompt /confirm /tool-data /end-chat".split()
    assert {path: groups[path] for path in older} == {path: [COMPATIBILITY] for path in older}
    assert not [tag for tag in doc["tags"] if re.search(r"first \w+ design|seed", f"{tag}", re.IGNORECASE)]


def id_of(path: str) -> str:
    return "{run_id}" if "runs" in path else "{thread_id}"


def test_every_event_type_has_a_schema(doc) -> None:
    event = doc["components"]["schemas"]["Event"]

    assert set(event["discriminator"]["mapping"]) == set(EVENT_TYPES)
    tool = doc["components"]["schemas"]["ToolEvent"]
    assert tool["required"] == ["seq", "run_id", "thread_id", "at", "type", "call_id", "name"]
    assert tool["properties"]["content"]["description"] == "A readable form of the call, for lines and cards."


def test_a_run_with_every_kind_of_event_is_as_declared(app, client, runner, journal) -> None:
    run_id = accept(runner, metadata={"order": 17})
    owner = RunOwner(journal, run_id)
    owner.commit(ToolPayload(call_id="c1", name="clock"))
    owner.commit(ToolPayload(call_id="c1", name="clock", arguments={"zone": "UTC"}, content="clock()", effect="pure"))
    owner.commit(ToolResultPayload(call_id="c1", name="clock", outcome="done", result={"now": None}, duration_ms=3))
    owner.commit(ErrorPayload(code="model_failed", message="again", retryable=True, attempt=1, retry_in_ms=500))
    owner.commit(ReasoningPayload(content="So.", message_id="msg_1"))
    owner.say("It ", "is.")
    owner.finish("It is.", usage={"input_tokens": 1, "output_tokens": 2}, cost_usd=0.5, steps=2, duration_ms=9)

    page = client.get(f"/v1/runs/{run_id}/events", headers={"Accept": "application/json"})
    stream = client.get(f"/v1/runs/{run_id}/events")
    rest = [client.get(path) for path in (f"/v1/runs/{run_id}", "/v1/runs", "/v1/threads")]

    validator = contract_of(app).validator("/v1/runs/{run_id}/events", "get", "200", "text/event-stream")
    events = data_of(stream.text)
    assert [error.message for event in events for error in validator.iter_errors(event)] == []
    assert events == page.json["events"]
    assert {event["type"] for event in events} > {"status", "response", "tool", "tool_result", "error", "end"}
    assert all(answer.status_code == 200 for answer in rest)


class Shown(Answer):
    """An answer."""

    name: str
    size: Maybe[int] = None


@pytest.mark.parametrize(
    ("body", "status", "difference"),
    [
        ({"name": "x", "size": 1}, 200, None),
        ({"name": "x"}, 200, None),
        ({"name": "x", "sise": 1}, 200, "'sise' was unexpected"),
        ({"name": "x", "size": None}, 200, 'null is not of type "integer"'),
        ({"size": 1}, 200, '"name" is a required property'),
        ({"name": "x"}, 201, "is not declared"),
    ],
)
def test_an_answer_that_differs_is_found(body: Any, status: int, difference: str | None) -> None:
    blueprint = Blueprint("shown", __name__)

    @blueprint.get(f"/shown/{status}")
    @call({200: Shown})
    def show() -> Response:
        return Response(orjson.dumps(body), status, content_type="application/json")

    app = Flask("test")
    app.register_blueprint(blueprint)
    watch(app)
    app.test_client().get(f"/shown/{status}")

    differences = "\n".join(app.extensions[DIFFERENCES])
    assert (difference in differences) if difference else not differences


@pytest.mark.parity  # makes the document anew
def test_threads_that_ask_for_the_document_at_once_get_the_same(settings, runner) -> None:
    docstrings.cache_clear()
    app = create_app(settings, runner)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: app.test_client().get("/openapi.json"), range(8)))

    assert {(answer.status_code, answer.text) for answer in answers} == {(200, answers[0].text)}
    process_of(app).close()


ISSUER = "https://idp.example"


def discover(settings: Settings, **endpoints: object) -> object:
    document = dict.fromkeys(ENDPOINTS, f"{ISSUER}/x") | {"issuer": ISSUER} | endpoints
    answers = httpx2.MockTransport(lambda _: httpx2.Response(200, json=document))
    provider = Provider(settings.model_copy(update={"oidc_issuer": ISSUER}))
    with OAuth2Client("callboard", transport=answers) as client:
        return provider._discover(client)


@pytest.mark.parametrize("name", [*ENDPOINTS, "userinfo_endpoint", "end_session_endpoint"])
@pytest.mark.parametrize(
    "endpoint",
    [
        "javascript:alert(1)",
        "http://idp.example/x",
        "https://idp.example@evil.example/",
        "https://idp.example\\@evil.example/",
        "https://idp.example/a\r\nb",
        "https://2130706433/",
        "https:///x",
        "/x",
        None,
        5,
    ],
)
def test_an_address_that_can_be_read_in_two_ways_is_refused(settings: Settings, name: str, endpoint: object) -> None:
    with raises(PROVIDER_UNREACHABLE, match=f"no usable '{name}'"):
        discover(settings, **{name: endpoint})


def test_other_addresses_are_taken(settings: Settings) -> None:
    assert discover(settings, token_endpoint="https://tokens.idp.example:8443/realms/a%20b?c=d")
