"""Webhooks on a real fleet: many deliveries at once start one run, which a worker executes as untrusted."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from config.definitions.webhooks.signatures import key_of, sign
from tests.app_harness import write_agent
from tests.journeys.up import Up
from tests.model_server import Call, ModelServer, Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

TIMES = 50
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HEAD = "format: standard\nsecret: ${SHOP_SECRET}\nprincipal: shop\n"
WORKFLOW = """\
name: Shipping
nodes:
  - {id: start, type: START}
  - {id: paid, type: WAIT, config: {signal: paid}}
  - {id: end, type: END, config: {output: "{{ nodes.paid }}"}}
edges: [{source: start, target: paid}, {source: paid, target: end}]
"""


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def start(tmp_path: Path, model: ModelServer) -> Up:
    write_agent(tmp_path / "agents", model, "tools: [calculator]")
    (tmp_path / "agents" / "shipping.yaml").write_text(WORKFLOW)
    folder = tmp_path / "webhooks"
    folder.mkdir()
    (folder / "shop.yaml").write_text(HEAD + "start: {agent: tester, input: 'Order {{ body.data.id }}'}\n")
    (folder / "made.yaml").write_text(HEAD + "start: {workflow: shipping, input: {}}\n")
    (folder / "paid.yaml").write_text(HEAD + "signal: {run: '{{ body.run }}', name: paid, data: '{{ body.cents }}'}\n")
    folders = {"CALLBOARD_AGENTS_DIR": str(tmp_path / "agents"), "CALLBOARD_WEBHOOKS_DIR": str(folder)}
    return Up(tmp_path / "state", "--port", "0", "--workers", "1", SHOP_SECRET=SECRET, **folders)


def deliver(up: Up, name: str, body: Any, delivery_id: str, secret: str = SECRET) -> tuple[int, Any]:
    data, at_s = json.dumps(body).encode(), int(time.time())
    signature = sign(key_of("standard", secret), delivery_id, at_s, data)
    headers = {"webhook-id": delivery_id, "webhook-timestamp": str(at_s), "webhook-signature": signature}
    address = f"{up.address}/v1/webhooks/{name}"
    request = urllib.request.Request(address, data, headers | {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def test_fifty_deliveries_at_once_start_one_run_that_a_worker_executes_as_untrusted(
    tmp_path: Path, model: ModelServer
) -> None:
    sum_of = Call(name="calculator", arguments={"expression": "1 + 1"})
    model.script([Turn(calls=[sum_of]), Turn(text="It is on its way.")])
    with start(tmp_path, model) as up, ThreadPoolExecutor(TIMES) as pool:
        forged = list(
            pool.map(
                lambda _: deliver(up, "shop", {}, "msg_1", "whsec_YSBmb3JnZWQga2V5IG9mIHRoZSBzYW1lIHNob3A="),
                range(TIMES),
            )
        )
        assert {(status, answer["code"]) for status, answer in forged} == {(401, "webhook_refused")}

        answers = list(pool.map(lambda _: deliver(up, "shop", {"data": {"id": 17}}, "msg_1"), range(TIMES)))
        (run_id,) = {answer["run_id"] for _, answer in answers}
        end = up.events(run_id)[-1]
        late = deliver(up, "shop", {"data": {"id": 17}}, "msg_1")
        runs = up.get("/v1/runs")["runs"]
        decisions = up.get(f"/v1/runs/{run_id}/decisions")["decisions"]

    assert sorted(status for status, _ in answers) == [200] * (TIMES - 1) + [202]
    assert (end["status"], end["output"]) == ("succeeded", "It is on its way.")
    assert late == (200, {"outcome": "repeated", "run_id": run_id})
    assert [run["run_id"] for run in runs] == [run_id]
    assert len(model.requests) == 2
    assert [decision.get("seen") for decision in decisions] == [["untrusted"]] * 3


def test_a_delivery_starts_a_workflow_and_another_one_gives_its_signal(tmp_path: Path, model: ModelServer) -> None:
    with start(tmp_path, model) as up:
        _, answer = deliver(up, "made", {}, "msg_1")
        run_id = answer["run_id"]

        first, second = (deliver(up, "paid", {"run": run_id, "cents": 4900}, "msg_2") for _ in range(2))

        assert first == second == (202, {"outcome": "signalled", "run_id": run_id})
        assert up.events(run_id)[-1]["output"] == 4900
