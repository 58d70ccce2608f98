"""Versions of agents in runs of others: a canary has its share, and what was approved for one version stays with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from agents.delegation.child_work import ChildWork
from agents.governance.guardrails.guardrails import guard_of
from agents.handle import RunHandle
from agents.models.call import ModelCall
from agents.models.errors import MODEL_REFUSED
from agents.models.scripted import Call, ScriptedModel, Turn
from agents.process import Process, use_process
from agents.registry import AgentRegistry
from agents.runner import Runner
from agents.tools.tool import tool
from bus.celery_app import Publisher
from bus.journal import Journal
from bus.journal.approvals import Decision
from bus.journal.clients import Origin
from bus.journal.errors import StaleOwner
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import ApprovalPayload, ToolResultPayload
from config.database.migrate import migrate
from config.database.tables import runs
from config.identity.principal import LOCAL
from config.settings import Settings
from handlers.run_agent import run_agent
from tests.bus.journal_harness import lose_owner

PAYS = {"tools": ["tests.agents.test_promotions:pay"]}
ASKS = {"tools": ["agent:clerk"]}
CONFIRMED = ASKS | {"tool_overrides": {"clerk": {"confirm": True, "sticky": ["thread"], "sticky_s": 600}}}
CHANGE = Call(name="ChangeGoal", arguments={"goal": "clerk"})


PAY = Turn(calls=[Call(name="pay", arguments={"cents": 5}, id="call_1")])
paid: list[int] = []


@tool(confirm=True, sticky=["tool"], sticky_s=600)
def pay(cents: int) -> str:
    """Pay."""
    paid.append(cents)
    return f"paid {cents}"


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    paid.clear()


def ask(*numbers: int) -> Turn:
    return Turn(calls=[Call(name="clerk", arguments={"message": str(number)}) for number in numbers])


class Office:
    """``boss`` and the versions of ``clerk``, whose answer is its prompt; of files, as a deployment has them."""

    def __init__(self, runner: Runner, folder: Path) -> None:
        self.runner, self._folder = runner, folder
        self.model = ScriptedModel()
        self.model.respond = self._respond
        self.turns: list[Turn] = []
        """What boss does, before it says that it is done."""
        self.versions = runner.journal.stores.agent_versions

    def write(self, agent_id: str, prompt: str, **fields: Any) -> None:
        fields = {"name": agent_id, "model": self.model.name, "system_prompt": prompt} | fields
        (self._folder / f"{agent_id}.yaml").write_bytes(orjson.dumps(fields))  # JSON is YAML
        self.runner.registry.register()

    def _respond(self, call: ModelCall) -> Turn:
        prompt = str(call.messages[0]["content"])
        if not prompt.startswith("boss"):
            return Turn(text=prompt)
        return self.turns.pop(0) if self.turns else Turn(text="Done.")

    def run(self, *turns: Turn, **options: Any) -> RunHandle:
        self.turns = [*turns]
        return self.runner.run("Hello", "boss", **options)

    def results(self, handle: RunHandle) -> list[str]:
        """Return the results of the calls of a run, once it has ended."""
        assert handle.result(30).status == "succeeded"
        return [str(event.result) for event in handle.events() if isinstance(event, ToolResultPayload)]

    def asked(self, *turns: Turn, **options: Any) -> RunHandle:
        """Return a run that waits for a person's approval."""
        handle = self.run(*turns, **options)
        self.until_asked(handle)
        return handle

    @staticmethod
    def until_asked(handle: RunHandle, times: int = 1) -> None:
        """Return once a run has asked a person so often."""
        questions = (event for event in handle.events() if isinstance(event, ApprovalPayload) and not event.decision)
        for _ in range(times):
            next(questions)

    def approve(self, handle: RunHandle, **options: Any) -> None:
        [question] = handle.approvals()
        handle.decide(question["approval_id"], Decision(decision="approve", **options))

    def rows(self, **columns: str) -> list[Any]:
        query = select(runs).where(*(runs.c[name] == value for name, value in columns.items()))
        with self.runner.journal.database.read() as connection:
            return list(connection.execute(query))

    def work(self, run_id: str) -> None:
        [row] = self.rows(id=run_id)
        with suppress(StaleOwner):
            run_agent(RunAgentMessage.of_run(row).to_wire())


