"""Calls of Celery tasks: sent once with the step's key, waited for without an owner, and every end they can have."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from agents.catalogue import find_tool
from agents.handle import RunHandle
from agents.process import current_process
from agents.runner import Runner
from agents.steps import task_work
from agents.tools.requests import TaskOutcome
from bus.celery_tasks.application import close_applications
from bus.journal.approvals import Decision
from bus.journal.owner import TaskWait
from bus.journal.readers import steps_of
from bus.payloads import StatusPayload, ToolResultPayload, decode
from config.database.migrate import migrate
from config.effects import Effect
from config.settings import Settings
from handlers.worker import task_watcher
from handlers.worker.task_watcher import TaskWatcher
from tests.app_harness import AppHarness
from tests.backends import RunningRedis, start_redis
from tests.model_server import Call, ModelServer, Turn
from tests.scripted_shop import ScriptedShop

TOOLS = "tools: ['celery:shop.refund', clock]"
REFUND = Call(name="refund", arguments={"number": "A-1"})
Describe = Callable[..., None]


@pytest.fixture
def shop(redis_url: str, deployment: str) -> Iterator[ScriptedShop]:
    scripted_shop = ScriptedShop(redis_url, deployment)
    yield scripted_shop
    scripted_shop.close()


@pytest.fixture
def describe(shop: ScriptedShop, tmp_path: Path) -> Describe:
    """Writes the shop's file."""
    return lambda **fields: shop.describe(tmp_path / "celery_tasks", **fields)


@pytest.fixture
def harness(settings: Settings, tmp_path: Path, describe: Describe) -> Iterator[AppHarness]:
    """A runner whose agents know the shop's task."""
    folders = {"agents_dir": str(tmp_path / "agents"), "celery_tasks_dir": str(tmp_path / "celery_tasks")}
    ours = settings.model_copy(update={**folders, "lease_s": 15.0, "beat_s": 5.0, "reap_s": 0.5})
    migrate(ours)
    describe()
    runner = Runner.open(ours)
    with ModelServer() as model:
        yield AppHarness(runner, model, tmp_path / "agents")
        runner.settle(10)
        runner.close()
    close_applications()


def begin(harness: AppHarness, *calls: Call, more: str = TOOLS) -> RunHandle:
    harness.agent(more)
    harness.model.script([Turn(calls=calls or (REFUND,)), Turn(text="Done.")])
    return harness.run()


def results(handle: RunHandle) -> list[tuple[str, Any]]:
    return [(event.outcome, event.result) for event in handle.events() if isinstance(event, ToolResultPayload)]


def status(harness: AppHarness, handle: RunHandle) -> str:
    return str(harness.runner.journal.readers.runs.status(handle.run_id))


