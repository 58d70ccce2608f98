"""Celery tasks of another project as tools: the example docs/examples/celery_shop, on Redis and on RabbitMQ."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest

from agents.catalogue import find_tool
from agents.checkup import deep_check
from agents.handle import RunHandle
from bus.messages.look_at_tasks import LookAtTasksMessage
from bus.payloads import EndPayload, ToolResultPayload
from config.definitions.loading import load_definition
from config.redis.url import broker_form
from config.tracing import traced
from tests.app_harness import AppHarness
from tests.backends import RedisServer
from tests.conftest import need
from tests.fleet import Worker
from tests.journeys.celery_shop import EXAMPLE, CeleryShop
from tests.journeys.neighbour import until
from tests.model_server import Call, Turn
from tests.venvs import Venv

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(300)]

BOTH = ("redis", "rabbitmq")
OWN = pytest.mark.parametrize("shop", ["own redis"], indirect=True)
TOOLS = "tools: ['celery:shop.tasks.find_order', 'celery:shop.tasks.refund']"


@pytest.fixture(scope="module")
def shop_venv(tmp_path_factory: pytest.TempPathFactory, client_wheel: Path) -> Venv:
    """The shop's environment: Celery and the client, nothing of Callboard's."""
    venv = Venv(tmp_path_factory.mktemp("celery-shop") / "venv")
    venv.install("celery[redis]>=5.5", str(client_wheel))
    return venv


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[str]:
    """The URL of a virtual host of this test's own, or of the common one where only root may make others."""
    need("RabbitMQ" if _answers(5672, timeout_s=60 if os.environ.get("CI") else 0) else None, "RabbitMQ on port 5672")
    name = f"callboard-{uuid4().hex[:12]}"
    is_own = _rabbitmqctl("add_vhost", name) and _rabbitmqctl("set_permissions", "-p", name, "guest", ".*", ".*", ".*")
    yield f"amqp://guest:guest@127.0.0.1:5672/{name if is_own else '/'}"
    if is_own:
        _rabbitmqctl("delete_vhost", name)


def _answers(port: int, timeout_s: float) -> bool:
    until_s = time.monotonic() + timeout_s
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 2):
            return True
        if time.monotonic() >= until_s:
            return False
        time.sleep(0.5)  # another program, which is being started


def _rabbitmqctl(*words: str) -> bool:
    program = shutil.which("rabbitmqctl") or "/usr/sbin/rabbitmqctl"
    with suppress(OSError):
        return subprocess.run([program, *words], capture_output=True, timeout=60, check=False).returncode == 0
    return False


@pytest.fixture(scope="module")
def open_shops(
    request: pytest.FixtureRequest,
    shop_venv: Venv,
    redis_server: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], CeleryShop]]:
    """Gives the open shop on a broker, which the module's tests share: its tasks are published, its worker runs."""
    results = broker_form(redis_server.url)

    @cache
    def on(broker: str) -> CeleryShop:
        url = request.getfixturevalue("rabbitmq") if broker == "rabbitmq" else results
        folder = tmp_path_factory.mktemp("shop") / "shop"
        shop = closing.enter_context(CeleryShop.copied(EXAMPLE, folder, shop_venv, url, results))
        assert shop.publish().startswith("2 tasks are published")
        shop.start()
        return shop

    with ExitStack() as closing:
        yield on


