"""The present call of a tool, as the tool sees it: whose it is, its files and secrets, and what it may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.tools.isolation.call_sandbox import CallSandbox
from agents.tools.isolation.sandbox import Quota
from agents.tools.requests.questions import DEFAULT_FORM, QuestionAsked, require_few, require_question
from agents.tools.requests.reports import CallReports
from agents.tools.requests.sample import Sample
from config.definitions.errors import SECRET_MISSING
from config.definitions.secrets import required_secret
from config.identity.contexts import GoldenContext, SecurityContext


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
    reports: CallReports | None = None
    """What the call says while it is under way; None where there is no run's log for it."""

    @property
    def sandbox(self) -> Path:
        """The folder of the files, made when a tool asks for it; the call counts as one that reads and writes there.

        Raises:
            STORAGE_FULL: it cannot be made.
        """
        return self.files.for_all()

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
