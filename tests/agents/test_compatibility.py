"""Code and definitions that change under a run: it continues with what it began with, or waits, and is never guessed
through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import func, select, update

import bus.journal.log.writer
import bus.journal.version
from agents import catalogue, compatibility
from agents.execution import execute
from agents.models.errors import ModelKeyMissing
from agents.process import current_process
from agents.testing import AgentKit, Call, Turn
from bus.journal.approvals import Decision
from bus.journal.errors import StaleOwner
from bus.journal.stores import WorkerRow
from bus.messages.run_agent import RunAgentMessage
from bus.queues import served_queues
from config.database.tables import approvals, definitions, runs, steps, timers
from config.errors import SettingInvalid
from config.identity.principal import Principal
from handlers.run_agent import run_agent
from handlers.worker.maintenance import resume_compatible
from handlers.worker.run_agent_handler import RunAgentHandler
from handlers.worker.slots import SlotPool, open_slot_pool
from tests.agents import changing_tools
from tests.bus.journal_harness import fire_timers, lose_owner

WEIGH = Turn(text="I weigh it.", calls=[Call(name="weigh", arguments={"parcel": "A"}, id="call_1")])
POST = Turn(text="I post it.", calls=[Call(name="post", arguments={"parcel": "A"}, id="call_1")])
DONE = Turn(text="Done.")
TOOLS = "tools: [tests.agents.changing_tools:weigh, tests.agents.changing_tools:post]"


class Runs:
    """Runs that no worker takes unless a test lets one, of agents whose code the test changes."""

    def __init__(self, kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kit = kit
        self._patch = monkeypatch
        self._journal = kit.runner.journal

    def accept(self) -> str:
        return self.kit.run("Hello", "clerk", detached=True).run_id

    def write(self, tools: str = TOOLS, prompt: str = "You are a test.") -> None:
        """Write the agent's file, which every run is accepted with."""
        self.file.write_text(f"name: Clerk\nmodel: any/model\nsystem_prompt: {prompt}\n{tools}\n")

    def work(self, run_id: str) -> str:
        """Let one owner work until the run ended, waits or was lost, and return what it is then."""
        row = self.row(run_id)
        begun = RunAgentHandler(current_process()).take(
            RunAgentMessage(
                run_id=run_id, agent_id=row.agent_id, thread_id=row.thread_id, definition_digest=row.definition_digest
            )
        )
        if begun is not None:
            self._journal.loop.run(execute(self._journal, begun), 30)
        return str(self.row(run_id).status)

    def lose_owner(self, run_id: str) -> None:
        """Let the run's owner disappear behind the commit that writes its first calls down."""
        with self._patch.context() as patch:
            patch.setattr(bus.journal.log.writer, "failpoint", _lose)
            assert self.work(run_id) == "running"
        self.set(run_id, owner="own_elsewhere")
        lose_owner(self._journal.database, run_id)

    def halfway(self) -> str:
        """Return a run whose first call is written down and was never made."""
        run_id = self.accept()
        self.lose_owner(run_id)
        return run_id

    def change_tool(self, name: str, into: str) -> None:
        self._patch.setattr(changing_tools, name, getattr(changing_tools, into))
        catalogue.forget()

    def remove_tool(self, name: str) -> None:
        self._patch.delattr(changing_tools, name)
        catalogue.forget()

    def bring_code_back(self) -> None:
        self._patch.undo()
        catalogue.forget()

    @property
    def file(self) -> Path:
        return self.kit.settings.agent_folders[0] / "clerk.yaml"

    def prompt(self, number: int = -1) -> str:
        """Return the system prompt of a call of the model."""
        return str(self.kit.model.requests[number].messages[0]["content"])

    def row(self, run_id: str) -> Any:
        with self._journal.database.read() as connection:
            return connection.execute(select(runs).where(runs.c.id == run_id)).one()

    def steps(self, run_id: str) -> list[Any]:
        with self._journal.database.read() as connection:
            query = select(steps).where(steps.c.run_id == run_id).order_by(steps.c.number)
            return list(connection.execute(query).all())

    def why(self, run_id: str) -> str:
        (explanation,) = self._journal.readers.runs.explain(Principal(), run_id=run_id)
        return f"{explanation.waits_for}: {explanation.sentence}"

    def timers(self, run_id: str) -> int:
        with self._journal.database.read() as connection:
            its = (timers.c.run_id == run_id, timers.c.kind == "code")
            query = select(func.count()).select_from(timers).where(*its)
            return int(connection.execute(query).scalar_one())

    def set(self, run_id: str, **values: Any) -> None:
        with self._journal.database.write() as connection:
            connection.execute(update(runs).where(runs.c.id == run_id).values(**values))

    def take_up(self) -> list[str]:
        return resume_compatible(current_process())

    def expire(self, run_id: str) -> None:
        fire_timers(self._journal.database, run_id)


