"""The present call of a tool, as the tool sees it: whose it is, its files and secrets, and what it may ask for."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from agents.tools.isolation.call_folder import CallSandbox
from agents.tools.isolation.sandbox import Quota
from agents.tools.requests import DEFAULT_FORM, QuestionAsked, Sample, require_few, require_question
from bus.payloads import Payload, ToolLogPayload, ToolProgressPayload
from config.definitions.agent import AgentDefinition
from config.definitions.errors import SECRET_MISSING
from config.definitions.secrets import required_secret
from config.errors import ToolFailed
from config.identity.contexts import GoldenContext, SecurityContext
from config.redaction import redact_start
from config.text.visible import visible


class OtherAgents(Protocol):
    """The agents that the run's principal may start with the run's credential."""

    def startable(self) -> Sequence[AgentDefinition]:
        """Return them, sorted by id."""

    def hand_over(self, agent_id: str, reason: str) -> AgentDefinition:
        """Have the agent continue the run once this call has returned, and return it.

        Raises:
            HANDOVER_REFUSED: it may not; the sentence lists those that may.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolContext:
    """The present call of a tool; ``current_call()`` returns it inside the tool."""

    run_id: str
    thread_id: str
    call_id: str
    idempotency_key: str
    """The same for all retries of this step; to be sent to services that support idempotency keys."""
    tenant: str
    principal: str
    files: CallSandbox
    """The files of the principal with this agent, shared by its runs."""
    golden: GoldenContext | None = None
    """For which application and environment the run works; None only in tests that do not set it."""
    security: SecurityContext | None = None
    """Who asked for the run, with which credential, and the roles that it has now."""
    privileged: bool = False
    """Whether the run has a privilege grant that has not expired."""
    quota: Quota = field(default_factory=Quota)
    """How much the sandbox may hold."""
    timeout_s: float = 60.0
    """Seconds that the call may take."""
    hosts: tuple[str, ...] | None = None
    """The tool's ``hosts``."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """The tool's references to secrets."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The answers of persons to what this call asked before, by the question's digest."""
    state: str | None = None
    """What this call kept with the newest question that was answered."""
    sample: Sample | None = None
    """Asks the model of the run's agent, for a server that may; None where there is no run."""
    find_agents: Callable[[], OtherAgents] | None = None
    """Returns ``agents``."""
    reports: CallReports | None = None
    """What the call says while it is under way; None where there is no run's log for it."""

    @property
    def sandbox(self) -> Path:
        """The folder of the files, made when a tool asks for it; the call counts as one that reads and writes there.

        Raises:
            STORAGE_FULL: it cannot be made.
        """
        return self.files.for_all()

    @property
    def agents(self) -> OtherAgents:
        """The agents that the run's principal may start, to which the run may be handed over.

        Raises:
            ToolFailed: there is no run.
        """
        if self.find_agents is None:
            raise ToolFailed("there are no other agents here; call this in a run.")
        return self.find_agents()

    def progress(self, done: float | None = None, total: float | None = None, message: str = "") -> None:
        """Say how far the call is, in a unit of the tool's own; the run's log gets the newest of each second."""
        if self.reports is not None:
            self.reports.progress(done, total, message)

    def log(self, message: str, level: str = "info", logger: str = "") -> None:
        """Add a line to the run's log; of many within a second it gets the newest."""
        if self.reports is not None:
            self.reports.log(level, message, logger)

    def secret(self, name: str) -> str:
        """Return a secret that the tool's ``secrets`` name; it is redacted from now on where this process writes.

        Raises:
            SECRET_MISSING: there is no such reference, or it leads to nothing.
        """
        reference = self.secrets.get(name)
        if reference is None:
            raise SECRET_MISSING(name=name, reference="a line under the tool's `secrets`")
        return required_secret(name, reference)

    def answer_to(self, form: Mapping[str, Any], text: str) -> Any:
        """Return a person's answer to a question; None while there is none."""
        from bus.journal.approvals import form_digest  # brings SQLAlchemy, which few that import this module need

        return self.given.get(form_digest(text, form))

    def ask(self, form: Mapping[str, Any] | None, text: str, *, state: str | None = None) -> Any:
        """Return a person's answer to ``text``, which fits ``form``: a JSON Schema of an object, or None for one text.

        ``state`` is kept with the question, and is this call's ``state`` when it is made with the answer.

        The first time, this ends the call: the run waits without a worker, and with the answer the tool is called
        again from its beginning. So ask before anything that has an effect, and ask the same each time.

        Raises:
            QuestionInvalid: the text or the form cannot be shown to a person.
            QuestionAsked: there is no answer yet; to be left alone.
        """
        question_form = DEFAULT_FORM if form is None else form
        require_question(text, question_form)
        answer = self.answer_to(question_form, text)
        if answer is not None:  # an answer is an object
            return answer
        require_few(len(self.given))
        raise QuestionAsked(text, question_form, state)

    @property
    def headers(self) -> Mapping[str, str]:
        """The ``Idempotency-Key`` header for HTTP requests of the tool."""
        return {"Idempotency-Key": self.idempotency_key}


