"""`/metrics` is for those who see the runs of others in the operators' tenant, in the form that a scraper asks for."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agents.runner import Runner
from config.identity.principal import Principal, Role, Verb
from config.settings import Settings
from tests.credentials import key_of
from web.app import create_app

PROMETHEUS, OPENMETRICS = "text/plain; version=", "application/openmetrics-text; version=1.0.0"


@pytest.mark.parametrize("accept", ["", "text/plain", "*/*"])
def test_prometheus_reads_what_this_process_measures(runner: Runner, settings: Settings, accept: str):
    client = create_app(settings, runner).test_client()
    for path in ("/health", "/v1/agents", "/v1/runs/run_none"):
        client.get(path)

    answer = client.get("/metrics", headers={"Accept": accept})
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }

    assert answer.content_type.startswith(PROMETHEUS)
    assert samples["callboard_database_up",] == 1
    assert samples["callboard_http_requests_total", "GET", "404"] == 1
    assert samples["callboard_http_requests_total", "GET", "200"] == 2
    assert samples["callboard_http_request_duration_seconds_count", "GET"] == 3
    assert samples["callboard_http_active_connections",] == 1
    assert samples["callboard_scaling_threshold", "queue_depth"] == 100
    assert samples["callboard_scaling_signal", "api_requests_per_second"] == pytest.approx(2 / 60)  # no probe


def test_a_scraper_that_asks_for_openmetrics_gets_it(runner: Runner, settings: Settings):
    client = create_app(settings, runner).test_client()

    answer = client.get("/metrics", headers={"Accept": OPENMETRICS})

    assert answer.content_type.startswith("application/openmetrics-text")
    assert answer.text.rstrip().endswith("# EOF")


@pytest.mark.parametrize(
    ("principal", "status"),
    [
        (Principal(id="prometheus", roles=frozenset({Role.VIEWER}), verbs=frozenset({Verb.SEE})), 200),
        (Principal(id="ops", roles=frozenset({Role.ADMIN})), 200),
        (Principal(id="ana"), 403),
        (Principal(id="ana", roles=frozenset({Role.VIEWER}), agents=frozenset({"assistant"})), 403),
        (Principal(tenant="acme", id="boss", roles=frozenset({Role.ADMIN})), 403),
        (None, 401),
    ],
)
def test_who_may_read_the_sums_of_all_tenants(
    runner: Runner, settings: Settings, principal: Principal | None, status: int
):
    guarded = settings.model_copy(update={"auth": "required"})
    client = create_app(guarded, runner).test_client()
    headers = {"Authorization": f"Bearer {key_of(settings, principal)}"} if principal is not None else {}

    assert client.get("/metrics", headers=headers).status_code == status