def until(is_so: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < ends_s
        time.sleep(0.02)  # another thread's commits; only the rows tell


def until_waiting(harness: AppHarness, handle: RunHandle) -> None:
    until(lambda: status(harness, handle) == "waiting")


def step_rows(harness: AppHarness, handle: RunHandle) -> list[Any]:
    with harness.runner.journal.database.read() as connection:
        return [step for step in steps_of(connection, handle.run_id) if step["kind"] == "tool"]


def test_a_quick_task_costs_no_release(harness: AppHarness, shop: ScriptedShop) -> None:
    handle = begin(harness)
    task = shop.take()
    shop.succeed(task, {"paid": 1})

    assert handle.result(15).status == "succeeded"
    assert results(handle) == [("done", {"paid": 1})]
    [step] = step_rows(harness, handle)
    assert (task.id, task.arguments) == (step["idempotency_key"], {"number": "A-1"})
    assert "waiting" not in [event.status for event in handle.events() if isinstance(event, StatusPayload)]


def test_the_demo_model_calls_a_task_by_a_command(harness: AppHarness, shop: ScriptedShop, tmp_path: Path) -> None:
    fields = "{name: T, model: demo/instant, system_prompt: You help., tools: ['celery:shop.refund', clock]}"
    (tmp_path / "agents").mkdir(exist_ok=True)
    (tmp_path / "agents" / "shopkeeper.yaml").write_text(fields)
    assert "- Refund: number …" in harness.run("Hello", "shopkeeper").result(15).output

    handle = harness.run("Refund: number A-1", "shopkeeper")
    shop.succeed(shop.take(), {"paid": 1})

    assert handle.result(15).status == "succeeded"
    assert results(handle) == [("done", {"paid": 1})]


def test_a_slow_task_is_waited_for_without_an_owner(harness: AppHarness, shop: ScriptedShop) -> None:
    handle = begin(harness)
    task = shop.take()
    until_waiting(harness, handle)
    row = harness.runner.journal.readers.runs.row(harness.runner.principal, handle.run_id)
    assert (row.owner, row.reason) == (None, "task")
    assert "shop.refund" in row.detail
    shop.begin(task)
    shop.retry(task)
    shop.succeed(task, {"paid": 1})

    assert handle.result(15).status == "succeeded"
    assert results(handle) == [("done", {"paid": 1})]
    assert shop.waiting() == 0, "it was sent once"
    status_changes = [(event.status, event.reason) for event in handle.events() if isinstance(event, StatusPayload)]
    assert status_changes[status_changes.index(("waiting", "task")) + 1] == ("queued", "task")


def test_a_failure_is_its_type_and_text_and_the_run_continues(harness: AppHarness, shop: ScriptedShop) -> None:
    handle = begin(harness)
    shop.fail(shop.take(), KeyError("no order A-1"))

    assert handle.result(15).status == "succeeded"
    assert results(handle) == [("failed", "Error: KeyError: no order A-1")]
    assert "secret.py" not in str(harness.model.requests[-1].body)


@pytest.mark.parametrize("reason", ["revoked", "expired"])
def test_a_task_that_was_dropped_before_it_began_was_not_done(
    harness: AppHarness, shop: ScriptedShop, reason: str
) -> None:
    handle = begin(harness)
    shop.revoke(shop.take(), reason)

    assert handle.result(15).status == "succeeded"
    assert results(handle) == [("failed", f"Error: shop.refund was {reason} before it began, so it was not done.")]


def test_a_result_that_does_not_fit_is_kept_back(harness: AppHarness, shop: ScriptedShop, describe: Describe) -> None:
    describe(output_schema={"type": "object", "required": ["paid"]})
    handle = begin(harness)
    shop.succeed(shop.take(), {"secret": 1})

    assert handle.result(15).status == "succeeded"
    [(outcome, text)] = results(handle)
    assert outcome == "failed"
    assert "does not fit its output schema" in text


def test_a_large_result_is_cut(harness: AppHarness, shop: ScriptedShop) -> None:
    handle = begin(harness)
    shop.succeed(shop.take(), "x" * 1_000_000)

    assert handle.result(15).status == "succeeded"
    [(outcome, text)] = results(handle)
    assert (outcome, len(text) <= 256 * 1024) == ("done", True)


def test_two_tasks_are_waited_for_together(harness: AppHarness, shop: ScriptedShop) -> None:
    handle = begin(harness, REFUND, Call(name="refund", arguments={"number": "A-2"}), Call(name="clock"))
    first, second = shop.take(), shop.take()
    until_waiting(harness, handle)
    shop.succeed(first, 1)
    time.sleep(1.5)  # one that must not happen: the run stays where it is
    assert status(harness, handle) == "waiting"
    shop.succeed(second, 2)

    assert handle.result(15).status == "succeeded"
    assert sorted(str(result) for _, result in results(handle))[:2] == ["1", "2"]


# --- time that is over -----------------------------------------------------------------------------


def test_a_task_that_no_worker_began_was_not_done_where_starts_are_recorded(
    harness: AppHarness, shop: ScriptedShop, describe: Describe
) -> None:
    describe(tracks_starts=True, timeout_s=1.0)
    handle = begin(harness)

    assert handle.result(20).status == "succeeded"
    [(outcome, text)] = results(handle)
    assert outcome == "failed"
    assert "no worker began shop.refund in time, and its message has expired" in text


def test_a_task_without_a_sign_is_asked_about_and_can_be_made_again(
    harness: AppHarness, shop: ScriptedShop, describe: Describe
) -> None:
    describe(timeout_s=1.0)
    workers = shop.listen()
    handle = begin(harness)
    lost = shop.take()
    until(lambda: bool(handle.approvals()))
    [approval] = handle.approvals()
    assert "whether a worker began it is not recorded" in approval["reason"]
    handle.decide(approval["approval_id"], Decision(decision="run_again"), by="ann")
    again = shop.take()
    shop.succeed(again, "paid")

    assert handle.result(15).status == "succeeded"
    assert results(handle)[-1] == ("done", "paid")
    assert again.id != lost.id, "workers drop tasks with an id that was revoked"
    workers.close()


def known_wait(harness: AppHarness) -> TaskWait:
    [task_wait] = harness.runner.journal.owner.task_waits.known()
    return task_wait.wait


def test_a_task_that_was_seen_to_begin_is_unknown_though_its_backend_forgets_it(
    harness: AppHarness, shop: ScriptedShop, describe: Describe
) -> None:
    describe(tracks_starts=True, timeout_s=4.0)
    handle = begin(harness)
    task = shop.take()
    until_waiting(harness, handle)
    shop.begin(task)
    watch(harness)
    assert known_wait(harness).has_begun is True
    shop.forget(task)

    until(lambda: bool(handle.approvals()))
    [approval] = handle.approvals()
    assert "shop.refund has begun and did not end in time" in approval["reason"]
    handle.cancel(by="ann")


def start_again(own: RunningRedis) -> None:
    with redis.Redis.from_url(own.url) as client:
        path = Path(str(client.config_get("dir")["dir"]))
    own.stop()
    for folder in path.glob("appendonly*"):
        shutil.rmtree(folder)
    own.process = RunningRedis(own.server).process


def empty(own: RunningRedis) -> None:
    with redis.Redis.from_url(own.url) as client:
        client.flushdb()


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RunningRedis]:
    """A Redis of this test alone, which keeps nothing when it starts again."""
    running = start_redis(Settings(state_dir=tmp_path / "own_redis"))
    yield running
    running.stop()