def _lose(stage: str) -> None:
    if stage == "commit":
        raise StaleOwner("this run", 0)


@pytest.fixture
def its(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    changing_tools.called.clear()
    with AgentKit(agents_dir=tmp_path) as kit:
        runs = Runs(kit, monkeypatch)
        runs.write()
        yield runs
    catalogue.forget()


def assert_waits(its: Runs, run_id: str, *words: str) -> None:
    row = its.row(run_id)
    assert (row.status, row.reason, row.owner, row.crashes) == ("waiting", "code_version", None, 1)
    for word in words:
        assert word in row.detail
    assert its.why(run_id) == f"code: {row.detail}"
    assert its.timers(run_id) == 1
    assert changing_tools.called == []


# --- definitions ----------------------------------------------------------------------------------


def test_a_queued_run_begins_with_the_definition_it_was_accepted_with(its: Runs) -> None:
    run_id = its.accept()
    its.write(prompt="You are another test.")
    its.kit.model.script(DONE, DONE)

    assert its.work(run_id) == "succeeded"
    assert its.prompt() == "You are a test."
    assert its.work(its.accept()) == "succeeded"
    assert its.prompt() == "You are another test."


def test_a_run_between_two_owners_continues_with_its_definition(its: Runs) -> None:
    its.kit.model.script(WEIGH, DONE)
    run_id = its.halfway()
    its.write(prompt="You are another test.")

    assert its.work(run_id) == "succeeded"
    assert its.prompt() == "You are a test."
    assert changing_tools.called == ["weigh A"]


def test_a_run_continues_whose_agent_has_no_file_any_more(its: Runs) -> None:
    its.kit.model.script(WEIGH, DONE, DONE)
    halfway, queued = its.halfway(), its.accept()
    its.file.unlink()

    assert (its.work(halfway), its.work(queued)) == ("succeeded", "succeeded")


def test_a_run_waits_whose_definition_was_not_kept(its: Runs) -> None:
    its.kit.model.script(WEIGH)
    run_id = its.halfway()
    with its.kit.runner.journal.database.write() as connection:
        connection.execute(definitions.delete())
    its.write(prompt="You are another test.")

    assert its.work(run_id) == "waiting"
    assert_waits(its, run_id, "the definition of 'clerk'", "is not kept")


def test_a_run_waits_for_code_that_takes_its_definition_and_is_taken_up_by_it(its: Runs) -> None:
    run_id = its.accept()  # nothing is done of it yet, and still it is not begun with another definition
    its.file.unlink()
    with its.kit.runner.journal.database.write() as connection:
        definition = orjson.loads(connection.execute(select(definitions.c.content_json)).scalar_one())
        newer = orjson.dumps(definition | {"later_field": 1}).decode()
        connection.execute(update(definitions).values(content_json=newer))

    assert its.work(run_id) == "waiting"
    assert "later_field" in its.row(run_id).detail
    assert its.take_up() == []

    with its.kit.runner.journal.database.write() as connection:
        connection.execute(update(definitions).values(content_json=orjson.dumps(definition).decode()))
    its.kit.model.script(DONE)
    assert its.take_up() == [run_id]
    assert its.work(run_id) == "succeeded"


# --- tools ----------------------------------------------------------------------------------------


def test_a_run_waits_whose_unfinished_call_has_no_tool_any_more(its: Runs) -> None:
    its.kit.model.script(WEIGH, DONE)
    run_id = its.halfway()
    its.remove_tool("weigh")

    assert its.work(run_id) == "waiting"
    assert_waits(its, run_id, "weigh")
    assert its.take_up() == []

    its.bring_code_back()
    assert its.take_up() == [run_id]
    assert its.timers(run_id) == 0
    assert its.work(run_id) == "succeeded"
    assert changing_tools.called == ["weigh A"]


def test_a_queued_run_of_a_newer_release_waits_for_a_worker_that_has_its_tools(its: Runs) -> None:
    its.kit.model.script(DONE)
    run_id = its.accept()
    its.write("tools: [tests.agents.changing_tools:post]")  # this worker has the definition of another release,
    its.remove_tool("weigh")  # and not the tool

    assert its.work(run_id) == "waiting"
    row = its.row(run_id)
    assert (row.reason, row.crashes) == ("code_version", 0)
    assert "weigh" in row.detail
    assert its.take_up() == []

    its.bring_code_back()
    assert its.take_up() == [run_id]
    assert its.work(run_id) == "succeeded"


def test_a_queued_run_fails_whose_definition_is_the_one_here_and_names_no_tool(its: Runs) -> None:
    run_id = its.accept()
    its.remove_tool("weigh")

    assert its.work(run_id) == "failed"
    assert its.row(run_id).reason == "tool_unknown"


def test_a_call_is_made_with_a_tool_that_has_a_new_optional_argument(its: Runs) -> None:
    its.kit.model.script(WEIGH, DONE)
    run_id = its.halfway()
    its.change_tool("weigh", "weigh_in_units")

    assert its.work(run_id) == "succeeded"
    assert changing_tools.called == ["weigh A in kg"]


@pytest.mark.parametrize(
    ("into", "words"),
    [
        ("weigh_by_number", ("its tool has changed", "weigh", "number")),
        ("weigh_and_charge", ("weigh was pure then and is unsafe here",)),
    ],
)
def test_a_run_waits_whose_unfinished_call_does_not_fit_its_tool(its: Runs, into: str, words: tuple[str, ...]) -> None:
    its.kit.model.script(WEIGH, DONE)
    run_id = its.halfway()
    its.change_tool("weigh", into)

    assert its.work(run_id) == "waiting"
    assert_waits(its, run_id, *words)
    assert its.take_up() == []

    its.bring_code_back()
    assert its.take_up() == [run_id]
    assert its.work(run_id) == "succeeded"


def test_a_run_waits_whose_unfinished_call_has_an_effect_of_a_later_release(its: Runs) -> None:
    its.kit.model.script(WEIGH, DONE)
    run_id = its.halfway()
    with its.kit.runner.journal.database.write() as connection:
        connection.execute(update(steps).where(steps.c.kind == "tool").values(effect="of_next_year"))

    assert its.work(run_id) == "waiting"
    assert_waits(its, run_id, "does not know its effect 'of_next_year'")


def test_a_call_that_could_not_be_made_fails_as_it_did_the_first_time(its: Runs) -> None:
    error = Call(name="weigh", arguments={"number": 7}, id="call_1")
    its.kit.model.script(Turn(calls=[error, Call(name="wiegh", arguments={}, id="call_2")]), DONE)
    run_id = its.halfway()
    its.change_tool("weigh", "weigh_by_number")  # into which it would fit

    assert its.work(run_id) == "succeeded"
    assert [(step.effect, step.status) for step in its.steps(run_id) if step.kind == "tool"] == [(None, "failed")] * 2
    assert changing_tools.called == []


def test_what_a_person_knows_of_a_call_needs_no_fitting_tool(its: Runs) -> None:
    its.kit.model.script(POST, DONE)
    run_id, approval_id = _asked(its)
    _decide(its, run_id, approval_id, "take_as_done", "posted by hand")
    its.change_tool("post", "post_by_number")

    assert its.work(run_id) == "succeeded"
    assert its.steps(run_id)[1].result_json == '"posted by hand"'
    assert changing_tools.called == []


def test_a_call_a_person_wants_made_again_waits_for_its_tool(its: Runs) -> None:
    its.kit.model.script(POST, DONE)
    run_id, approval_id = _asked(its)
    _decide(its, run_id, approval_id, "run_again")
    its.remove_tool("post")

    assert its.work(run_id) == "waiting"
    assert_waits(its, run_id, "post")

    its.bring_code_back()
    its.take_up()
    assert its.work(run_id) == "succeeded"
    assert changing_tools.called == ["post A"], "the answer was not used up by the worker that had no tool"


# --- the journal's form, messages, and waiting for ever -------------------------------------------


def test_a_run_with_a_newer_journal_waits_for_newer_code(its: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    its.kit.model.script(WEIGH, DONE)
    run_id = its.halfway()
    its.set(run_id, journal=5)

    assert its.work(run_id) == "waiting"
    assert_waits(its, run_id, "form 5", "update the worker")
    assert its.take_up() == []

    monkeypatch.setattr(bus.journal.version, "JOURNAL_VERSION", 5)
    assert its.take_up() == [run_id]
    assert its.work(run_id) == "succeeded"


def test_runs_that_do_not_fit_hide_none_that_does(its: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bus.journal.unowned.runs.BATCH", 2)
    its.kit.model.script(*[WEIGH] * 6)
    waiting = sorted(its.halfway() for _ in range(6))
    for run_id in waiting:
        its.set(run_id, journal=5)
        assert its.work(run_id) == "waiting"

    its.set(waiting[-1], journal=1)
    assert its.take_up() == waiting[-1:]


def test_the_process_that_can_resume_a_run_claims_it(its: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    its.kit.model.script(WEIGH)
    run_id = its.halfway()
    its.set(run_id, journal=5)
    its.work(run_id)
    monkeypatch.setattr(bus.journal.version, "JOURNAL_VERSION", 5)
    slots: SlotPool = open_slot_pool(1)

    try:
        its.take_up()
        assert slots.deferred() == {run_id}
    finally:
        open_slot_pool(1_000_000)


def test_a_run_that_waits_for_code_is_left_to_workers_that_serve_its_queue(
    its: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    its.kit.model.script(WEIGH)
    run_id = its.halfway()
    its.set(run_id, journal=5, queue="gpu")
    assert its.work(run_id) == "waiting"
    monkeypatch.setattr(bus.journal.version, "JOURNAL_VERSION", 5)

    assert its.take_up() == []


def test_a_run_for_which_no_code_comes_fails_in_the_end(its: Runs) -> None:
    its.kit.model.script(WEIGH)
    run_id = its.halfway()
    its.remove_tool("weigh")
    assert its.work(run_id) == "waiting"
    ttl_ms = its.kit.settings.approval_ttl_s * 1000
    with its.kit.runner.journal.database.read() as connection:
        due_ms = connection.execute(select(timers.c.due_ms).where(timers.c.run_id == run_id)).scalar_one()
    assert abs(due_ms - its.row(run_id).started_ms - ttl_ms) < 60_000

    its.expire(run_id)

    row = its.row(run_id)
    assert (row.status, row.reason, row.error_code) == ("failed", "code_version", "code_version")
    assert [step.status for step in its.steps(run_id)] == ["done", "failed"]
    assert changing_tools.called == []


def test_a_run_that_was_taken_up_is_not_ended_by_its_old_timer(its: Runs) -> None:
    its.kit.model.script(WEIGH, DONE)
    run_id = its.halfway()
    its.remove_tool("weigh")
    its.work(run_id)
    its.bring_code_back()
    its.take_up()
    its.expire(run_id)

    assert its.work(run_id) == "succeeded"


def test_a_message_of_a_newer_version_is_dropped_and_its_run_found_all_the_same(its: Runs) -> None:
    its.kit.model.script(DONE)
    run_id = its.accept()
    newer = RunAgentMessage(run_id=run_id, agent_id="clerk", thread_id=its.row(run_id).thread_id).to_wire() | {"v": 2}

    run_agent(newer)

    assert its.row(run_id).status == "queued"
    rows = its.kit.runner.journal.owner.unowned.claimable(10, served_queues(its.kit.settings))
    assert [row.id for row in rows] == [run_id]
    assert its.work(run_id) == "succeeded"


# --- what several tests do ------------------------------------------------------------------------


def _asked(its: Runs) -> tuple[str, str]:
    """Return a run that asks what became of its unsafe call, which was never made."""
    run_id = its.halfway()
    assert its.work(run_id) == "waiting"
    with its.kit.runner.journal.database.read() as connection:
        approval_id = connection.execute(select(approvals.c.id).where(approvals.c.run_id == run_id)).scalar_one()
    return run_id, str(approval_id)


def _decide(its: Runs, run_id: str, approval_id: str, decision: str, result: Any = None) -> None:
    answer = Decision(decision=decision, result=result)
    its.kit.runner.journal.clients.decide(Principal(), run_id, approval_id, answer, by="ann")


# --- what no code mends ---------------------------------------------------------------------------


def test_a_run_that_cannot_be_taken_up_ends_with_every_call_answered(its: Runs) -> None:
    its.kit.model.script(POST, DONE)
    run_id = its.halfway()
    its.set(run_id, observers_json='["nobody_has_it"]')

    assert its.work(run_id) == "failed"

    row = its.row(run_id)
    assert (row.reason, row.owner, row.steps) == ("plugin_unknown", None, 2)
    assert "output_tokens" in row.usage_json
    assert [step.status for step in its.steps(run_id)] == ["done", "unknown"]
    messages = its.kit.runner.journal.readers.threads.messages(Principal(), row.thread_id)
    assert [(message["role"], message.get("call_id")) for message in messages][-2:] == [
        ("tool", "call_1"),
        ("error", None),
    ]
    assert its.kit.play("And now?", "clerk", thread_id=row.thread_id).end.status == "succeeded"


def test_a_run_waits_while_the_deployments_guardrails_cannot_be_used(
    its: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    its.kit.model.script(WEIGH, DONE)
    run_id = its.halfway()

    def unusable(*_: object) -> None:
        raise SettingInvalid("the file of CALLBOARD_GUARDRAILS_FILE cannot be used: it is empty.")

    with monkeypatch.context() as broken:
        broken.setattr(compatibility, "guardrails_of", unusable)
        assert its.work(run_id) == "waiting"
    assert its.take_up() == [run_id]
    assert its.work(run_id) == "succeeded"


def test_a_key_that_vanishes_under_a_run_leaves_it_to_a_worker_that_has_it(its: Runs) -> None:
    lost = Turn(error=ModelKeyMissing("a key is missing.", variables=["ITS_KEY"]))
    its.kit.model.script(WEIGH, lost, DONE, lost)
    other = WorkerRow(id="own_elsewhere", host="elsewhere", pid=1, pool="threads", slots=1, busy=0)
    other = replace(other, queue=its.kit.settings.queue, queues=(its.kit.settings.queue,))
    its.kit.runner.journal.stores.workers.renew(other)
    run_id, late = its.accept(), its.accept()

    assert its.work(run_id) == "queued"
    assert its.work(run_id) == "succeeded"
    assert changing_tools.called == ["weigh A"]
    its.kit.runner.journal.stores.workers.renew(replace(other, missing_keys={"ITS_KEY": ["clerk"]}))
    assert its.work(late) == "failed"
    assert its.row(late).reason == "model_key_missing"
