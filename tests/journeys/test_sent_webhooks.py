"""Webhooks from a real fleet: a receiver gets the question of a run and its end, also where the sender is killed."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app_harness import write_agent
from tests.journeys.up import Up
from tests.model_server import Call, ModelServer, Turn
from tests.webhook_receiver import SECRET, TAKEN, Delivery, Receiver

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

RUNS = 6
TOOLS = "tools: [calculator]\ntool_overrides: {calculator: {confirm: true}}"


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def environment(tmp_path: Path, model: ModelServer) -> dict[str, str]:
    write_agent(tmp_path / "agents", model, TOOLS)
    return {
        "CALLBOARD_AGENTS_DIR": str(tmp_path / "agents"),
        "CALLBOARD_OBSERVERS_FILE": str(tmp_path / "observers.yaml"),
        "SHOP_SECRET": SECRET,
    }


def declare(environment: dict[str, str], receiver: Receiver) -> None:
    Path(environment["CALLBOARD_OBSERVERS_FILE"]).write_text(
        "shop:\n  class: webhooks\n  start: beginning\n  tenants: [default]\n  threads: 1\n"
        f"  options: {{url: '{receiver.url()}', secret: '${{SHOP_SECRET}}', hosts: [127.0.0.0/8]}}\n"
    )


def observe(tmp_path: Path, environment: dict[str, str]) -> Up:
    return Up(tmp_path / "state", "webhooks", command="observe", **environment)


def approve(up: Up, run_id: str, approval_id: str) -> None:
    digest = up.get(f"/v1/runs/{run_id}/approvals")["approvals"][0]["digest"]
    body = json.dumps({"decision": "approve", "digest": digest}).encode()
    address = f"{up.address}/v1/runs/{run_id}/approvals/{approval_id}"
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=30).close()


def test_a_receiver_gets_the_question_of_a_run_and_its_end(
    tmp_path: Path, model: ModelServer, environment: dict[str, str]
) -> None:
    model.script([Turn(calls=[Call(name="calculator", arguments={"expression": "1 + 1"})]), Turn(text="Two.")])
    with Receiver() as receiver, Up(tmp_path / "state", "--port", "0", "--workers", "1", **environment) as up:
        declare(environment, receiver)
        with observe(tmp_path, environment) as observer:
            observer.wait_for("feeding shop (reliable)")
            run_id = up.start("tester", "One and one?")
            receiver.wait_for(lambda taken: len(taken) == 1)
            question = receiver.taken[0].event
            approve(up, run_id, question["data"]["approval_id"])
            receiver.wait_for(lambda taken: len(taken) == 2)
            status = observer.stop()

    end = receiver.taken[1].event
    assert (question["type"], question["data"]["run_id"], question["data"]["tool"]) == (
        "approval.asked",
        run_id,
        "calculator",
    )
    assert (end["type"], end["data"]["run_id"], end["data"]["status"]) == ("run.ended", run_id, "succeeded")
    assert "Two." not in receiver.taken[1].body.decode()
    assert status == 0


def test_a_sender_that_is_killed_in_mid_delivery_sends_the_rest_and_that_one_again(
    tmp_path: Path, model: ModelServer, environment: dict[str, str]
) -> None:
    model.script([Turn(text="Yes.")] * RUNS)
    is_in_delivery, killed = threading.Event(), threading.Event()

    def hang_at_the_third(_: Delivery) -> bytes:
        if len(receiver.attempts) == 3:
            is_in_delivery.set()
            killed.wait(60)
        return TAKEN

    with Receiver() as receiver, Up(tmp_path / "state", "--port", "0", "--workers", "1", **environment) as up:
        receiver.script = hang_at_the_third
        declare(environment, receiver)
        run_ids = [up.start("tester", "Yes?") for _ in range(RUNS)]
        for run_id in run_ids:
            up.events(run_id)
        with observe(tmp_path, environment) as observer:
            assert is_in_delivery.wait(60), observer.lines
            observer.process.kill()
            observer.process.wait()
            killed.set()
            with observe(tmp_path, environment):
                receiver.wait_for(lambda taken: {each.place[0] for each in taken} == set(run_ids))

    ids_by_run = {run_id: {each.id for each in receiver.attempts if each.place[0] == run_id} for run_id in run_ids}
    assert [len(ids) for ids in ids_by_run.values()] == [1] * RUNS
    interrupted = receiver.attempts[2].place
    assert [each.place for each in receiver.attempts].count(interrupted) >= 2
