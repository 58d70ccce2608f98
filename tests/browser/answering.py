"""A web process of a test's own whose runs no worker takes: the test is the worker, and the runs wait."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import update
from werkzeug.serving import WSGIRequestHandler, make_server

from agents.governance.guardrails.guardrails import Guardrails
from agents.process import Process
from agents.registry import AgentRegistry
from agents.runner import Runner
from bus.identity.credentials import keys
from bus.identity.credentials.key_form import SECRET_NAME, KeyForm
from bus.journal import Journal
from bus.journal.owner import Commit, HistoryItem, StepStarted
from bus.journal.ownership.reaper import reap
from bus.payloads import EndPayload, EndStatus, MessagePayload, Payload, ToolPayload, encode
from config.database.migrate import migrate
from config.database.shared_secret import shared_secret
from config.database.tables import runs
from config.identity.principal import Principal, Role
from config.settings import Settings
from tests.bus.journal_harness import claim
from tests.bus.questions import asks, owned_again, question
from web.app import create_app

AGENT = "name: Support\ndescription: Answers customers.\nmodel: openai/gpt-5-mini\nsystem_prompt: You answer.\n"
SAYS = "I have the order in front of me. I am paying it back now."


class Counter:
    """The place where runs wait, and the worker that resumes them."""

    def __init__(self, runner: Runner, url: str) -> None:
        self.runner = runner
        self.journal: Journal = runner.journal
        self.url = url

    def waiting(self, *questions: Any, text: str = "Please pay back order 1042.") -> tuple[str, str]:
        """Return a run that asks, and its thread."""
        handle = self.runner.run(text, "support")
        self.journal.live.publish(asks(self.journal.database, handle.run_id, *(questions or (question(),)), says=SAYS))
        return handle.run_id, handle.thread_id

    def calling(self, name: str) -> tuple[str, str]:
        """Return a run whose pure call of this tool is under way, and its thread; its owner is lost."""
        handle = self.runner.run("Look it up.", "support")
        run_id, thread_id = handle.run_id, handle.thread_id
        lease = claim(self.journal.database, run_id, "own_lost", 60.0)
        assert lease is not None
        call: dict[str, Any] = {"call_id": "call_1", "name": name, "arguments": {"title": "Emma"}}
        step = StepStarted(
            id="stp_1",
            kind="tool",
            name=name,
            arguments_digest="a",
            idempotency_key="k",
            effect="pure",
            call_id="call_1",
        )
        history_item = HistoryItem(id="msg_1", role="assistant", data={"content": "", "tool_calls": [call]})
        event = ToolPayload(**call, effect="pure", message_id="msg_1", step_id="stp_1")

        def tell(payload: Payload) -> None:
            self.journal.live.hot_log.append(run_id, payload.seq, encode(payload, run_id, thread_id))

        async def work() -> None:
            writer = self.journal.owner.writer(lease, tell)
            self.journal.live.hot_log.attach(run_id, lease.fence, writer)
            await writer.commit(Commit(events=[event], started=[step], history=[history_item]))
            await self.journal.live.hot_log.detach(run_id)

        self.journal.loop.run(work(), 20)
        with self.journal.database.write() as connection:
            connection.execute(update(runs).where(runs.c.id == run_id).values(lease_until=0))
        return run_id, thread_id

    def key(self, name: str, *roles: Role) -> str:
        """Return a new API key with these roles."""
        form = KeyForm(partial(shared_secret, self.journal.database, SECRET_NAME))
        form.open()
        with self.journal.database.write() as connection:
            return keys.create(connection, form, Principal(id=name, roles=frozenset(roles)), by=name)[1]

    def resume(
        self, run_id: str, *events: Payload, text: str = "It is paid back.", status: EndStatus = "succeeded"
    ) -> None:
        """Resume an answered run, or one whose worker was lost, and end it, as a worker would."""
        reap(self.journal.database, run_id)
        lease = owned_again(self.journal.database, run_id)

        def tell(payload: Payload) -> None:
            self.journal.live.hot_log.append(run_id, payload.seq, encode(payload, run_id, lease.thread_id))

        writer = self.journal.owner.writer(lease, tell)
        message = MessagePayload(role="assistant", content=text, message_id="msg_2", step_id="stp_2")
        end = EndPayload(status=status, output=text, duration_ms=90_000)
        item = HistoryItem(id="msg_2", role="assistant", data={"content": text})

        async def work() -> None:
            self.journal.live.hot_log.attach(run_id, lease.fence, writer)
            for payload in lease.first_events:
                tell(payload)
            await writer.commit(Commit(events=[*events, message, end], history=[item]))
            await self.journal.live.hot_log.detach(run_id)

        self.journal.loop.run(work(), 20)


@contextmanager
def opened_counter(folder: Path, auth: Literal["none", "required"] = "none") -> Iterator[Counter]:
    """Yield a served page and its runs; ``folder`` keeps the database."""
    (folder / "agents").mkdir()
    (folder / "agents" / "support.yaml").write_text(AGENT)
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own; a developer's .env is not the tests'
        state_dir=folder,
        database_url=f"sqlite:///{folder / 'callboard.db'}",
        agents_dir=str(folder / "agents"),
        auth=auth,
    )
    migrate(settings)
    journal = Journal(settings, publish=lambda message: None, guard=Guardrails)
    registry = AgentRegistry(settings.agent_folders, versions=journal.stores.agent_versions)
    runner = Runner(Process(settings=settings, journal=journal, registry=registry), inline=False)
    app = create_app(settings, runner)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    threading.Thread(target=server.serve_forever, name="counter", daemon=True).start()
    yield Counter(runner, f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    app.extensions["callboard"].close()
    journal.close()
    server.server_close()
    shutil.rmtree(folder, ignore_errors=True)


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        """Requests are not logged."""
