"""`GET /v1/doctor`: who may read it, what it answers, and that it has no secret and waits for no check for long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient

from agents.runner import Runner
from cli.commands.doctor import CHECKS as CHECKS_OF_TERMINAL
from config.identity.principal import Principal, Role
from config.settings import Settings
from tests.credentials import key_of
from tests.web.conftest import accept, process_of
from web.app import create_app
from web.doctor import Verdicts, ok
from web.doctor.server_checks import CHECKS, ServerDoctor, command_in

PASSWORD = "hunter2hunter2"
HELD, BEGUN = threading.Event(), threading.Semaphore(0)


def held(_: Settings) -> Verdicts:
    """Wait as a check of a server that does not answer."""
    BEGUN.release()
    HELD.wait(30)
    yield ok("answers")


def fine(_: Settings) -> Verdicts:
    yield ok("fine")


@pytest.fixture
def guarded(runner: Runner, settings: Settings) -> Iterator[FlaskClient]:
    app = create_app(settings.model_copy(update={"auth": "required"}), runner)
    yield app.test_client()
    process_of(app).close()


def report(client: FlaskClient) -> Any:
    answer = client.get("/v1/doctor")
    assert answer.status_code == 200, answer.text
    return answer.json


def by_check(client: FlaskClient) -> dict[str, dict[str, str]]:
    return {finding["check"]: finding for finding in report(client)["findings"]}


def test_the_checks_of_servers_are_those_of_the_terminal_too() -> None:
    own = {name: CHECKS[name] for name in ("agents", "observers")}  # the terminal's load code besides

    assert CHECKS.items() <= {**CHECKS_OF_TERMINAL, **own}.items()


@pytest.mark.parity  # the check of queues asks Redis
def test_a_queue_without_a_worker_is_a_failure_with_its_command(client: FlaskClient, runner: Runner) -> None:
    accept(runner)

    findings = by_check(client)

    assert findings["database"]["state"] == "ok"
    assert findings["queues"]["state"] == "fail"
    assert findings["queues"]["remedy"] == "./callboard worker"
    assert report(client)["state"] == "fail"


@pytest.mark.parametrize(
    ("principal", "status"),
    [
        (Principal(id="oda", roles=frozenset({Role.OPERATOR})), 200),
        (Principal(id="ada", roles=frozenset({Role.ADMIN})), 200),
        (Principal(id="vera", roles=frozenset({Role.VIEWER})), 403),
        (Principal(id="paul", roles=frozenset({Role.APPROVER})), 403),
        (Principal(id="none"), 403),
        (Principal(tenant="acme", id="ben", roles=frozenset({Role.ADMIN})), 403),
    ],
    ids=lambda value: value.id if isinstance(value, Principal) else "",
)
def test_it_is_for_the_deployments_operators(
    guarded: FlaskClient, settings: Settings, principal: Principal, status: int
) -> None:
    headers = {"Authorization": f"Bearer {key_of(settings, principal)}"}

    assert guarded.get("/v1/doctor", headers=headers).status_code == status


def test_no_password_of_a_server_is_in_the_answer(runner: Runner, settings: Settings) -> None:
    away = {"redis_url": f"redis://:{PASSWORD}@127.0.0.1:1/0", "broker_url": f"amqp://u:{PASSWORD}@192.0.2.1:5672//"}
    app = create_app(settings.model_copy(update=away), runner)
    app_process = process_of(app)
    app_process.doctor = ServerDoctor({name: CHECKS[name] for name in ("redis", "addresses")})

    findings = by_check(app.test_client())

    assert (findings["redis"]["state"], findings["addresses"]["state"]) == ("fail", "fail")
    assert "192.0.2.1" in findings["addresses"]["sentence"]
    assert PASSWORD not in str(findings)
    app_process.close()


def test_a_check_that_hangs_is_a_warning_and_hides_no_other(settings: Settings) -> None:
    doctor = ServerDoctor({"held": f"{__name__}:held", "fine": f"{__name__}:fine"}, limit_s=0.05)
    HELD.clear()

    first, second = doctor._examined(settings), doctor._examined(settings)
    HELD.set()
    doctor._running["held"].result()
    third = doctor._examined(settings)

    assert [finding.verdict for finding in first] == ["warn", "ok"]
    assert "0.05 s" in first[0].text
    assert [finding.verdict for finding in second] == ["warn", "ok"]
    assert [finding.text for finding in third] == ["answers", "fine"]
    assert [BEGUN.acquire(blocking=False) for _ in range(3)] == [True, True, False]  # not again while it hung


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("so `/ready` is 503. `./callboard up` or `./callboard worker` starts some.", "./callboard up"),
        ("Synchronize the clock (`timedatectl set-ntp true`).", "timedatectl set-ntp true"),
        ("give it more `threads`.", None),
        ("nothing", None),
    ],
)
def test_the_command_of_a_sentence_is_its_remedy(text: str, command: str | None) -> None:
    assert command_in(text) == command