@pytest.fixture
def shop(
    request: pytest.FixtureRequest,
    open_shops: Callable[[str], CeleryShop],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[CeleryShop]:
    """The open shop on the broker that the test names, with an empty ledger.

    After the word ``own``: a shop of the test's own with the same tasks, whose worker the test starts.
    """
    *own, broker = getattr(request, "param", "redis").split()
    shop = open_shops(broker)
    with shop.branch(tmp_path / "shop") if own else nullcontext(shop) as shop:
        shop.empty_ledger()
        for name in ("SHOP_BROKER_URL", "SHOP_RESULT_URL"):
            monkeypatch.setenv(name, shop.environment[name])
        yield shop


@pytest.fixture
def harness(shop: CeleryShop, open_harness: Callable[..., AppHarness]) -> AppHarness:
    """A deployment that knows the shop's tasks, with one slot."""
    folder = str(shop.folder / "callboard" / "celery_tasks")
    return open_harness(celery_tasks_dir=folder, lease_s=15.0, beat_s=5.0, reap_s=1.0, slots=1)


def worker(harness: AppHarness) -> Worker:
    return Worker(harness.settings, log=harness.settings.state / "worker.log")


def refund(**arguments: object) -> Turn:
    return Turn(calls=[Call(name="refund", arguments={"number": "A-1001", **arguments})])


THANKS = Turn(text="Your money is on its way.")


def started(harness: AppHarness, *turns: Turn, more: str = TOOLS) -> RunHandle:
    """Let the model say these turns from now on, whichever run asks, and start a run."""
    harness.agent(more)
    harness.model.script(turns)
    return harness.run("Refund A-1001", detached=True)


def status_of(harness: AppHarness, handle: RunHandle) -> str:
    return str(harness.runner.journal.readers.runs.status(handle.run_id))


def waits_for_its_task(harness: AppHarness, handle: RunHandle) -> None:
    until(lambda: status_of(harness, handle) == "waiting", 30, "the run waits without a worker")


def last(handle: RunHandle) -> EndPayload:
    end = list(handle.events())[-1]
    assert isinstance(end, EndPayload)
    return end


def outcomes(handle: RunHandle) -> list[tuple[str, object]]:
    return [(event.outcome, event.result) for event in handle.events() if isinstance(event, ToolResultPayload)]


def test_the_examples_agent_can_use_what_the_shop_published(shop: CeleryShop, harness: AppHarness) -> None:
    agent = load_definition(shop.folder / "callboard" / "agents" / "refunds.yaml")

    assert [problem for problem in deep_check(agent, harness.settings) if problem.severity == "error"] == []
    find, refund = (find_tool(name, harness.settings) for name in agent.tools)
    assert (str(find.effect), find.timeout_s) == ("pure", 30)
    assert (str(refund.effect), refund.timeout_s) == ("checkable", 120)
    assert refund.parameters["properties"]["reason"]["enum"] == ["broken", "late", "unwanted"]


@pytest.mark.parametrize("shop", BOTH, indirect=True)
def test_a_task_is_called_once_and_its_result_reaches_the_model(shop: CeleryShop, harness: AppHarness) -> None:
    with worker(harness):
        handle = started(harness, refund(reason="late"), THANKS)
        end = last(handle)

    assert (end.status, end.output) == ("succeeded", "Your money is on its way.")
    assert outcomes(handle) == [("done", {"number": "A-1001", "paid_back": 25.0})]
    [paid] = shop.ledger("paid")
    assert paid.split()[1].startswith("key_"), "the idempotency key is the task's id"


@pytest.mark.parametrize("shop", ["own redis", "own rabbitmq"], indirect=True)
def test_a_task_gets_the_trace_and_the_correlation_id_of_its_run(shop: CeleryShop, harness: AppHarness) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    tasks = shop.folder / "shop" / "tasks.py"
    note = '    ledger.write(f"headers {self.request.headers}")\n'
    tasks.write_text(tasks.read_text().replace("    time.sleep(slowly)\n", note + "    time.sleep(slowly)\n"))
    shop.start()
    with worker(harness), traced(trace_id, "order 4711"):
        handle = started(harness, refund(), THANKS)
        assert last(handle).status == "succeeded"

    [headers] = shop.ledger("headers")
    assert f"'traceparent': '00-{trace_id}-" in headers
    assert "'x-correlation-id': 'order 4711'" in headers


@pytest.mark.parametrize("shop", BOTH, indirect=True)
def test_a_run_holds_no_slot_while_its_task_is_under_way(shop: CeleryShop, harness: AppHarness) -> None:
    with worker(harness):
        first = started(harness, refund(slowly=6), Turn(text="I was fast."), THANKS)
        waits_for_its_task(harness, first)
        began_s = time.monotonic()
        second = last(harness.run("Hello", detached=True))
        took_s = time.monotonic() - began_s
        assert status_of(harness, first) == "waiting"
        end = last(first)

    assert (second.output, end.output) == ("I was fast.", "Your money is on its way.")
    assert took_s < 3
    assert len(shop.ledger("paid")) == 1


@pytest.mark.parametrize("shop", BOTH, indirect=True)
def test_a_killed_worker_loses_no_task_and_repeats_none(shop: CeleryShop, harness: AppHarness) -> None:
    with worker(harness) as killed:
        handle = started(harness, refund(slowly=4), THANKS)
        shop.wait_for("begin")
        killed.kill()
    with worker(harness):
        end = last(handle)

    assert end.status == "succeeded"
    assert outcomes(handle) == [("done", {"number": "A-1001", "paid_back": 25.0})]
    assert (len(shop.ledger("begin")), len(shop.ledger("paid"))) == (1, 1)


@pytest.mark.parametrize("shop", [f"own {broker}" for broker in BOTH], indirect=True)
def test_a_stopped_run_revokes_the_task_that_has_not_begun(shop: CeleryShop, harness: AppHarness) -> None:
    busy = shop.start("-c", "1", "--prefetch-multiplier", "4")
    with worker(harness):
        first = started(harness, refund(slowly=6), refund(), THANKS)
        shop.wait_for("begin")
        second = harness.run("Refund it again", detached=True)
        waits_for_its_task(harness, second)
        second.cancel(by="test")
        assert last(second).status == "cancelled"
        end = last(first)
        log = shop.folder / "worker0.log"
        until(lambda: b"Discarding revoked task" in log.read_bytes(), 30, "the shop's worker drops the task")

    assert end.status == "succeeded"
    assert busy.poll() is None
    assert len(shop.ledger("begin")) == 1


@OWN
def test_a_task_that_the_shops_worker_lost_is_asked_about(shop: CeleryShop, harness: AppHarness) -> None:
    shop_worker = shop.start()
    overrides = "tool_overrides: {refund: {timeout_s: 4}}"
    with worker(harness):
        handle = started(harness, refund(slowly=60), more=f"{TOOLS}\n{overrides}")
        shop.wait_for("begin")
        shop.kill(shop_worker)
        until(lambda: bool(handle.approvals()), 60, "a person is asked")

    [approval] = handle.approvals()
    assert "has begun and did not end in time" in approval["reason"]
    assert (len(shop.ledger("begin")), shop.ledger("paid")) == (1, [])


# --- where Callboard's worker dies --------------------------------------------------------------------

BEFORE_THE_MESSAGE = ("commit@1", "tool@1")
AFTER_THE_MESSAGE = ("tool-after@1", "commit-before@2", "commit@2", "claim@2", "commit-before@3", "commit@3")


@pytest.mark.parametrize("location", AFTER_THE_MESSAGE)
def test_a_worker_that_dies_after_the_message_changes_nothing(
    shop: CeleryShop, harness: AppHarness, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    handle = with_a_worker_that_dies(harness, monkeypatch, location, started_with=refund(slowly=2.5))
    with worker(harness):
        end = last(handle)

    assert end.status == "succeeded"
    assert outcomes(handle) == [("done", {"number": "A-1001", "paid_back": 25.0})]
    assert (len(shop.ledger("begin")), len(shop.ledger("paid"))) == (1, 1)


@pytest.mark.parametrize("location", BEFORE_THE_MESSAGE)
def test_a_task_that_may_not_have_been_sent_is_not_sent_again_but_asked_about(
    shop: CeleryShop, harness: AppHarness, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    overrides = "tool_overrides: {refund: {timeout_s: 6}}"
    more = f"{TOOLS}\n{overrides}"
    handle = with_a_worker_that_dies(harness, monkeypatch, location, started_with=refund(), more=more)
    with worker(harness):
        until(lambda: bool(handle.approvals()), 60, "a person is asked")

    [approval] = handle.approvals()
    assert "whether a worker began it is not known" in approval["reason"], "the worker that died knew what it had kept"
    assert shop.ledger("begin") == []


def test_a_task_without_effect_is_sent_again(
    shop: CeleryShop, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = Turn(calls=[Call(name="find_order", arguments={"number": "A-1001"})])
    handle = with_a_worker_that_dies(harness, monkeypatch, "tool@1", started_with=find)
    with worker(harness):
        end = last(handle)

    assert end.status == "succeeded"
    assert outcomes(handle) == [("done", {"number": "A-1001", "price": 25.0})]


def with_a_worker_that_dies(
    harness: AppHarness, monkeypatch: pytest.MonkeyPatch, location: str, *, started_with: Turn, more: str = TOOLS
) -> RunHandle:
    """Start a run on a worker that kills itself at a place, and return when it has."""
    where, _, number = location.partition("@")
    monkeypatch.setenv("FAILPOINTS", f"{where}=kill@{number}")
    with Worker(harness.settings, log=harness.settings.state / "worker.log") as dying:
        handle = started(harness, started_with, THANKS, more=more)
        until(lambda: dying.process.poll() is not None, 30, f"the worker dies at {location}")
    monkeypatch.delenv("FAILPOINTS")
    return handle


def test_another_worker_takes_the_results_of_one_that_died(shop: CeleryShop, harness: AppHarness) -> None:
    with worker(harness) as killed:
        handle = started(harness, refund(slowly=5), THANKS)
        waits_for_its_task(harness, handle)
        killed.kill()
    with worker(harness):
        end = last(handle)

    assert end.status == "succeeded"
    assert outcomes(handle) == [("done", {"number": "A-1001", "paid_back": 25.0})]
    assert len(shop.ledger("begin")) == 1


@OWN
def test_a_stop_in_another_process_has_a_worker_revoke_the_task_at_once(
    shop: CeleryShop, open_harness: Callable[..., AppHarness]
) -> None:
    folder = str(shop.folder / "callboard" / "celery_tasks")
    harness = open_harness(celery_tasks_dir=folder, reap_s=60.0, slots=1)  # by itself a worker looks once a minute
    shop.start("-c", "1", "--prefetch-multiplier", "4")
    with worker(harness):
        first = started(harness, refund(slowly=20), refund(), THANKS)
        shop.wait_for("begin")
        second = harness.run("Refund it again", detached=True)
        waits_for_its_task(harness, second)
        message = LookAtTasksMessage(run_id=second.run_id)
        second.cancel(by="test")
        until(lambda: _revoked(harness) == [second.run_id], 15, "the worker revokes the task")
        assert status_of(harness, first) == "waiting", "the end of the first task has not made the worker look"
        for _ in range(2):  # delivered again, there is nothing to do
            harness.runner.journal.live.relay.send_soon(message)
        assert last(first).status == "succeeded"

    assert _revoked(harness) == [second.run_id]
    assert len(shop.ledger("begin")) == 1


def _revoked(harness: AppHarness) -> list[str]:
    """Return the runs of which the worker has revoked a task."""
    lines = (harness.settings.state / "worker.log").read_text().splitlines()
    return [line.partition("run_id=")[2].split()[0] for line in lines if "a task was revoked" in line]


@OWN
def test_a_stop_while_no_worker_lives_is_revoked_by_the_next_one(shop: CeleryShop, harness: AppHarness) -> None:
    shop.start("-c", "1", "--prefetch-multiplier", "4")
    with worker(harness) as killed:
        first = started(harness, refund(slowly=8), refund(), THANKS)
        shop.wait_for("begin")
        second = harness.run("Refund it again", detached=True)
        waits_for_its_task(harness, second)
        killed.kill()
    second.cancel(by="test")
    assert last(second).status == "cancelled"
    with worker(harness):
        log = shop.folder / "worker0.log"
        until(lambda: b"Discarding revoked task" in log.read_bytes(), 30, "the shop's worker drops the task")
        assert last(first).status == "succeeded"

    assert len(shop.ledger("begin")) == 1


# --- the application's side -----------------------------------------------------------------------------


@pytest.mark.parametrize("shop", ["own rabbitmq"], indirect=True)
def test_a_queue_that_rabbitmq_does_not_have_is_an_error_of_the_call(shop: CeleryShop, harness: AppHarness) -> None:
    with worker(harness):  # and none of the shop's, so that its queue was never declared
        handle = started(harness, refund(), THANKS)
        end = last(handle)

    assert end.status == "succeeded"
    [(outcome, text)] = outcomes(handle)
    assert (outcome, "the broker has no queue" in str(text)) == ("failed", True)


@pytest.mark.parametrize("shop", ["own rabbitmq"], indirect=True)
def test_results_in_a_database_are_read(
    shop: CeleryShop, harness: AppHarness, shop_venv: Venv, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop_venv.install("sqlalchemy>=2")
    shop.results = f"db+sqlite:///{shop.folder / 'results.db'}"
    monkeypatch.setenv("SHOP_RESULT_URL", shop.results)
    shop.publish()
    shop.start()
    with worker(harness):
        handle = started(harness, refund(slowly=3), THANKS)
        waits_for_its_task(harness, handle)
        end = last(handle)

    assert end.status == "succeeded"
    assert outcomes(handle) == [("done", {"number": "A-1001", "paid_back": 25.0})]


@OWN
def test_a_task_that_is_terminated_by_a_stop_pays_nothing(shop: CeleryShop, harness: AppHarness) -> None:
    file = shop.folder / "callboard" / "celery_tasks" / "shop.yaml"
    file.write_text(f"{file.read_text()}terminate: true\n")
    shop.start()
    with worker(harness):
        handle = started(harness, refund(slowly=30))
        shop.wait_for("begin")
        waits_for_its_task(harness, handle)
        handle.cancel(by="test")
        assert last(handle).status == "cancelled"
        log = shop.folder / "worker0.log"
        until(lambda: b"Terminating key_" in log.read_bytes(), 30, "the shop's worker terminates the task")

    assert shop.ledger("paid") == []


@OWN
def test_a_task_that_no_worker_knows_is_a_failure(shop: CeleryShop, harness: AppHarness) -> None:
    file = shop.folder / "callboard" / "celery_tasks" / "shop.yaml"
    unknown = f"  shop.tasks.no_such: {{queue: {shop.queue}, description: x, schema: {{type: object}}, timeout_s: 5}}\n"
    file.write_text(file.read_text() + unknown)
    shop.start()
    with worker(harness):
        call = Turn(calls=[Call(name="no_such", arguments={})])
        handle = started(harness, call, THANKS, more="tools: ['celery:shop.tasks.no_such']")
        end = last(handle)

    assert end.status == "succeeded"
    [(outcome, text)] = outcomes(handle)
    assert (outcome, "NotRegistered" in str(text)) == ("failed", True)