@pytest.fixture
def office(settings: Settings, tmp_path: Path, each_database_url: str) -> Iterator[Office]:
    """One with the versions ``one`` and ``two`` of clerk, of which ``one`` is stable."""
    folder = tmp_path / "agents"
    folder.mkdir()
    own = {"agents_dir": str(folder), "child_runs": 32, "database_url": each_database_url}
    chosen = settings.model_copy(update=own)
    migrate(chosen)
    journal = Journal(chosen, publish=Publisher(chosen), guard=partial(guard_of, chosen))
    registry = AgentRegistry(chosen.agent_folders, chosen.local_principal, journal.stores.agent_versions)
    process = Process(settings=chosen, journal=journal, registry=registry)
    use_process(process)
    runner = Runner(process)
    new_office = Office(runner, folder)
    new_office.write("boss", "boss", **ASKS)
    for prompt in ("one", "two"):
        new_office.write("clerk", prompt)
    new_office.versions.promote(LOCAL, "clerk", 1)
    yield new_office
    runner.settle(10)
    runner.close()


def require_own_sides(office: Office) -> None:
    """Check that each run of clerk has the version that serves its thread."""
    registry = office.runner.registry
    for row in office.rows(agent_id="clerk"):
        assert registry.startable(LOCAL, "clerk", row.thread_id).digest == row.definition_digest


# --- a canary


@pytest.mark.parity
def test_a_canary_gets_its_share_of_child_runs_each_by_its_own_thread(office: Office) -> None:
    office.versions.promote(LOCAL, "clerk", 2, "canary", 50)

    handle = office.run(ask(*range(24)))

    assert set(office.results(handle)) == {"one", "two"}
    require_own_sides(office)


def test_a_canary_gets_its_share_of_what_a_router_passes_on(office: Office) -> None:
    office.write("boss", "boss", router=[{"agent": "clerk"}])
    office.versions.promote(LOCAL, "clerk", 2, "canary", 100)

    assert office.results(office.run()) == ["two"]


@pytest.mark.parity
def test_a_run_is_handed_over_to_the_version_that_serves_its_thread(office: Office) -> None:
    office.write("boss", "boss", tools=["ChangeGoal"])
    office.versions.promote(LOCAL, "clerk", 2, "canary", 50)

    outputs = {office.run(Turn(calls=[CHANGE]), thread_id=f"talk {n}").result(30).output for n in range(16)}

    assert outputs == {"one", "two"}
    require_own_sides(office)


