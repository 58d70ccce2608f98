"""The runner: accepts runs, and sends their messages to a transport."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from agents.delegation import subject
from agents.delegation.subject import RunSubject, StartOptions
from agents.errors import observer_travels
from agents.governance.guardrails.guardrails import sealing_guardrails
from agents.handle import RunHandle
from agents.mailbox.inputs import signal_data, steer_data
from agents.process import Process, current_process, open_process, use_process
from agents.prompt import check_thread_id
from agents.registry import AgentRegistry
from bus.identity.credentials.grants import SECRET_NAME, GrantForm, PresentedGrant
from bus.journal import Journal
from bus.journal.clients import (
    ITS_OWN_RUN,
    SIGNAL,
    STEER,
    THREAD,
    CallersTransaction,
    CommitResult,
    Delivery,
    IdempotencyKey,
    IfBusy,
    NewRun,
    Origin,
)
from bus.journal.errors import RunUnknown
from bus.routes import INLINE, OTHERS, BrokerTransport, Dispatcher, InlineTransport
from config.database.errors import DatabaseUnreachable
from config.database.shared_secret import shared_secret
from config.definitions.agent import AgentDefinition, Priority
from config.errors import CallboardError
from config.forks import leave_to_parent
from config.identity.contexts import DeclaredContext, declared_for
from config.identity.principal import Principal, Verb
from config.ids import new_id
from config.settings import Settings
from observers.base import AgentObserver


class Runner:
    """Accepts runs and sends their messages; one per process.

    In a forked process (a child of Celery's prefork pool, of gunicorn with ``preload_app``, of ``multiprocessing``) the
    first use of the runner or a handle opens a journal of its own.
    """

    def __init__(self, process: Process, *, inline: bool = True) -> None:
        self.works_inline = inline
        """Whether this process executes the runs whose caller waits."""
        self._bind(process)

    def _bind(self, process: Process) -> None:
        self._process = process
        self._inline = InlineTransport(process.journal.loop, process.journal.owner.unowned.defer_polling_on)
        inline = {INLINE: self._inline} if self.works_inline else {}
        self._dispatcher = Dispatcher({**inline, OTHERS: BrokerTransport(process.journal.live.relay)})
        self._pid = os.getpid()

    def _own(self) -> Process:
        """Return this process's journal and registry, reopened after a fork: threads and connections stay behind."""
        if self._pid != os.getpid():
            leave_to_parent(self._process)
            self._bind(current_process(self._process.settings))
        return self._process

    @property
    def settings(self) -> Settings:
        return self._process.settings

    @property
    def principal(self) -> Principal:
        """Who acts where a call names no principal."""
        return self.settings.local_principal

    @property
    def journal(self) -> Journal:
        return self._own().journal

    @property
    def registry(self) -> AgentRegistry:
        return self._own().registry

    @classmethod
    def open(cls, settings: Settings | None = None, *, inline: bool = True) -> Runner:
        """Return the runner of this process; ``settings`` replace the process's present ones.

        With ``inline=False`` this process executes no run: workers do, also where the caller waits.

        Raises:
            SchemaOld, SchemaNew: the database has another schema than this code.
        """
        if settings is None:
            return cls(current_process(), inline=inline)
        opened = open_process(settings)
        use_process(opened)
        return cls(opened, inline=inline)

    def run(
        self,
        objective: str,
        agent_id: str | AgentDefinition,
        *,
        thread_id: str | None = None,
        detached: bool = False,
        grant: str | None = None,
        observers: Sequence[AgentObserver | str] = (),
        principal: Principal | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency: IdempotencyKey | None = None,
        connection: Any = None,
        if_busy: IfBusy | None = None,
        on_disconnect: str | None = None,
        priority: Priority | None = None,
        labels: Collection[str] = (),
    ) -> RunHandle:
        """Accept a run: commit it, send its message, and return a handle on it.

        Args:
            objective: the task, a sentence or a page.
            agent_id: the agent; its definition's file name without ``.yaml``, or a version of it.
            thread_id: the thread to continue, or a name for a new one; None creates one.
            detached: True where no caller waits: workers execute the run. Otherwise this process does, inline.
            grant: the text of a privilege grant; the run is privileged, and the grant is used up.
            observers: observers besides those of the agent: names, or objects for an inline run.
            principal: the owner of the run; None is the installation's own (``CALLBOARD_PRINCIPAL``).
            metadata: stored with the run and passed to observers.
            idempotency: a key by which a repeated request returns the first one's run.
            connection: a connection to Callboard's database with an open transaction: of SQLAlchemy (or its Session),
                Django, psycopg, psycopg2 or sqlite3. The run exists once the caller commits, and is detached.
            if_busy: what becomes of the message where the thread has an open run: ``enqueue``, ``reject``,
                ``interrupt``, ``rollback``, ``merge`` or ``steer``; None, here and below: as the definition says.
            on_disconnect: what becomes of the run after so many seconds without viewers, ``stop:30`` or ``pause:30``.
            priority: ``low``, ``normal`` or ``high``.
            labels: what the objective is, for policies: ``untrusted`` where others than the principal wrote it.

        Raises:
            THREAD_BUSY: the thread has an open run, and ``if_busy`` is ``reject``.
            AgentUnknown, DefinitionInvalid: there is no such agent, or its file is broken.
            AGENT_FORBIDDEN: the agent's definition, or the credential, does not let the principal start it.
            INPUT_EMPTY, INPUT_TOO_LARGE, BadRequest: the objective, the thread's name or a policy cannot be used.
            INPUT_BLOCKED: a guardrail blocks the objective.
            GRANT_REFUSED: the grant is not for this start, or cannot be used any more.
            OBSERVER_TRAVELS: an observer object was given for a run that a worker executes.
            THREAD_OF_OTHER_AGENT, ThreadUnknown: the principal may not continue the thread.
            CONNECTION_UNUSABLE: the connection is closed, in autocommit, of another database or the parent process's.
        """
        return self._start(
            subject.message(self._own(), objective),
            agent_id,
            observers,
            thread_id=thread_id,
            detached=detached,
            grant=grant,
            principal=principal,
            metadata=metadata,
            idempotency=idempotency,
            connection=connection,
            policies={"if_busy": if_busy, "on_disconnect": on_disconnect, "priority": priority},
            labels=labels,
        )

    def run_workflow(
        self,
        workflow_id: str,
        data: Mapping[str, Any],
        *,
        priority: Priority | None = None,
        **options: Unpack[StartOptions],
    ) -> RunHandle:
        """Accept a run of a workflow with its input, JSON data; for the rest see ``run``.

        Raises:
            WORKFLOW_MISSED: the id is an agent's.
            INPUT_INVALID, INPUT_TOO_LARGE, INPUT_BLOCKED: the input cannot be used.
        """
        return self._start(subject.workflow(self._own(), data), workflow_id, policies={"priority": priority}, **options)

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        agent_id: str | None = None,
        agent: AgentDefinition | None = None,
        **options: Unpack[StartOptions],
    ) -> RunHandle:
        """Accept a run of kind ``tool``: one call of one tool of an agent, without a model.

        The call is checked, approved, recorded, retried and stopped like a call of the agent's model. The run's output
        is the tool's result.

        Args:
            name: the tool's name, as the agent's model would write it.
            arguments: the arguments, JSON data.
            agent_id: the agent whose tool, overrides and sandbox are used; None is ``CALLBOARD_DEFAULT_AGENT``.
            agent: an agent that no file has, in place of one with an id.
            options: see ``run``.

        Raises:
            AgentUnknown, DefinitionInvalid, AGENT_FORBIDDEN: see ``run``.
            BadRequest, INPUT_TOO_LARGE: the name or the arguments cannot be kept.
            GRANT_REFUSED: see ``run``.
            INPUT_BLOCKED: the arguments have a secret, or a guardrail blocks them.
        """
        return self._start(
            subject.tool_call(name, arguments), agent or agent_id or self.settings.default_agent, **options
        )

    def repeat(
        self, origin: Origin, principal: Principal, *, detached: bool = False, idempotency: IdempotencyKey | None = None
    ) -> RunHandle:
        """Accept a rerun or a retry of a run; for what it raises see ``bus.journal.forks.continued``."""
        try:
            source = self.journal.clients.repeatable(principal, origin)
        except CallboardError:
            if (earlier := self._earlier(principal, idempotency)) is None:
                raise
            return earlier

        return self._start(
            subject.repeated(self._own(), source, origin),
            source.agent_id,
            thread_id=source.thread_id if origin.kind == "retry" else None,
            detached=detached,
            principal=principal,
            metadata=source.metadata,
            idempotency=idempotency,
            origin=origin if source.input is None or origin.kind == "retry" else replace(origin, mode="live"),
            policies={"priority": source.priority},
        )

    def _start(
        self,
        about: RunSubject,
        agent: AgentDefinition | str,
        observers: Sequence[AgentObserver | str] = (),
        *,
        thread_id: str | None = None,
        detached: bool = False,
        principal: Principal | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency: IdempotencyKey | None = None,
        grant: str | None = None,
        connection: Any = None,
        origin: Origin | None = None,
        policies: Mapping[str, str | None] | None = None,
        labels: Collection[str] = (),
    ) -> RunHandle:
        """Accept a run.

        A repeated request gets its first run, also where it would be refused by now.
        """
        principal = principal or self.principal
        try:
            about.check()
            if thread_id is not None:
                check_thread_id(thread_id)
            new_thread = thread_id or new_id(THREAD)
            definition = self.registry.startable(principal, agent, new_thread) if isinstance(agent, str) else agent
            presented = self._presented(grant)
            guardrails, originals = sealing_guardrails(self.settings, definition.guardrails)
            fields = about.fields(definition, guardrails, principal)
        except CallboardError as error:  # a database that does not answer is not asked again
            is_away = isinstance(error, DatabaseUnreachable)
            if is_away or (earlier := self._earlier(principal, idempotency)) is None:
                raise
            return earlier
        fields |= definition.run_fields([name for name in observers if isinstance(name, str)])
        new = NewRun(
            **(fields | {name: policy for name, policy in (policies or {}).items() if policy is not None}),
            thread_id=thread_id,
            new_thread_id=new_thread,
            principal=principal,
            grant=presented,
            detached=detached or connection is not None,
            declared=self._declared(principal),
            metadata=guardrails.metadata(metadata),
            labels=labels,
            originals=originals,
            idempotency=idempotency,
            origin=origin,
        )
        local = tuple(observer for observer in observers if isinstance(observer, AgentObserver))
        return self._accept(new, local, connection)

    def _declared(self, principal: Principal) -> DeclaredContext:
        """Return what is declared of a new run: by the run or the entry point that starts it, else by settings."""
        return declared_for(principal.tenant) or self.settings.declared_context(principal.tenant)

    def _presented(self, grant: str | None) -> PresentedGrant | None:
        """Return the grant of a start, if it has one; raise ``GRANT_REFUSED`` for what is none."""
        form = GrantForm(partial(shared_secret, self.journal.database, SECRET_NAME))
        return form.presented(grant) if grant is not None else None

    def _earlier(self, principal: Principal, idempotency: IdempotencyKey | None) -> RunHandle | None:
        """Return the run of a repeated request, which it has even if the agent's file was moved since."""
        if idempotency is None or Verb.START not in principal.verbs:
            return None
        earlier = self.journal.readers.runs.started_before(principal, idempotency)
        with suppress(RunUnknown):  # another credential's, of an agent that this one is not for
            return self.handle(earlier[0], principal, earlier[1]) if earlier is not None else None
        return None

    def _accept(self, new: NewRun, local: tuple[AgentObserver, ...], connection: Any) -> RunHandle:
        """Commit a run and send its message, unless an earlier request made the run, or the caller commits."""
        own, route = self._own(), self._dispatcher.route(new.queue, detached=new.detached)
        if local and route is not self._inline:
            raise observer_travels(type(observer).__name__ for observer in local)
        if connection is not None:
            transaction = CallersTransaction(connection, own.journal.database)
            accepted = own.journal.clients.accept_on(transaction, new, route.record)
        else:
            accepted = own.journal.clients.accept(new, route.record)
        if accepted.message is not None and connection is None:
            if local:
                own.local_observers[accepted.run_id] = local
            route.send(accepted.message, accepted.outbox_row)
        ids, delivery = (accepted.run_id, accepted.thread_id), accepted.delivery
        return RunHandle(lambda: self.journal, *ids, new.principal, is_new=accepted.is_new, delivery=delivery)

    def handle(self, run_id: str, principal: Principal | None = None, delivery: Delivery = ITS_OWN_RUN) -> RunHandle:
        """Return a handle on a run that any process accepted; ``delivery``: what became of the message that it took.

        Raises:
            RunUnknown: there is no such run, or the principal does not see it.
        """
        principal = principal or self.principal
        thread_id = self.journal.readers.runs.row(principal, run_id).thread_id
        return RunHandle(lambda: self.journal, run_id, thread_id, principal, is_new=False, delivery=delivery)

    def steer(
        self,
        run_id: str,
        content: str,
        *,
        principal: Principal | None = None,
        by: str | None = None,
        idempotency: IdempotencyKey | None = None,
        expected_status: str | None = None,
    ) -> CommitResult:
        """Give an open run a message, which its model gets between two steps.

        Raises:
            RunUnknown, FORBIDDEN, CONTROL_REFUSED, TOO_MANY_CONTROLS: see ``bus.journal.mailbox.control``.
            INPUT_EMPTY, INPUT_TOO_LARGE, BadRequest, INPUT_BLOCKED: see ``agents.mailbox.inputs``.
        """
        principal = principal or self.principal
        data, originals = steer_data(self.journal, self.registry, principal, run_id, content)
        return self.journal.clients.control(
            *(principal, run_id, STEER),
            by=by or principal.id,
            idempotency=idempotency,
            data=data,
            originals=originals,
            expected_status=expected_status,
        )

    def signal(
        self,
        run_id: str,
        name: str,
        data: Any = None,
        *,
        principal: Principal | None = None,
        by: str | None = None,
        idempotency: IdempotencyKey | None = None,
        labels: Collection[str] = (),
    ) -> CommitResult:
        """Give an open workflow the signal that one of its nodes waits for, or will; each is taken once.

        Raises:
            RunUnknown, FORBIDDEN, CONTROL_REFUSED, TOO_MANY_CONTROLS: see ``bus.journal.mailbox.control``.
            SIGNAL_UNKNOWN, SIGNAL_INVALID, INPUT_TOO_LARGE, INPUT_BLOCKED: see ``agents.mailbox.inputs``.
        """
        principal = principal or self.principal
        control_data = signal_data(self.journal, self.registry, principal, run_id, name, data, labels)
        return self.journal.clients.control(
            *(principal, run_id, SIGNAL), by=by or principal.id, idempotency=idempotency, data=control_data
        )

    def settle(self, timeout_s: float) -> None:
        """Wait until the inline runs of this process have ended, and the summaries of their threads are made."""
        self._inline.settle(timeout_s)

    def close(self) -> None:
        """Close the process's journal; one that was opened before a fork is left to the parent."""
        if self._pid == os.getpid():
            self._process.journal.close()
            use_process(None)