@pytest.fixture
def own_shop(own_redis: RunningRedis, deployment: str) -> Iterator[ScriptedShop]:
    scripted_shop = ScriptedShop(own_redis.url, deployment)
    yield scripted_shop
    scripted_shop.close()


@pytest.mark.parametrize("lose", [start_again, empty])
def test_a_task_is_unknown_that_began_before_any_worker_looked_and_whose_backend_lost_that(
    harness: AppHarness,
    own_redis: RunningRedis,
    own_shop: ScriptedShop,
    tmp_path: Path,
    lose: Callable[[RunningRedis], None],
) -> None:
    own_shop.describe(tmp_path / "celery_tasks", tracks_starts=True, timeout_s=4.0)
    handle = begin(harness)
    own_shop.begin(own_shop.take())
    lose(own_redis)

    until(lambda: bool(handle.approvals()))
    [approval] = handle.approvals()
    assert "whether a worker began it is not known" in approval["reason"]
    handle.cancel(by="ann")


@pytest.mark.parametrize(("expires_s", "outcome"), [(1, "unknown"), (0, "failed")])
def test_a_task_whose_entry_may_have_expired_is_unknown(
    harness: AppHarness, shop: ScriptedShop, describe: Describe, tmp_path: Path, expires_s: float, outcome: str
) -> None:
    describe(tracks_starts=True, timeout_s=2.0)
    path = tmp_path / "celery_tasks" / "shop.yaml"
    path.write_text(path.read_text().replace('"tracks_starts"', f'"result_expires_s": {expires_s}, "tracks_starts"'))
    handle = begin(harness, more=f"{TOOLS}\non_unknown: tell_model")
    shop.take()

    assert handle.result(20).status == "succeeded"
    [(call_outcome, _)] = results(handle)
    assert call_outcome == outcome


def test_without_the_incarnation_at_the_sending_nothing_is_known(
    harness: AppHarness, shop: ScriptedShop, describe: Describe
) -> None:
    call: Any = find_tool("celery:shop.refund", harness.settings).task
    describe(tracks_starts=True)
    call = replace(call, tracks_starts=True)

    async def known_and_unknown() -> list[TaskOutcome | None]:
        here = await call.incarnation()
        return [
            await call.outcome("none", Effect.CHECKABLE, is_over=True, backend=backend)
            for backend in (here, None, "another")
        ]

    outcomes = harness.runner.journal.loop.run(known_and_unknown(), timeout_s=30)
    assert [outcome and outcome.outcome for outcome in outcomes] == ["failed", "unknown", "unknown"]


