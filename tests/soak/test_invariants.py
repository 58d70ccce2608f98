"""Every invariant that only a soak looks at can be broken by hand, and is found then."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import Connection, delete, insert, text, update

from agents.handle import RunHandle
from agents.runner import Runner
from bus.journal.approvals import Decision
from config.database.engine import open_database
from config.database.migrate import migrate
from config.database.tables import controls, events, outbox, runs, steps
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.journeys.neighbour import until
from tests.model_server import ModelServer
from tests.soak import shop
from tests.soak.invariants import broken
from tests.soak.load import Answered, Seen, Started, Watched
from tests.soak.shop import Entry, entries
from tests.soak.talk import AGENT_TOOLS, SHAPED, Asked, Model, agent_of, kind_of

pytestmark = pytest.mark.parity

LATE_MS = 60_000
"""Longer than a run of this soak takes beside busy neighbours."""


SENTENCES = ("chat aaa", "tools bbb", f"pay {shop.LOST[0]}ccc", "hostile ddd", "shaped eee", "failing fff")


@dataclass
class Kept:
    """What a small soak left behind: a database of this test's own, and all that was seen and arrived."""

    url: str
    ledger: Path
    seen: Seen
    asked: list[Asked]

    @property
    def entries(self) -> list[Entry]:
        return list(entries(self.ledger))

    def run_id(self, kind: str) -> str:
        return next(start.run_id for start in self.seen.started if start.sentence.startswith(kind))

    def arrive(self, entry: Entry) -> None:
        """Have something arrive at the shop."""
        line = {name: getattr(entry, name) for name in Entry.__slots__}
        with self.ledger.open("ab") as file:
            file.write(orjson.dumps(line) + b"\n")

    def change(self, act: Callable[[Connection], Any]) -> None:
        database = open_database(self.url)
        with database.write() as connection:
            act(connection)
        database.close()

    def broken(self) -> list[str]:
        database = open_database(self.url)
        problems = list(broken(database, self.seen, self.asked, self.ledger))
        database.close()
        return problems


