"""The client: starts runs, and reads runs, threads and agents."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, Unpack

import httpx

from callboard_client import calls
from callboard_client.address import Address
from callboard_client.asynchronous.handle import AsyncRunHandle
from callboard_client.asynchronous.transport import AsyncTransport
from callboard_client.envelope import EnvelopeKey
from callboard_client.fleet_records import DoctorReport, Observer, Queue, RunCounts, RunFilters, Worker
from callboard_client.records import (
    Agent,
    AgentProblem,
    Approval,
    ControlledRun,
    Executed,
    LoggedEvent,
    Me,
    Page,
    Run,
)
from callboard_client.retrying import Timeouts
from callboard_client.thread_records import ForkedThread, Message, QueuedMessage, Summary, Thread
from callboard_client.workflow_records import Step, Workflow


class AsyncCallboard:
    """A client of one Callboard server; one a process is enough, and ``async with`` or ``aclose`` ends it."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeouts: Timeouts = Timeouts(),
        http_client: httpx.AsyncClient | None = None,
        envelope_key: EnvelopeKey | None = None,
    ) -> None:
        """Keep what is needed; the first request opens a connection.

        Args:
            base_url: the server's address, such as ``http://127.0.0.1:8000``; a path in it stays in front.
            api_key: a key of ``./callboard keys create``; sent as ``Authorization: Bearer``, to this address alone.
            timeouts: how long to wait, and how long to try again.
            http_client: a client of the caller's, for certificates and proxies; its caller closes it.
            envelope_key: signs the calls of tools (``execute``), each for one request.
        """
        self._address = Address(base_url, api_key, envelope_key)
        self._transport = AsyncTransport(self._address, timeouts, http_client)
        self.runs = AsyncRuns(self._transport)
        self.approvals = AsyncApprovals(self._transport)
        self.threads = AsyncThreads(self._transport)
        self.agents = AsyncAgents(self._transport)
        self.workflows = AsyncWorkflows(self._transport)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address!r})"

    async def run(
        self,
        agent: str,
        input: str,
        *,
        thread_id: str | None = None,
        detached: bool = False,
        metadata: Mapping[str, Any] | None = None,
        if_busy: str | None = None,
        on_disconnect: str | None = None,
        priority: str | None = None,
        version: int | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncRunHandle:
        """Start a run and return its handle as soon as the run is committed; workers execute it.

        Args:
            agent: the agent's id.
            input: the task, a sentence or a page.
            thread_id: the conversation to continue, or a name for a new one; None creates one.
            detached: True where no caller waits for the run. It is stored with the run; the handle waits either way.
            metadata: stored with the run, and passed to observers.
            if_busy: what becomes of the message where the conversation has an open run: ``enqueue``, ``reject``,
                ``interrupt``, ``rollback``, ``merge`` or ``steer``; None is what the agent's definition says. With the
                last two the handle may be that of the run that took the message: see its ``delivered``.
            on_disconnect: what becomes of it after so many seconds without viewers, as ``stop:30`` or ``pause:30``, or
                ``continue``; None is what the agent's definition says.
            priority: ``low``, ``normal`` or ``high``; None is what the agent's definition says.
            version: the version of the agent, in place of the one that serves; for operators and administrators.
            idempotency_key: a key by which a repeated call returns the first one's run. Without one the client makes
                a key for its own retries.

        Raises:
            RequestRefused: such as ``agent_unknown``, ``input_too_large`` or, with ``reject``, ``thread_busy``; no
                run was started.
            Unreachable: the server did not answer; repeat the call with the same ``idempotency_key``.
        """
        policies = (if_busy, on_disconnect, priority, version)
        call = calls.start_run(agent, input, thread_id, detached, metadata, *policies, idempotency_key)
        return AsyncRunHandle(self._transport, *await self._transport.send(call))

    async def run_workflow(
        self,
        workflow: str,
        input: Mapping[str, Any],
        *,
        thread_id: str | None = None,
        detached: bool = False,
        metadata: Mapping[str, Any] | None = None,
        priority: str | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncRunHandle:
        """Start a run of a workflow and return its handle as soon as the run is committed; workers execute it.

        Args:
            workflow: the workflow's id.
            input: what fits the workflow's input schema.
            thread_id, detached, metadata, priority, idempotency_key: see ``run``.

        Raises:
            RequestRefused: such as ``agent_unknown``, ``input_invalid`` or, for an agent's id, ``workflow_missed``; no
                run was started.
            Unreachable: the server did not answer; repeat the call with the same ``idempotency_key``.
        """
        call = calls.start_workflow(workflow, input, thread_id, detached, metadata, priority, idempotency_key)
        return AsyncRunHandle(self._transport, *await self._transport.send(call))

    async def execute(
        self,
        tool_name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        agent: str | None = None,
        timeout_s: float = 20,
        grant: str | None = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Executed:
        """Call one tool without an agent's turn, and return what became of it, or that it has not ended.

        Args:
            tool_name: the tool's name.
            arguments: what the tool's schema describes.
            agent: the agent whose tool it is; None is the server's default agent.
            timeout_s: how long the server waits for the call's end; less than the ``answer_s`` of the timeouts.
            grant: a privilege grant, which the call uses up.
            correlation_id: kept with the run, and sent back.
            idempotency_key: a key by which a repeated call returns the first one's outcome, as it is then.

        Raises:
            RequestRefused: such as ``arguments_invalid`` or ``envelope_refused``; the call was not made.
            Unreachable: the server did not answer; repeat the call with the same ``idempotency_key``.
        """
        call = calls.execute_tool(tool_name, arguments, agent, timeout_s, grant, correlation_id, idempotency_key)
        return await self._transport.send(call)

    async def handle(self, run_id: str) -> AsyncRunHandle:
        """Return a handle on a run that any program started.

        Raises:
            RequestRefused: ``run_unknown``.
        """
        run = await self._transport.send(calls.get_run(run_id))
        return AsyncRunHandle(self._transport, run.run_id, run.thread_id)

    async def workers(self) -> Page[Worker]:
        """Return the workers that gave a sign of life within an hour."""
        return await self._transport.send(calls.list_workers())

    async def queues(self) -> Page[Queue]:
        """Return the queues in which runs wait, those with the most first."""
        return await self._transport.send(calls.list_queues())

    async def doctor(self) -> DoctorReport:
        """Return what the server's checks of its database, Redis, queues and workers say; for its operators.

        Raises:
            RequestRefused: ``forbidden``.
        """
        return await self._transport.send(calls.doctor_report())

    async def observers(self, name: str | None = None) -> Page[Observer]:
        """Return the observers that tail the log; with a name that one, with its failed deliveries."""
        return await self._transport.send(calls.list_observers(name))

    async def me(self) -> Me:
        """Return who the server takes this client for, by its key."""
        return await self._transport.send(calls.who_am_i())

    async def log_event(
        self,
        correlation_id: str,
        event_type: str,
        source: str,
        payload: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> LoggedEvent:
        """Log something that happened outside, which nothing changes afterwards.

        Args:
            correlation_id: what it has in common with other events and with runs.
            event_type: what happened, as ``message.created``.
            source: where it happened.
            payload: what the source says about it; up to 16 KiB.
            idempotency_key: a key by which a repeated call returns the first one's event.
        """
        return await self._transport.send(calls.log_event(correlation_id, event_type, source, payload, idempotency_key))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class AsyncRuns:
    """The runs that the key's owner may see."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(
        self,
        *,
        sort: str | None = None,
        limit: int = 50,
        before: str | None = None,
        **filters: Unpack[RunFilters],
    ) -> Page[Run]:
        """Return a page of runs, the newest first; ``status="open"`` selects all that have not ended.

        ``sort`` is another order: ``oldest``, ``longest`` or ``dearest``.
        """
        return await self._transport.send(calls.list_runs(filters, sort, limit, before))

    async def counts(self, by: str, **filters: Unpack[RunFilters]) -> RunCounts:
        """Return how many runs there are by ``status``, ``agent``, ``code``, ``queue`` or ``owner``.

        By ``code`` they are those that failed, within the last 24 hours unless ``since`` says otherwise.
        """
        return await self._transport.send(calls.count_runs(by, filters))

    async def get(self, run_id: str, *, why: bool = False) -> Run:
        """Return one run; with ``why`` also a sentence that says what an open run waits for."""
        return await self._transport.send(calls.get_run(run_id, why))

    async def steps(
        self,
        run_id: str,
        *,
        node: str | None = None,
        under: str | None = None,
        spans: bool = False,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Step]:
        """Return a page of a run's steps in the order in which they began.

        ``node``: only those of the node with this path, ``items/17/charge``. ``under``: only the items of the FOR_EACH
        with this path that are at their end, those that have failed first. ``spans``: each with the operations of its
        call.
        """
        return await self._transport.send(calls.list_steps(run_id, node, under, spans, limit, after))

    async def delete(self, run_id: str) -> None:
        """Delete an ended run permanently; its thread keeps the messages."""
        await self._transport.send(calls.delete_run(run_id))


class AsyncApprovals:
    """The questions of runs that the key's owner may answer; a run's handle answers them (``decide``)."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self, *, state: str | None = None, limit: int = 50, before: str | None = None) -> Page[Approval]:
        """Return a page of the open questions, the newest first, each with its ``run_id``.

        With ``state="answered"`` those that were answered, the last ones first, each with its ``answer``.
        """
        return await self._transport.send(calls.list_all_approvals(state, limit, before))


class AsyncThreads:
    """The conversations that the key's owner may see."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self, *, search: str | None = None, limit: int = 50, before: str | None = None) -> Page[Thread]:
        """Return a page of threads, the last used one first; ``search``: with this in their title or messages."""
        return await self._transport.send(calls.list_threads(search, limit, before))

    async def get(self, thread_id: str) -> Thread:
        """Return one thread with its runs."""
        return await self._transport.send(calls.get_thread(thread_id))

    async def messages(
        self, thread_id: str, *, at: str | int | None = None, after: str | None = None, limit: int = 200
    ) -> Page[Message]:
        """Return a page of a thread's messages, in reading order; with ``at`` up to that ``number``, or that time."""
        return await self._transport.send(calls.list_messages(thread_id, at, after, limit))

    async def summaries(self, thread_id: str, *, limit: int = 20, before: str | None = None) -> Page[Summary]:
        """Return a page of what models are given in place of a thread's old messages, the newest first."""
        return await self._transport.send(calls.list_summaries(thread_id, limit, before))

    async def create(self, *, agent: str | None = None, title: str | None = None) -> str:
        """Create an empty thread and return its id."""
        return await self._transport.send(calls.create_thread(agent, title))

    async def delete(self, thread_id: str) -> None:
        """Delete a thread with its messages and runs permanently."""
        await self._transport.send(calls.delete_thread(thread_id))

    async def fork(self, thread_id: str, message: int, *, new_thread_id: str | None = None) -> ForkedThread:
        """Return a new thread with copies of a thread's messages up to and including the one with this ``number``.

        ``new_thread_id`` is your own name for it. A fork whose answer was lost is not repeated.

        Raises:
            RequestRefused: ``message_unknown``, or ``thread_exists``: you have a thread of the new name.
        """
        return await self._transport.send(calls.fork_thread(thread_id, message, new_thread_id))

    async def queue(self, thread_id: str, *, limit: int = 200, after: str | None = None) -> Page[QueuedMessage]:
        """Return a page of the messages that wait in a thread, the next one first."""
        return await self._transport.send(calls.list_queue(thread_id, limit, after))

    async def edit(
        self, thread_id: str, run_id: str, *, content: str | None = None, place: str | None = None
    ) -> ControlledRun:
        """Give the message of a run that waits another text, another place, or both, and return the run's state.

        Args:
            thread_id: the thread.
            run_id: the run that the message begins.
            content: the new text; None keeps it.
            place: ``first``: before the others that wait. ``now``: also stop the run that the thread is at.

        Raises:
            RequestRefused: ``message_taken``: the run has begun; ``control_refused``: it cannot take another text.
            Unreachable: the answer was lost; the request is not repeated, and ``queue`` shows what became of it.
        """
        return await self._transport.send(calls.edit_queued(thread_id, run_id, content, place))

    async def remove(self, thread_id: str, run_id: str) -> None:
        """Take the message of a run that waits out of its thread: the run is cancelled, and no model gets the message.

        Raises:
            RequestRefused: ``message_taken``: the run has begun, or has ended.
            Unreachable: the answer was lost; the request is not repeated, and ``queue`` shows what became of it.
        """
        await self._transport.send(calls.remove_queued(thread_id, run_id))


class AsyncAgents:
    """The agents that the server has."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self) -> Page[Agent]:
        """Return the usable agents."""
        return await self._transport.send(calls.list_agents())

    async def get(self, agent_id: str) -> Agent:
        """Return one agent."""
        return await self._transport.send(calls.get_agent(agent_id))

    async def problems(self) -> Page[AgentProblem]:
        """Return the agents whose definitions cannot be used."""
        return await self._transport.send(calls.agent_problems())


class AsyncWorkflows:
    """The workflows that the server has."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self) -> Page[Workflow]:
        """Return the workflows that the key's owner may start."""
        return await self._transport.send(calls.list_workflows())

    async def get(self, workflow_id: str, *, digest: str | None = None) -> Workflow:
        """Return one workflow with its nodes and edges; ``digest``: as a run with this ``definition`` has it."""
        return await self._transport.send(calls.get_workflow(workflow_id, digest))

    async def problems(self) -> Page[AgentProblem]:
        """Return the workflows whose definitions cannot be used."""
        return await self._transport.send(calls.workflow_problems())