_current: ContextVar[ToolContext | None] = ContextVar("callboard_tool_call", default=None)


def current_call() -> ToolContext:
    """Return the call of the running tool.

    Raises:
        LookupError: called outside a tool.
    """
    context = _current.get()
    if context is None:
        raise LookupError("current_call() works inside a tool that an agent called.")
    return context


def enter_call(context: ToolContext) -> None:
    """Make ``context`` the current call of this task or thread."""
    _current.set(context)


# --- reports


LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels of log lines, those of syslog, the least severe first."""
EVERY_S = 1.0
"""Seconds between two writes of one call; the first report is written at once."""
MAX_LINES = 20
"""Log lines of one write; of more, the newest are kept."""
MAX_WRITES = 300
"""Writes of one call; after that, only what is there at its end."""
MAX_TEXT = 1000
"""Characters of a message or a line."""
MAX_EXAMINED = 16_000
"""Characters in which secrets are looked for; of a longer text, only the start is kept until it is written."""
Save = Callable[[Sequence[Payload]], Awaitable[None]]


class CallReports:
    """The reports of one call. ``progress`` and ``log`` are safe for any thread, and never wait.

    Entered on the loop for as long as the call takes. What is reported afterwards is dropped.
    """

    def __init__(self, call_id: str, name: str, step_id: str, clean: Callable[[str], str], save: Save) -> None:
        """``clean`` returns a text as a run's log may keep it; ``save`` commits events to it and raises nothing."""
        self._ids: dict[str, Any] = {"call_id": call_id, "name": name, "step_id": step_id}
        self._clean, self._save = clean, save
        self._lock = threading.Lock()
        self._progress: tuple[float | None, float | None, str] | None = None
        self._lines: deque[tuple[str, str, str]] = deque()
        self._left_out = self._writes = 0
        self._written_s = -math.inf
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writing: asyncio.Task[None] | None = None
        self._is_woken = False

    def progress(self, done: float | None = None, total: float | None = None, message: str = "") -> None:
        """Report how far the call is; the run's log gets the newest report of each second."""
        with self._lock:
            self._progress = (_number(done), _number(total), _text(message))
        self._wake()

    def log(self, level: str, message: str, logger: str = "") -> None:
        """Report a log line; a level that is none of ``LEVELS`` is ``info``."""
        line = (level if level in LEVELS else "info", _text(message), _text(logger))
        with self._lock:
            if len(self._lines) >= MAX_LINES:
                self._lines.popleft()
                self._left_out += 1
            self._lines.append(line)
        self._wake()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._loop = None
        if self._writing is not None:
            self._writing.cancel()
        if kind is None or issubclass(kind, Exception):  # a cancelled call has no time for it
            await self._write()

    def _wake(self) -> None:
        with self._lock:
            if self._loop is None or self._is_woken:
                return
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if self._loop is not None and (self._writing is None or self._writing.done()):
            self._writing = self._loop.create_task(self._write_on())

    async def _write_on(self) -> None:
        """Write what is reported until nothing is left."""
        while self._has_some() and self._writes < MAX_WRITES:
            await asyncio.sleep(self._written_s + EVERY_S - time.monotonic())
            await self._write()

    def _has_some(self) -> bool:
        with self._lock:
            self._is_woken = bool(self._lines) or self._progress is not None or self._writes >= MAX_WRITES
            return self._is_woken

    async def _write(self) -> None:
        events = self._events()
        if not events:
            return
        self._writes += 1
        await self._save(events)
        self._written_s = time.monotonic()

    def _events(self) -> list[Payload]:
        """Take what was reported since the last time, as events."""
        with self._lock:
            (progress, lines, left_out) = (self._progress, list(self._lines), self._left_out)
            self._progress, self._left_out = None, 0
            self._lines.clear()
        events: list[Payload] = []
        for level, message, logger in lines:
            texts: dict[str, Any] = {"message": self._shown(message), "logger": self._shown(logger) or None}
            events.append(ToolLogPayload(level=level, left_out=left_out or None, **texts, **self._ids))
            left_out = 0
        if progress is not None:
            done, total, message = progress
            text = self._shown(message) or None
            events.append(ToolProgressPayload(done=done, total=total, message=text, **self._ids))
        return events

    def _shown(self, text: str) -> str:
        """Return the text as it may be kept; redacted before it is cut, so that no part of a secret is left."""
        return visible(self._clean(redact_start(text, MAX_TEXT)))


def _number(value: float | None) -> float | None:
    """Return a number that JSON has; None for others."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _text(value: str) -> str:
    """Return as much of a text as is examined when it is written, which few of the reports are."""
    return str(value)[:MAX_EXAMINED].encode("utf-8", "replace").decode()  # no database has half a surrogate pair
