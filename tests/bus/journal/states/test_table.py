"""Every cell of the table of transitions, on each database: what is allowed happens, a refusal changes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from sqlalchemy import select, update

from agents.errors import OUTCOME_UNKNOWN
from bus.journal.approvals import Decision
from bus.journal.controls import PAUSE, RESUME, SET, STEER
from bus.journal.decisions.decisions import decide
from bus.journal.errors import StaleOwner
from bus.journal.idempotency import IdempotencyKey
from bus.journal.mailbox.control import control
from bus.journal.ownership.leases import beat
from bus.journal.ownership.reaper import fire, reap
from bus.journal.retention.removal import remove_runs
from bus.journal.run_end import fail_owned
from bus.journal.states import owned
from bus.journal.states.codes import Reason, RunStatus
from bus.journal.states.release import Handover, Release, release
from bus.journal.states.table import ENDED, LOST, NONE, PAGE, STATES, TABLE, Transition, document
from bus.journal.unowned.runs import UnownedRuns
from bus.journal.unowned.task_waits import TaskWaits
from bus.journal.unowned.upgrade import RunVersion, upgrade
from bus.payloads import TERMINAL, EndPayload, StatusPayload, decode
from config.database.tables import runs, timers
from config.errors import CallboardError
from config.identity.principal import Principal
from tests.bus.journal_harness import JournalHarness, cancel, claim
from tests.bus.questions import question

ME = Principal()
KEY = IdempotencyKey(key="k", method="POST", path="/v1/runs", body_digest="a" * 64)
BILLING = Handover(
    agent_id="billing",
    agent_name="Billing",
    definition_digest="b" * 64,
    definition_json="{}",
    model="demo/assistant",
    observers=("sse",),
    handed_from=("assistant",),
)
BY_NAME = {transition.name: transition for transition in TABLE}


@dataclass(kw_only=True)
class Scene:
    """A run in a state, and what the transitions of its last owner state."""

    harness: JournalHarness
    run_id: str
    asked: str = "apr_none"
    """Its question, if it ever had one."""

    @property
    def row(self) -> Any:
        rows = self.harness.rows(select(runs).where(runs.c.id == self.run_id))
        return rows[0] if rows else None

    @property
    def state(self) -> str:
        row = self.row
        if row is None:
            return NONE
        return LOST if row.status == "running" and row.lease_until == 0 else str(row.status)

    @property
    def fence(self) -> int:
        return self.row.fence if self.row is not None else 1

    @property
    def last(self) -> int:
        return self.row.reserved_to if self.row is not None else 1

    @property
    def owned(self) -> owned.Owned:
        commits = self.row.commits if self.row is not None else 0
        return {"id_": self.run_id, "fence_": self.fence, "commits_": commits}

    def write(self, function: Callable[..., Any], *args: Any) -> Any:
        with self.harness.database.write() as connection:
            return function(connection, *args)

    def lose(self) -> None:
        self.harness.expire_lease(self.run_id)

    def release_for(self, reason: Reason) -> None:
        is_queued = reason in (Reason.DRAIN, Reason.HANDOVER)
        status: Literal["queued", "waiting"] = "queued" if is_queued else "waiting"
        questions = (question(expires_in_s=60),) if reason is Reason.APPROVAL else ()
        ends_ms = 0 if reason is Reason.CODE_VERSION else None
        handover = BILLING if reason is Reason.HANDOVER else None
        change = Release(status=status, reason=reason, questions=questions, ends_ms=ends_ms, handover=handover)
        self.asked = questions[0].id if questions else self.asked
        self.write(release, self.owned, change, self.last, 0)

    def finish(self) -> None:
        self.write(owned.finish, self.owned, EndPayload(status="succeeded", seq=self.last), None)


def scene_in(harness: JournalHarness, state: str, transition: str) -> Scene:
    """Return a run that had an owner, and is in this state as the transition may find it."""
    scene = Scene(harness=harness, run_id=harness.accept(idempotency=KEY).run_id)
    harness.own(scene.run_id)
    REACH[state](scene, transition)
    assert scene.state == state
    return scene


def queued(scene: Scene, _: str) -> None:
    scene.release_for(Reason.DRAIN)


def waiting(scene: Scene, transition: str) -> None:
    reasons = {"resume": Reason.CODE_VERSION, "take results": Reason.TASK, "unpause": Reason.PAUSED}
    reasons["child ends"] = Reason.CHILD
    if transition == "child ends":
        begin_child(scene)
    scene.release_for(reasons.get(transition, Reason.APPROVAL))


def begin_child(scene: Scene) -> str:
    child = scene.harness.accept(thread_id=f"child of {scene.run_id}").run_id
    scene.write(
        lambda connection: connection.execute(update(runs).where(runs.c.id == child).values(parent_id=scene.run_id))
    )
    return child


def end_child(scene: Scene) -> None:
    rows = scene.harness.rows(select(runs.c.id).where(runs.c.parent_id == scene.run_id))
    cancel(scene.harness.database, ME, rows[0].id if rows else begin_child(scene), "ann")


def failed(scene: Scene, transition: str) -> None:
    waiting(scene, "resume" if transition == "resume" else "expire")
    ((timer_id,),) = scene.harness.rows(select(timers.c.id).where(timers.c.run_id == scene.run_id))
    fire(scene.harness.database, scene.run_id, timer_id)


def cancelled(scene: Scene, _: str) -> None:
    scene.lose()
    cancel(scene.harness.database, ME, scene.run_id, "ann")


def dead(scene: Scene, _: str) -> None:
    while scene.state != "dead":
        scene.lose()
        reap(scene.harness.database, scene.run_id)
        claim(scene.harness.database, scene.run_id, "own_1", 60)


def removed(scene: Scene, _: str) -> None:
    scene.finish()
    remove_runs(scene.harness.database, ME, [scene.run_id])


REACH: dict[str, Callable[[Scene, str], None]] = {
    "none": removed,
    "queued": queued,
    "running": lambda scene, _: None,
    "lost": lambda scene, _: scene.lose(),
    "waiting": waiting,
    "succeeded": lambda scene, _: scene.finish(),
    "failed": failed,
    "cancelled": cancelled,
    "dead": dead,
}


def accept(scene: Scene) -> None:
    scene.run_id = scene.harness.accept(idempotency=KEY).run_id


def unowned_runs(scene: Scene) -> UnownedRuns:
    return UnownedRuns(scene.harness.database, "own_teller", 60, lambda written: None)


def task_waits(scene: Scene) -> TaskWaits:
    return TaskWaits(scene.harness.database, lambda written: None)


def tell(scene: Scene) -> None:
    unowned = unowned_runs(scene)
    for row in unowned.claim_undelivered():
        unowned.mark_delivered(row.id)


OTHER_VERSION = RunVersion(digest="e" * 64, content_json='{"model":"m"}', agent_name="A", model="m", queue=None)
ATTEMPT: dict[str, Callable[[Scene], object]] = {
    "accept": accept,
    "defer polling": lambda scene: unowned_runs(scene).defer_polling(scene.run_id),
    "claim": lambda scene: claim(scene.harness.database, scene.run_id, "own_2", 60),
    "extend lease": lambda scene: beat(scene.harness.database, "own_1", 90, [(scene.run_id, scene.fence)]),
    "reserve numbers": lambda scene: scene.write(owned.reserve, scene.run_id, scene.fence, scene.last + 1000),
    "commit": lambda scene: scene.write(owned.commit, scene.owned, 1, 0),
    "clear suspicion": lambda scene: scene.write(owned.set_crashes, scene.run_id, scene.fence, '["noted"]'),
    "finish": lambda scene: scene.finish(),
    "release": lambda scene: scene.release_for(Reason.DRAIN),
    "hand over": lambda scene: scene.release_for(Reason.HANDOVER),
    "wait": lambda scene: scene.release_for(Reason.APPROVAL),
    "pause": lambda scene: control(scene.harness.database, ME, scene.run_id, PAUSE, "ann"),
    "unpause": lambda scene: control(scene.harness.database, ME, scene.run_id, RESUME, "ann"),
    "steer": lambda scene: control(scene.harness.database, ME, scene.run_id, STEER, "ann", data={"content": "Hm."}),
    "set": lambda scene: control(scene.harness.database, ME, scene.run_id, SET, "ann", data={"priority": "high"}),
    "stop": lambda scene: cancel(scene.harness.database, ME, scene.run_id, "ann"),
    "requeue": lambda scene: reap(scene.harness.database, scene.run_id),
    "fail claimed": lambda owned: fail_owned(
        owned.harness.database, owned.run_id, owned.fence, OUTCOME_UNKNOWN("cannot continue")
    ),
    "answer": lambda scene: decide(
        scene.harness.database, ME, scene.run_id, scene.asked, Decision(decision="run_again"), by="ann"
    ),
    "expire": lambda scene: fire(scene.harness.database, scene.run_id, scene.asked),
    "resume": lambda scene: unowned_runs(scene).resume(scene.run_id),
    "upgrade": lambda scene: upgrade(scene.harness.database, ME, scene.run_id, OTHER_VERSION, by="ann"),
    "take results": lambda scene: task_waits(scene).resume(scene.run_id),
    "child ends": end_child,
    "notify observers": tell,
    "remove": lambda scene: remove_runs(scene.harness.database, ME, [scene.run_id]),
}
OF_OWNERS = [transition.name for transition in TABLE if transition.guard.startswith("fence")]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("transition", TABLE, ids=lambda transition: transition.name)
def test_a_cell(harness: JournalHarness, transition: Transition, state: str) -> None:
    scene = scene_in(harness, state, transition.name)
    before = scene.row

    try:
        ATTEMPT[transition.name](scene)
    except CallboardError:
        assert state not in transition.to, "refused, and the table allows it"

    if state in transition.to:
        assert scene.state == transition.to[state][0]
        assert scene.row != before
    else:
        assert scene.row == before


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("requeue", "lost"),
        ("stop", "queued"),
        ("stop", "lost"),
        ("stop", "waiting"),
        ("fail claimed", "running"),
        ("release", "running"),
        ("hand over", "running"),
        ("wait", "running"),
        ("answer", "waiting"),
        ("expire", "waiting"),
        ("resume", "waiting"),
        ("upgrade", "waiting"),
        ("take results", "waiting"),
        ("child ends", "waiting"),
    ],
)
def test_a_reason_is_a_code_in_the_row_and_in_the_log(harness: JournalHarness, name: str, state: str) -> None:
    scene = scene_in(harness, state, name)

    ATTEMPT[name](scene)

    written = [decode(line.data) for line in harness.lines(scene.run_id)]
    logged = {payload.reason for payload in written if isinstance(payload, StatusPayload | EndPayload)}
    assert logged | {scene.row.reason} <= {None, *Reason, scene.row.error_code}
    assert scene.row.reason is not None


@pytest.mark.parametrize("state", ["running", "lost"])
@pytest.mark.parametrize("name", OF_OWNERS)
def test_an_earlier_owner_changes_nothing(
    harness: JournalHarness, name: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = scene_in(harness, state, name)
    before = scene.row
    monkeypatch.setattr(Scene, "fence", before.fence - 1)

    with contextlib.suppress(StaleOwner):
        ATTEMPT[name](scene)

    assert scene.row == before


@pytest.mark.parametrize(("name", "after"), [("wait", "queued"), ("requeue", "cancelled")])
def test_a_stop_that_came_meanwhile_leads_elsewhere(harness: JournalHarness, name: str, after: str) -> None:
    scene = scene_in(harness, "running", name)
    cancel(harness.database, ME, scene.run_id, "ann")
    scene.lose()

    ATTEMPT[name](scene)

    assert scene.state == after
    assert after in BY_NAME[name].to["lost"]


def test_a_paused_run_that_is_moved_stays_paused_and_expires_as_before(harness: JournalHarness) -> None:
    scene = scene_in(harness, "queued", "pause")
    ATTEMPT["pause"](scene)
    due = harness.rows(select(timers))

    ATTEMPT["upgrade"](scene)

    assert (scene.state, scene.row.reason) == ("waiting", "paused")
    assert scene.row.definition_digest == OTHER_VERSION.digest
    assert harness.rows(select(timers)) == due != []
    ATTEMPT["unpause"](scene)
    assert (scene.state, scene.row.definition_digest) == ("queued", OTHER_VERSION.digest)


def test_a_run_with_another_open_question_still_waits(harness: JournalHarness) -> None:
    scene = scene_in(harness, "running", "answer")
    questions = (question(), question())
    scene.write(
        release, scene.owned, Release(status="waiting", reason=Reason.APPROVAL, questions=questions), scene.last, 0
    )
    scene.asked = questions[0].id

    ATTEMPT["answer"](scene)

    assert scene.state == "waiting"


def test_the_tables_states_are_those_of_the_column() -> None:
    assert set(STATES) - {NONE, LOST} == {str(status) for status in RunStatus}
    assert set(ENDED) == TERMINAL


def test_the_page_is_written_from_the_table() -> None:
    assert PAGE.read_text() == document(), "python -m bus.journal.states.table"
