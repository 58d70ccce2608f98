"""A web process on a temporary SQLite, and a owner that writes runs as a worker would."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from agents.governance.guardrails.guardrails import Guardrails
from agents.process import Process
from agents.registry import AgentRegistry
from agents.runner import Runner
from bus.journal import Journal
from bus.journal.owner import Commit, HistoryItem, RunWriter
from bus.journal.stores import WorkerRow
from bus.payloads import EndPayload, MessagePayload, Payload, ResponsePayload, encode
from config.database.migrate import migrate
from config.settings import Settings
from tests.ports import free_port
from tests.web.contract import require_no_difference, watch
from web.app import create_app
from web.process import WebProcess

AGENT = """\
name: Assistant
description: Answers.
model: demo/assistant
system_prompt: You answer.
starters: ["What is 17 * 23?"]
"""


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database without rows; copying it is much quicker than migrating."""
    folder = tmp_path_factory.mktemp("empty")
    migrate(Settings(state_dir=folder, database_url=f"sqlite:///{folder / 'callboard.db'}"))
    return folder / "callboard.db"


@pytest.fixture
def settings(settings: Settings, tmp_path: Path, empty_database: Path) -> Settings:
    return furnish(settings, tmp_path, empty_database)


def furnish(settings: Settings, folder: Path, database: Path) -> Settings:
    """Return settings of a folder with one agent and a database."""
    agents = folder / "agents"
    agents.mkdir()
    (agents / "assistant.yaml").write_text(AGENT)
    shutil.copy(database, folder / "callboard.db")
    return settings.model_copy(update={"agents_dir": str(agents), "lease_s": 60.0, "reap_s": 5.0})


def furnish_served(folder: Path, database: Path) -> Settings:
    """Return settings of a folder as ``furnish`` makes it, for a web process of its own on a free port."""
    bare = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own; a developer's .env is not the tests'
        state_dir=folder / "state",
        database_url=f"sqlite:///{folder / 'callboard.db'}",
        port=free_port(),
    )
    bare.state.mkdir()
    return furnish(bare, folder, database)


@contextmanager
def opened(settings: Settings) -> Iterator[Runner]:
    """Yield a runner whose wake-ups go nowhere: the tests are the workers."""
    journal = Journal(settings, publish=lambda message: None, guard=Guardrails)
    yield Runner(
        Process(
            settings=settings,
            journal=journal,
            registry=AgentRegistry(settings.agent_folders, settings.local_principal, journal.stores.agent_versions),
        ),
        inline=False,
    )
    journal.close()


@pytest.fixture
def runner(settings: Settings) -> Iterator[Runner]:
    with opened(settings) as new_runner:
        yield new_runner


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[FlaskClient]:
    """A client of a process all tests share that only send what is refused."""
    folder = tmp_path_factory.mktemp("door")
    bare = Settings(state_dir=folder, database_url=f"sqlite:///{folder / 'callboard.db'}")
    with opened(furnish(bare, folder, empty_database)) as new_runner, door_of(new_runner) as opened_door:
        yield opened_door


@contextmanager
def door_of(runner: Runner) -> Iterator[FlaskClient]:
    """Yield a client of a web process of its own, whose answers are compared with the OpenAPI document."""
    app = create_app(runner.settings, runner)
    watch(app)
    yield app.test_client()
    process_of(app).close()
    require_no_difference(app)


@pytest.fixture
def journal(runner: Runner) -> Journal:
    return runner.journal


@pytest.fixture
def app(settings: Settings, runner: Runner) -> Iterator[Flask]:
    flask_app = create_app(settings, runner)
    watch(flask_app)
    yield flask_app
    process_of(flask_app).close()
    require_no_difference(flask_app)


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


def serve_queues(journal: Journal, *queues: str, slots: int = 1, busy: int = 0) -> WorkerRow:
    """Write the row of a living worker that serves these queues, and return it; the same worker each time."""
    worker = WorkerRow(id="own_1", host="h", pid=1, pool="threads", slots=slots, busy=busy, queue="runs", queues=queues)
    journal.stores.workers.renew(worker)
    return worker


def process_of(app: Flask) -> WebProcess:
    process = app.extensions["callboard"]
    assert isinstance(process, WebProcess)
    return process


class RunOwner:
    """Writes a run's events as a worker would: numbered, committed, and into the hot log."""

    def __init__(self, journal: Journal, run_id: str, *, is_streamed: bool = True) -> None:
        """``is_streamed``: whether the run has the observer ``sse``."""
        self.journal = journal
        self.is_streamed = is_streamed
        self.run_id = run_id
        self.message_id = "msg_1"
        lease = journal.loop.run(journal.owner.claim(run_id))
        assert lease is not None
        self.writer: RunWriter = journal.owner.writer(lease, self._tell)
        self._thread_id = lease.thread_id
        journal.loop.run(self._begin(lease.fence))
        for payload in lease.first_events:
            journal.loop.run(self._deliver(payload))

    def say(self, *pieces: str) -> None:
        """Stream pieces of the answer, one event each."""

        async def stream() -> None:
            for piece in pieces:
                self.writer.delta(
                    ResponsePayload, {"content": piece, "message_id": self.message_id, "step_id": "stp_1"}
                )

        self.journal.loop.run(stream())

    def commit(self, *events: Payload) -> None:
        """Commit events."""
        self.journal.loop.run(self.writer.commit(Commit(events=events)))

    def finish(self, text: str = "done", status: str = "succeeded", **fields: object) -> None:
        """Make the message whole and end the run."""
        message = MessagePayload(role="assistant", content=text, message_id=self.message_id, step_id="stp_1")
        end = EndPayload(status=status, output=text, **fields)  # type: ignore[arg-type]
        item = HistoryItem(id=self.message_id, role="assistant", data={"content": text})
        self.journal.loop.run(self.writer.commit(Commit(events=(message, end), history=(item,))))
        self.journal.loop.run(self.journal.live.hot_log.detach(self.run_id))

    async def _begin(self, fence: int) -> None:
        self.journal.live.hot_log.attach(self.run_id, fence, self.writer)

    async def _deliver(self, payload: Payload) -> None:
        self._tell(payload)

    def _tell(self, payload: Payload) -> None:
        if self.is_streamed:
            self.journal.live.hot_log.append(self.run_id, payload.seq, encode(payload, self.run_id, self._thread_id))


def accept(runner: Runner, text: str = "Hello", **options: object) -> str:
    return runner.run(text, "assistant", **options).run_id  # type: ignore[arg-type]


def eventually(condition, timeout_s: float = 30.0) -> None:
    """Wait until something another thread does has happened."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.01)
