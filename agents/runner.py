"""The one way in: a sentence and an agent's name become an accepted run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from agents.handle import RunHandle
from agents.models.auto import resolve_model
from agents.process import Process, open_process, process, use_process
from agents.registry import AgentRegistry
from bus.dispatcher import Dispatcher
from bus.journal.accept import NewRun
from bus.journal.idempotency import IdempotencyKey, used_before
from bus.journal.journal import Journal
from bus.journal.runs import find_run
from bus.journal.who import Who
from bus.messages import RunAgentMessage
from bus.routes import AsynchronousRoute, SynchronousRoute
from config.definitions import AgentDefinition
from config.errors import BadRequest, CallboardError, GrantRefused, InputEmpty, InputTooLarge, ObserverTravels
from config.forks import leave_to_parent
from config.settings import Settings
from observers.base import AgentObserver

MAX_THREAD_ID = 128


class Runner:
    """Accepts runs and sends them on their way; one a process.

    A process that was forked from the one it was opened in (a child of Celery's prefork pool, of gunicorn with
    ``preload_app``, of ``multiprocessing``) opens a journal of its own when the runner or a handle is first used there.
    """

    def __init__(self, here: Process) -> None:
        self._bind(here)

    def _bind(self, here: Process) -> None:
        self._here = here
        self._synchronous = SynchronousRoute(here.journal.loop)
        self._dispatcher = Dispatcher(self._synchronous, AsynchronousRoute(here.journal.relay))
        self._pid = os.getpid()

    def _own(self) -> Process:
        """Return what belongs to this process: the threads and connections of the one it was forked from do not."""
        if self._pid != os.getpid():
            leave_to_parent(self._here)
            self._bind(process(self._here.settings))
        return self._here

    @property
    def settings(self) -> Settings:
        """What this runner works with."""
        return self._here.settings

    @property
    def journal(self) -> Journal:
        """Where runs are written to and read from."""
        return self._own().journal

    @property
    def registry(self) -> AgentRegistry:
        """The agents."""
        return self._own().registry

    @classmethod
    def open(cls, settings: Settings | None = None) -> Runner:
        """Return the runner of this process; with ``settings``, one that works with those from now on.

        Raises:
            SchemaOld, SchemaNew: the database does not fit this code.
        """
        if settings is None:
            return cls(process())
        here = open_process(settings)
        use_process(here)
        return cls(here)

    def run(
        self,
        objective: str,
        agent_id: str,
        *,
        thread_id: str | None = None,
        detached: bool = False,
        grant: str | None = None,
        observers: Sequence[AgentObserver | str] = (),
        who: Who = Who(),
        metadata: Mapping[str, Any] | None = None,
        idempotency: IdempotencyKey | None = None,
        here: bool | None = None,
    ) -> RunHandle:
        """Return a handle on a run that is accepted and committed, and on its way.

        Args:
            objective: what to do, a sentence or a page.
            agent_id: which agent does it; a definition's file name.
            thread_id: a conversation to go on with, or a name for a new one; None makes one.
            detached: whether nobody waits. A detached run is worked off by the fleet, else right here.
            grant: the id of a privilege grant; there are none yet.
            observers: more observers than the agent names: by name, or objects where the run is worked off here.
            who: on whose behalf.
            metadata: kept with the run and shown to observers.
            idempotency: makes a repeated request the same run.
            here: whether this process works it off; ``not detached`` unless said otherwise.

        Raises:
            AgentUnknown, DefinitionInvalid: there is no such agent, or its file is broken.
            InputEmpty, InputTooLarge, BadRequest: the objective or the thread's name cannot be used.
            GrantRefused: a grant was given.
            ObserverTravels: an observer object was given for a run the fleet works off.
        """
        here = not detached if here is None else here
        if grant is not None:
            raise GrantRefused
        try:
            self._check(objective, thread_id)
            definition = self.registry.get(agent_id)
        except CallboardError:  # the run may be there all the same: its agent's file was moved since
            if (earlier := self._started_before(who, idempotency)) is None:
                raise
            return earlier
        guests = tuple(observer for observer in observers if isinstance(observer, AgentObserver))
        if guests and not here:
            raise ObserverTravels(type(guest).__name__ for guest in guests)
        named = [observer for observer in observers if isinstance(observer, str)]
        accepted = self._own().journal.accept(
            NewRun(
                objective=objective,
                agent_id=definition.id,
                agent_name=definition.name,
                definition_digest=definition.digest,
                definition_json=definition.content_json,
                model=resolve_model(definition.model, os.environ),
                observers=tuple(dict.fromkeys([*definition.observers, *named])),
                thread_id=thread_id,
                tenant=who.tenant,
                principal=who.principal,
                detached=detached,
                announce=not here,
                metadata=metadata,
                idempotency=idempotency,
            )
        )
        if accepted.is_new:
            if guests:
                self._here.guests[accepted.run_id] = guests
            self._dispatcher.dispatch(_message(accepted.run_id, accepted.thread_id, definition, detached), here=here)
        return RunHandle(self, accepted.run_id, accepted.thread_id, who, is_new=accepted.is_new)

    def _started_before(self, who: Who, key: IdempotencyKey | None) -> RunHandle | None:
        """Return the run that this very request began when it was made before."""
        if key is None:
            return None
        with self.journal.read() as connection:
            run_id = used_before(connection, who, key)
        return self.handle(run_id, who) if run_id is not None else None

    def handle(self, run_id: str, who: Who = Who()) -> RunHandle:
        """Return a handle on a run accepted anywhere.

        Raises:
            RunUnknown: there is none, or it is somebody else's.
        """
        with self.journal.read() as connection:
            row = find_run(connection, who, run_id)
        return RunHandle(self, run_id, row.thread_id, who, is_new=False)

    def settle(self, timeout_s: float) -> None:
        """Wait until what this process works on has ended, so that it can be left."""
        self._synchronous.settle(timeout_s)

    def close(self) -> None:
        """Let go of the process's journal; what was opened before a fork stays its parent's to close."""
        if self._pid == os.getpid():
            self._here.journal.close()
            use_process(None)

    def _check(self, objective: str, thread_id: str | None) -> None:
        check_objective(objective, self.settings.max_input_chars)
        if thread_id is None:
            return
        _check_text(thread_id, "the thread id")
        if not 0 < len(thread_id) <= MAX_THREAD_ID or not thread_id.isprintable() or thread_id != thread_id.strip():
            raise BadRequest(f"a thread id has 1 to {MAX_THREAD_ID} printable characters and no blanks around it.")
        if "/" in thread_id:
            raise BadRequest("a thread id has no '/', since it stands in addresses; use ':' or '-'.")
        if thread_id in (".", ".."):
            raise BadRequest(f"a thread id may not be '{thread_id}', which addresses leave out; choose a name.")


def check_objective(objective: str, max_chars: int) -> None:
    """Return where this can be asked of an agent.

    Raises:
        InputEmpty, InputTooLarge, BadRequest: it cannot.
    """
    if not isinstance(objective, str):
        raise BadRequest(f"the input has to be text, and this is {type(objective).__name__}.")
    if not objective.strip():
        raise InputEmpty
    if len(objective) > max_chars:
        raise InputTooLarge(len(objective), max_chars)
    _check_text(objective, "the input")


def _check_text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as wrong:
        raise BadRequest(
            f"{what} has half a character at position {wrong.start} (a lone surrogate); send whole characters."
        ) from wrong
    if "\0" in text:
        raise BadRequest(f"{what} has the character NUL at position {text.index(chr(0))}; leave it out.")


def _message(run_id: str, thread_id: str, definition: AgentDefinition, detached: bool) -> RunAgentMessage:
    return RunAgentMessage(
        run_id=run_id, agent_id=definition.id, thread_id=thread_id, detached=detached,
        definition_digest=definition.digest,
    )  # fmt: skip