@pytest.fixture(scope="module")
def small_soak(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Runs that ended well; of one a person was asked what became of its payment."""
    folder = tmp_path_factory.mktemp("soak")
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own; a developer's .env is not the tests'
        state_dir=folder / "state",
        database_url=f"sqlite:///{folder / 'callboard.db'}",
        deployment=folder.name,
        agents_dir=str(folder / "agents"),
    )
    migrate(settings)
    seen, model = Seen(), Model(pace=None)
    with ModelServer() as server, pytest.MonkeyPatch.context() as patch:
        server.respond = model.respond
        patch.setenv(shop.VARIABLE, str(folder / "ledger"))
        patch.setattr(shop, "MOMENT_S", 0)
        runner = Runner.open(settings)
        harness = AppHarness(runner, server, folder / "agents")
        harness.agent(AGENT_TOOLS)
        harness.agent(SHAPED, agent_of("shaped"))
        for sentence in SENTENCES:
            handle = harness.run(sentence, agent_of(kind_of(sentence)), thread_id="shared")
            if sentence.startswith("pay"):
                answer(handle, seen)
            assert handle.result(20).status == "succeeded"
            seen.started.append(Started(handle.run_id, sentence))
            seen.watched.append(Watched(handle.run_id, list(map(orjson.loads, lines_of(runner, handle))), 1))
        runner.settle(10)
        runner.close()
    soak = Kept(f"sqlite:///{folder / 'callboard.db'}", folder / "ledger", seen, model.asked)
    soak.change(lambda connection: connection.execute(delete(outbox)))  # without Redis no wake-up is published
    return soak


def answer(handle: RunHandle, seen: Seen) -> None:
    until(lambda: handle.status() == "waiting", 20, "a person is asked")
    (question,) = handle.approvals()
    handle.decide(question["approval_id"], Decision(decision="take_as_done", result="paid"))
    seen.answered.append(Answered(approval_id=question["approval_id"], decision="take_as_done", is_taken=True))


def lines_of(runner: Runner, handle: RunHandle) -> list[bytes]:
    lines, has_more = runner.journal.readers.page(handle.run_id, handle.thread_id, 0)
    assert not has_more
    return [line.data for line in lines]


@pytest.fixture
def kept(small_soak: Kept, tmp_path: Path) -> Kept:
    """The same, to be broken."""
    for name in ("callboard.db", "ledger"):
        shutil.copyfile(small_soak.ledger.parent / name, tmp_path / name)
    seen = Seen(
        started=list(small_soak.seen.started),
        watched=[replace(viewer, events=list(viewer.events)) for viewer in small_soak.seen.watched],
        answered=list(small_soak.seen.answered),
    )
    return Kept(f"sqlite:///{tmp_path / 'callboard.db'}", tmp_path / "ledger", seen, list(small_soak.asked))


def test_nothing_is_wrong_with_a_soak_that_is_right(kept: Kept) -> None:
    assert kept.broken() == []
    assert [entry.tool for entry in kept.entries] == ["look_up", "send", "order", "pay", "recite"]
    assert len(kept.asked) == 1 + 4 + 2 + 2 + 1 + 2


def event_of(connection: Connection, run_id: str, kind: str) -> Any:
    query = events.select().where(events.c.run_id == run_id, events.c.type == kind).order_by(events.c.seq.desc())
    return connection.execute(query).first()


def test_an_unpublished_wake_up_is_found(kept: Kept) -> None:
    waiting = insert(outbox).values(run_id=kept.run_id("chat"), created_ms=1)
    kept.change(lambda connection: connection.execute(waiting))

    assert kept.broken() == ["1 wake-ups are still in the outbox"]


# --- owners -----------------------------------------------------------------------------------------


def test_two_runs_of_a_thread_with_owners_at_once_are_found(kept: Kept) -> None:
    def end_late(connection: Connection) -> None:
        row = event_of(connection, kept.run_id("chat"), "end")
        connection.execute(update(events).where(events.c.position == row.position).values(position=100_000))

    kept.change(end_late)

    sentences = [sentence for sentence in kept.broken() if "had an owner before" in sentence]
    assert {sentence.split()[0] for sentence in sentences} == {kept.run_id(kind_of(later)) for later in SENTENCES[1:]}


# --- what was done ----------------------------------------------------------------------------------


def test_a_call_that_arrives_after_its_result_was_recorded_is_found(kept: Kept) -> None:
    sent = next(entry for entry in kept.entries if entry.tool == "send")
    kept.arrive(replace(sent, at_ms=sent.at_ms + LATE_MS))

    assert any(sentence.startswith("tool send of") for sentence in kept.broken())


def test_a_model_that_is_asked_again_after_its_answer_was_recorded_is_found(kept: Kept) -> None:
    request = next(candidate for candidate in kept.asked if candidate.sentence == "tools bbb" and candidate.round == 2)
    kept.asked.append(replace(request, at_ms=request.at_ms + LATE_MS))

    assert any(sentence.startswith("model ") for sentence in kept.broken())


def test_an_unsafe_call_that_arrived_twice_is_found(kept: Kept) -> None:
    kept.arrive(next(entry for entry in kept.entries if entry.tool == "pay"))

    assert any("`pay` took effect twice" in sentence for sentence in kept.broken())


def test_a_call_that_arrives_under_two_keys_is_found(kept: Kept) -> None:
    sent = next(entry for entry in kept.entries if entry.tool == "send")
    kept.arrive(replace(sent, key="key_other"))

    problems = kept.broken()

    assert any("under a key that no recorded step has" in sentence for sentence in problems)
    assert any("arrived under 2 keys" in sentence for sentence in problems)


# --- what a person is asked -------------------------------------------------------------------------


def test_a_second_answer_that_was_taken_is_found(kept: Kept) -> None:
    kept.seen.answered.append(replace(kept.seen.answered[0], decision="fail"))

    assert any("fail was taken" in sentence for sentence in kept.broken())


def test_a_call_that_is_made_though_a_person_said_it_was_done_is_found(kept: Kept) -> None:
    paid = next(entry for entry in kept.entries if entry.tool == "pay")
    kept.arrive(replace(paid, at_ms=paid.at_ms + LATE_MS))

    assert any("was called after it was asked about" in sentence for sentence in kept.broken())


def test_a_call_that_is_repeated_before_a_person_allowed_it_is_found(kept: Kept) -> None:
    again = f"UPDATE approvals SET decision = 'run_again', decided_ms = decided_ms + {2 * LATE_MS}"
    kept.change(lambda connection: connection.execute(text(again)))
    paid = next(entry for entry in kept.entries if entry.tool == "pay")
    kept.arrive(replace(paid, at_ms=paid.at_ms + LATE_MS))

    assert any("was called after it was asked about" in sentence for sentence in kept.broken())


def test_a_call_with_other_arguments_than_were_written_down_is_found(kept: Kept) -> None:
    paid = next(entry for entry in kept.entries if entry.tool == "pay")
    kept.arrive(replace(paid, value="a million"))

    assert any(sentence.startswith("pay a million arrived under the key") for sentence in kept.broken())


# --- stops ------------------------------------------------------------------------------------------


def test_a_step_behind_the_end_is_found(kept: Kept) -> None:
    late = update(steps).values(started_ms=steps.c.started_ms + LATE_MS)
    kept.change(lambda connection: connection.execute(late))

    assert len([sentence for sentence in kept.broken() if sentence.startswith("something of")]) == len(SENTENCES)


def test_a_step_behind_a_stop_its_owner_knew_of_is_found(kept: Kept) -> None:
    run_id = kept.run_id("chat")

    def stop_early(connection: Connection) -> None:
        connection.execute(insert(controls).values(run_id=run_id, kind="stop", created_ms=1))
        connection.execute(update(runs).values(ended_ms=runs.c.ended_ms + 2 * LATE_MS))
        late = update(steps).where(steps.c.run_id == run_id)
        connection.execute(late.values(started_ms=steps.c.started_ms + LATE_MS))

    kept.change(stop_early)

    (problem,) = [sentence for sentence in kept.broken() if sentence.startswith("something of")]
    assert problem.startswith(f"something of {run_id} began")


# --- viewers ----------------------------------------------------------------------------------------


def test_a_viewer_that_missed_an_event_is_found(kept: Kept) -> None:
    del kept.seen.watched[0].events[0]

    assert any("a viewer missed [1]" in sentence for sentence in kept.broken())
