"""One trace id and one correlation id, from a caller's request over HTTP through real processes and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import redis

from bus.keys import Keys
from config.identity.principal import Principal, Role
from config.settings import Settings
from config.tracing import trace_id_of
from tests.agents.governance.engine.engine_server import EngineServer
from tests.app_harness import AppHarness
from tests.credentials import key_of
from tests.fleet import Worker
from tests.journeys.neighbour import until
from tests.journeys.web_server import Web
from tests.model_server import Call, Turn
from tests.ports import free_port

pytestmark = [pytest.mark.journey, pytest.mark.timeout(240)]

TRACE, OTHER = "4bf92f3577b34da6a3ce929d0e0e4736", "a" * 32
ORDER = "order 4711"
AGENT = "tools: ['tests.journeys.outward_tools:fetch', 'tests.journeys.tracing_tools:note']"
REQUESTS_A_MINUTE = 30


def sent(trace_id: str = TRACE) -> dict[str, str]:
    return {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"}


@pytest.fixture(scope="module")
def provider() -> str:
    return "openai"


@pytest.fixture
def engine() -> Iterator[EngineServer]:
    with EngineServer() as server:
        yield server


@pytest.fixture
def ours(fleet_settings: Settings, engine: EngineServer) -> Settings:
    """A deployment that requires credentials, asks an engine, and logs JSON."""
    chosen = {
        "auth": "required",
        "port": free_port(),
        "governance_url": engine.url,
        "log_format": "json",
        "principal_requests_per_minute": REQUESTS_A_MINUTE,
    }
    return fleet_settings.model_copy(update=chosen)


@pytest.fixture
def web(ours: Settings) -> Iterator[Web]:
    with Web(ours) as served:
        yield served


def bearer(settings: Settings, name: str, **facts: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {key_of(settings, Principal(tenant=settings.tenant, id=name, **facts))}"}


def wake_up_of(settings: Settings) -> dict[str, Any]:
    """Return the message that waits for a worker, as it lies in Redis."""
    assert settings.redis_url is not None
    key = f"{Keys(settings.deployment).prefix}{settings.queue}"
    with redis.Redis.from_url(settings.redis_url) as client:
        until(lambda: client.llen(key) == 1, 20, "the relay published the wake-up")
        message: dict[str, Any] = orjson.loads(client.lindex(key, 0))
    return message


def test_one_trace_goes_through_the_whole_deployment(
    ours: Settings, web: Web, engine: EngineServer, fleet_harness: AppHarness
) -> None:
    ann = bearer(ours, "ann", roles=frozenset({Role.ADMIN}))
    fleet_harness.agent(AGENT)
    calls = [Call(name="fetch", arguments={"url": f"{engine.url}/elsewhere"}), Call(name="note", arguments={})]
    fleet_harness.model.script([Turn(calls=calls), Turn(text="Done.")])

    body = {"agent": "tester", "input": "Hello", "metadata": {"correlation_id": ORDER}}
    status, headers, answer, _ = web.ask("/v1/runs", body, **ann, **sent())
    assert (status, headers["X-Trace-Id"]) == (202, TRACE)
    run_id = answer["run_id"]

    message = wake_up_of(ours)
    assert trace_id_of(message["headers"]["traceparent"]) == TRACE
    assert message["headers"]["x-correlation-id"] == ORDER

    log_file = ours.state / "worker.log"
    with Worker(ours, "--concurrency", "2", log=log_file):
        wait = {"Prefer": "wait=60"}
        _, headers, run, _ = web.ask(f"/v1/runs/{run_id}", **ann, **wait, **sent(OTHER))
    assert (headers["X-Trace-Id"], run["status"]) == (OTHER, "succeeded"), run
    assert (run["trace_id"], run["correlation_id"]) == (TRACE, ORDER)

    requests = fleet_harness.model.requests
    assert [trace_id_of(request.headers.get("traceparent")) for request in requests] == [TRACE] * 2
    assert not any("x-correlation-id" in request.headers for request in requests)

    (done,) = engine.of("ActivityCompleted", "fetch")
    spans = {span["kind"]: span for span in done["spans"]}
    assert spans["http"]["trace_id"] == TRACE
    assert len(spans["http"]["span_id"]) == 16
    about_run = [event for event in engine.events if "event_type" in event]
    assert {(event["trace_id"], event["correlation_id"]) for event in about_run} == {(TRACE, ORDER)}
    governed = [header for header in engine.headers if header["path"].endswith("/governance/evaluate")]
    assert {
        (trace_id_of(request_headers["traceparent"]), request_headers["x-correlation-id"])
        for request_headers in governed
    } == {(TRACE, ORDER)}

    page = web.ask(f"/v1/runs/{run_id}/events", **ann, Accept="application/json")[2]
    assert (page["events"][0]["trace_id"], page["events"][0]["correlation_id"]) == (TRACE, ORDER)

    lines = [orjson.loads(line) for line in log_file.read_bytes().splitlines() if line.startswith(b"{")]
    (noted,) = [line for line in lines if line["message"] == "a tool noted something"]
    assert (noted["trace_id"], noted["correlation_id"], noted["run_id"]) == (TRACE, ORDER, run_id)
    assert {line["trace_id"] for line in lines if line.get("run_id") == run_id} == {TRACE}

    bob = bearer(ours, "bob")
    for query in (f"trace_id={TRACE}", f"correlation_id={ORDER.replace(' ', '%20')}"):
        assert [entry["run_id"] for entry in web.ask(f"/v1/runs?{query}", **ann)[2]["runs"]] == [run_id]
        assert web.ask(f"/v1/runs?{query}", **bob)[2]["runs"] == []  # a trace id gives no right
    assert web.ask(f"/v1/runs?trace_id={OTHER}", **ann)[2]["runs"] == []


def test_each_refusal_names_the_trace(ours: Settings, web: Web) -> None:
    ann, busy = bearer(ours, "ann"), bearer(ours, "busy")
    while web.ask("/v1/agents", **busy)[0] != 429:
        pass
    run, too_long = {"agent": "tester", "input": "Hello"}, {"agent": "tester", "input": "x" * 3_000_000}
    refused = {
        401: web.ask("/v1/runs", **sent()),
        403: web.ask("/v1/runs", run, **ann, **sent(), Origin="https://evil.example"),
        404: web.ask("/v1/runs/run_none", **ann, **sent()),
        405: web.ask("/v1/agents", run, **ann, **sent()),
        413: web.ask("/v1/runs", too_long, **ann, **sent()),
        422: web.ask("/query", {"query": "a", "strategies": ["guess"]}, **ann, **sent()),
        429: web.ask("/v1/agents", **busy, **sent()),
    }

    traces = {status: (answer[0], answer[1]["X-Trace-Id"], answer[2]["trace_id"]) for status, answer in refused.items()}
    assert traces == {status: (status, TRACE, TRACE) for status in refused}