def test_a_run_is_not_handed_over_to_a_version_that_is_not_kept(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.write("boss", "boss", tools=["ChangeGoal"])
    office.versions.promote(LOCAL, "clerk", 2, "canary", 100)
    office.runner.registry._by_digest.clear()
    content, [two] = (
        office.versions.content,
        [row["digest"] for row in office.versions.listed("clerk") if row["version"] == 2],
    )
    monkeypatch.setattr(office.versions, "content", lambda digest: None if digest == two else content(digest))

    assert "is not kept any more" in office.results(office.run(Turn(calls=[CHANGE])))[0]


@pytest.mark.parity
def test_a_rerun_gets_the_version_that_serves_its_own_thread(office: Office) -> None:
    first = office.runner.run("Hello", "clerk")
    first.result(30)
    office.versions.promote(LOCAL, "clerk", 2, "canary", 50)

    origin = Origin(run_id=first.run_id, kind="rerun", from_step=1)
    again = [office.runner.repeat(origin, LOCAL) for _ in range(16)]

    assert {handle.result(30).output for handle in again} == {"one", "two"}
    registry = office.runner.registry
    for handle in again:
        [row] = office.rows(id=handle.run_id)
        assert registry.startable(LOCAL, "clerk", row.thread_id).digest == row.definition_digest


def test_a_rerun_from_behind_a_hand_over_is_a_run_that_was_handed_over(office: Office) -> None:
    office.write("boss", "boss", tools=["ChangeGoal"])
    office.write("clerk", "three", tools=["agent:boss"])
    office.versions.promote(LOCAL, "clerk", 3)
    first = office.run(Turn(calls=[CHANGE]))
    first.result(30)

    again = office.runner.repeat(Origin(run_id=first.run_id, kind="rerun", from_step=3), LOCAL)
    again.result(30)

    [row] = office.rows(id=again.run_id)
    assert (row.agent_id, row.handed_from_json) == ("clerk", '["boss"]')
    assert office.runner.journal.owner.lineage(again.run_id) == [["boss", "clerk"]]


# --- an approval


@pytest.mark.parity
def test_a_call_that_a_person_approved_goes_to_no_canary(office: Office) -> None:
    office.write("boss", "boss", **CONFIRMED)
    office.versions.promote(LOCAL, "clerk", 2, "canary", 100)

    handle = office.asked(ask(1), ask(2), thread_id="talk")
    office.approve(handle, scope="thread")

    assert office.results(handle) == ["one", "one"]  # the second by the approval of the first


@pytest.mark.parity
def test_an_agent_that_is_promoted_between_question_and_answer_needs_another_approval(office: Office) -> None:
    office.write("boss", "boss", **CONFIRMED)
    handle = office.asked(ask(1))

    office.versions.promote(LOCAL, "clerk", 2)
    office.approve(handle)
    office.until_asked(handle, times=2)

    assert office.rows(agent_id="clerk") == []
    office.approve(handle)
    assert office.results(handle) == ["two"]


def test_an_agent_that_is_promoted_between_answer_and_call_does_not_get_the_call(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.write("boss", "boss", **CONFIRMED)
    begin = ChildWork.begin

    async def late(work: ChildWork, *arguments: Any, **options: Any) -> None:
        office.versions.promote(LOCAL, "clerk", 2)
        await begin(work, *arguments, **options)

    handle = office.asked(ask(1))
    monkeypatch.setattr(ChildWork, "begin", late)
    office.approve(handle)

    [result] = office.results(handle)
    assert "may have changed since this call was approved" in result
    assert office.rows(agent_id="clerk") == []


@pytest.mark.parametrize(
    ("is_sticky", "version", "results"),
    [
        (False, 1, ["one"]),
        (False, 2, ["Error: agent 'clerk' may have changed since this call was approved; call it again."]),
        (True, 2, ["one", "Error: agent 'clerk' may have changed since this call was approved; call it again."]),
    ],
)
def test_an_approved_call_whose_worker_is_lost_before_the_child_run_goes_to_no_other_version(
    office: Office, monkeypatch: pytest.MonkeyPatch, is_sticky: bool, version: int, results: list[str]
) -> None:
    office.write("boss", "boss", **CONFIRMED)
    office.versions.promote(LOCAL, "clerk", 1)
    office.versions.promote(LOCAL, "clerk", 2, "canary", 100)
    lost: list[str] = []
    begin = ChildWork.begin

    async def lose(work: ChildWork, *arguments: Any, **options: Any) -> None:
        if len(lost) == is_sticky:
            lost.append("")
            raise StaleOwner("this run", 0)
        lost.append("")
        await begin(work, *arguments, **options)

    monkeypatch.setattr(ChildWork, "begin", lose)
    handle = office.run(ask(1), *([ask(2)] if is_sticky else []), detached=True)
    office.work(handle.run_id)
    office.approve(handle, **({"scope": "thread"} if is_sticky else {}))
    office.work(handle.run_id)
    for row in office.rows(parent_id=handle.run_id):
        office.work(row.id)
        office.work(handle.run_id)
    office.versions.promote(LOCAL, "clerk", version)
    lose_owner(office.runner.journal.database, handle.run_id)
    office.work(handle.run_id)
    for row in office.rows(parent_id=handle.run_id, status="queued"):
        office.work(row.id)
        office.work(handle.run_id)

    assert office.results(handle) == results


@pytest.mark.parity
def test_a_run_whose_agent_is_promoted_meanwhile_makes_the_approved_call_with_its_own_version(office: Office) -> None:
    office.write("boss", "boss one", **PAYS)
    office.write("boss", "boss two", tool_overrides={"pay": {"timeout_s": 7}}, **PAYS)
    office.versions.promote(LOCAL, "boss", 2)
    handle = office.asked(PAY)

    office.versions.promote(LOCAL, "boss", 3)
    office.approve(handle, scope="tool")

    assert (office.results(handle), paid) == (["paid 5"], [5])
    assert {call.messages[0]["content"] for call in office.model.requests} == {"boss one"}
    office.asked(PAY).cancel()  # the approval of the tool's later calls was for version 2
    assert paid == [5]


def test_a_call_of_a_fallback_is_not_made_by_the_approval_that_the_first_models_call_got(office: Office) -> None:
    second = ScriptedModel()
    second.script(PAY, Turn(text="Done."))
    office.write("boss", "boss", fallbacks=[second.name], **PAYS)
    handle = office.asked(PAY, Turn(error=MODEL_REFUSED(model="m", reason="no", cannot_serve=True)))

    office.approve(handle)
    office.until_asked(handle, times=2)

    assert (paid, len(second.requests)) == ([5], 1)
    office.approve(handle)
    assert office.results(handle) == ["paid 5", "paid 5"]