def test_a_lost_connection_alone_loses_no_beginning(
    harness: AppHarness, shop: ScriptedShop, describe: Describe
) -> None:
    describe(tracks_starts=True, timeout_s=4.0)
    handle = begin(harness)
    shop.take()
    until_waiting(harness, handle)
    assert known_wait(harness).backend is not None

    shop.redis.client_kill_filter(_type="pubsub")
    shop.redis.client_kill_filter(_type="normal", skipme=True)

    assert handle.result(20).status == "succeeded"
    [(outcome, text)] = results(handle)
    assert (outcome, "so it was not done" in text) == ("failed", True)


def test_a_task_that_may_be_repeated_has_failed_when_its_time_is_over(
    harness: AppHarness, shop: ScriptedShop, describe: Describe
) -> None:
    describe(timeout_s=1.0, effect="pure")
    handle = begin(harness)
    shop.begin(shop.take())

    assert handle.result(20).status == "succeeded"
    [(outcome, text)] = results(handle)
    assert (outcome, "did not end in time" in text) == ("failed", True)


# --- stops ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["in place", "waiting"])
@pytest.mark.parametrize("terminate", [False, True])
def test_a_stop_revokes_the_task(
    harness: AppHarness, shop: ScriptedShop, tmp_path: Path, when: str, terminate: bool
) -> None:
    if terminate:
        path = tmp_path / "celery_tasks" / "shop.yaml"
        path.write_text(path.read_text().replace('"tracks_starts"', '"terminate": true, "tracks_starts"'))
    workers = shop.listen()
    handle = begin(harness)
    task = shop.take()
    if when == "waiting":
        until_waiting(harness, handle)
    handle.cancel(by="ann")

    assert handle.result(15).status == "cancelled"
    watch(harness)
    revocation = shop.revoked(workers)
    workers.close()
    assert (revocation["task_id"], revocation["terminate"]) == (task.id, terminate)
    until(lambda: harness.runner.journal.owner.task_waits.known() == [])
    assert [outcome for outcome, _ in results(handle)] == ["unknown"]


def watch(harness: AppHarness) -> None:
    """Look at all waits, as each worker does all the time."""
    harness.runner.journal.loop.run(TaskWatcher(current_process()).look(), timeout_s=30)


# --- what the call needs ---------------------------------------------------------------------------


def test_without_a_broker_the_call_has_failed_and_nothing_was_sent(harness: AppHarness, tmp_path: Path) -> None:
    path = tmp_path / "celery_tasks" / "shop.yaml"
    url = f"unix://{tmp_path}/none.sock"
    path.write_text(path.read_text().replace('"broker"', f'"result_backend": "{url}", "broker"').replace("?db=0", "x"))
    handle = begin(harness)

    assert handle.result(30).status == "succeeded"
    [(outcome, text)] = results(handle)
    assert (outcome, "its broker does not answer" in text) == ("failed", True)


def test_a_call_can_end_with_its_message(harness: AppHarness, shop: ScriptedShop, describe: Describe) -> None:
    describe(waits=False)
    handle = begin(harness)

    assert handle.result(15).status == "succeeded"
    task = shop.take()
    assert results(handle) == [("done", {"task_id": task.id, "status": "sent"})]


def test_a_call_that_needs_approval_is_sent_once_it_has_one(
    harness: AppHarness, shop: ScriptedShop, describe: Describe
) -> None:
    describe(confirm=True)
    handle = begin(harness)
    until_waiting(harness, handle)
    assert shop.waiting() == 0
    [approval] = handle.approvals()
    handle.decide(approval["approval_id"], Decision(decision="approve"), by="ann")
    shop.succeed(shop.take(), "paid")

    assert handle.result(15).status == "succeeded"
    assert results(handle) == [("done", "paid")]


def test_an_approval_and_a_task_are_waited_for_together(
    harness: AppHarness, shop: ScriptedShop, describe: Describe
) -> None:
    confirm = "tool_overrides: {clock: {confirm: true}}"
    handle = begin(harness, REFUND, Call(name="clock"), more=f"{TOOLS}\n{confirm}")
    task = shop.take()
    until_waiting(harness, handle)
    shop.succeed(task, "paid")
    time.sleep(1.5)  # one that must not happen: the run stays where it is
    assert status(harness, handle) == "waiting"
    [approval] = handle.approvals()
    handle.decide(approval["approval_id"], Decision(decision="approve"), by="ann")

    assert handle.result(15).status == "succeeded"
    assert [outcome for outcome, _ in results(handle)] == ["done", "done"]
    assert ("done", "paid") in results(handle)
    assert shop.waiting() == 0


def test_a_call_without_a_model_waits_like_an_agents(harness: AppHarness, shop: ScriptedShop) -> None:
    harness.agent(TOOLS)
    handle = harness.runner.call_tool("refund", {"number": "A-1"}, agent_id="tester")
    task = shop.take()
    until_waiting(harness, handle)
    shop.succeed(task, {"paid": 1})

    end = handle.result(15)
    assert (end.status, end.output) == ("succeeded", {"paid": 1})


def test_the_list_of_runs_says_what_a_run_waits_for(harness: AppHarness, shop: ScriptedShop) -> None:
    handle = begin(harness)
    task = shop.take()
    until_waiting(harness, handle)
    [why] = harness.runner.journal.readers.runs.explain(harness.runner.principal)
    shop.succeed(task, 1)

    assert (why.waits_for, why.sentence) == ("task", "Waits for the result of shop.refund, of a Celery application.")
    assert handle.result(15).status == "succeeded"


def test_a_drain_in_the_middle_of_the_wait_sends_nothing_again(
    harness: AppHarness, shop: ScriptedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, outcome = threading.Event(), task_work.TaskWork.outcome

    async def noted(work: task_work.TaskWork, effect: Effect) -> TaskOutcome | None:
        waits.set()
        return await outcome(work, effect)

    monkeypatch.setattr(task_work.TaskWork, "outcome", noted)
    monkeypatch.setattr(task_work, "IN_PLACE_S", 20.0)
    journal = harness.runner.journal
    handle = begin(harness)
    task = shop.take()
    assert waits.wait(20)
    journal.loop.call_soon(journal.owner.lease_manager.cut_all)
    until(lambda: ("moved", "drain") in statuses(harness, handle))
    shop.succeed(task, "paid")
    watch(harness)

    assert handle.result(30).status == "succeeded"  # by the next owner, which may have it before this look at the waits
    assert results(handle) == [("done", "paid")]
    assert shop.waiting() == 0


def statuses(harness: AppHarness, handle: RunHandle) -> list[tuple[str, str | None]]:
    lines, _ = harness.runner.journal.readers.page(handle.run_id, handle.thread_id, 0)
    events = [decode(line.data) for line in lines]
    return [(event.status, event.reason) for event in events if isinstance(event, StatusPayload)]


def test_no_password_of_an_application_is_in_the_text_of_its_tool(
    harness: AppHarness, describe: Describe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_BROKER", "amqp://me:hidden-password@localhost//")
    path = tmp_path / "celery_tasks" / "shop.yaml"
    path.write_text(path.read_text().replace('"broker"', '"broker_env": "SHOP_BROKER", "result_backend"'))

    assert "hidden-password" not in repr(find_tool("celery:shop.refund", harness.settings))


def test_a_result_backend_that_stays_away_is_unknown_in_the_end(
    harness: AppHarness, shop: ScriptedShop, describe: Describe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_work, "GIVE_UP_S", 2.0)
    monkeypatch.setattr(task_watcher, "GIVE_UP_MS", 2000)
    describe(timeout_s=1.0)
    path = tmp_path / "celery_tasks" / "shop.yaml"
    path.write_text(path.read_text().replace('"broker"', f'"result_backend": "unix://{tmp_path}/none.sock", "broker"'))
    handle = begin(harness)
    shop.take()
    until_waiting(harness, handle)
    until(lambda: bool(handle.approvals()))

    [approval] = handle.approvals()
    assert "The result of shop.refund cannot be read" in approval["reason"]
    handle.cancel(by="ann")
    assert handle.result(15).status == "cancelled"
