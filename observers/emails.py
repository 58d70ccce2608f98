"""Sends mails to the persons who run the deployment: that runs have not succeeded, and that some ask for an answer."""

from __future__ import annotations

import hashlib
import logging
import smtplib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.mime.text import MIMEText
from typing import Annotated, Any, ClassVar, Literal, Self

import orjson
from pydantic import Field, field_validator

from bus.payloads import ApprovalPayload, EndPayload, ErrorPayload, Payload
from config.definitions.errors import PluginUnknown
from config.definitions.secrets import resolve_secret
from config.definitions.webhooks.secret_references import SecretReference
from config.errors import ModelVisible
from config.redaction import redact
from config.redaction.redacted_data import without_secrets
from config.settings import Settings
from config.text.visible import without_hidden
from observers.base import AgentFacts, LogObserver, NotTaken, ObserverOptions, RunFacts, Tailing, page_of
from observers.smtp import TIMEOUT_S, MailAddress, SmtpFields, mail_problem, send_mail, text_mail

log = logging.getLogger(__name__)

MAX_ENTRIES = 20
"""Runs that one mail describes; of further ones it gives the number."""
MAX_CONTENT_CHARS = 2000
"""Of an output or of arguments."""
MAX_TITLE_CHARS = 150


class EmailOptions(SmtpFields, ObserverOptions):
    """From whom, by which server and to whom mails are sent, and about what."""

    password: SecretReference | None = None
    """The password at the server; None: it wants none."""
    to: Annotated[tuple[MailAddress, ...], Field(min_length=1, max_length=20)]
    ends: Literal["failures", "all"] = "failures"
    """Of which ends it tells: those of runs that failed, or that no worker could finish; or all."""
    content: Annotated[bool, Field(strict=True)] = False
    """Whether mails have what models and people wrote: outputs, and the arguments of calls."""

    @field_validator("to", mode="before")
    @classmethod
    def _is_alone(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    def password_now(self) -> str | None:
        """Return the password, which is read anew for each mail.

        Raises:
            ValueError: its reference leads to nothing; the text names it.
        """
        if self.password is None:
            return None
        if (password := resolve_secret(self.password)) is None:
            raise ValueError(f"{self.password} is missing or empty for the process that sends mails; set it.")
        return password

    def problem(self) -> str | None:
        try:
            self.password_now()
        except ValueError as error:
            return str(error)
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class MailEntry:
    """What a mail says about one event."""

    key: str
    """Of the event: ``RUN-SEQ``."""
    title: str
    lines: Sequence[str]


class EmailObserver(LogObserver):
    """Gathers what happened in a batch of events, and sends it as one mail."""

    name: ClassVar[str] = "email"
    tailing: ClassVar[Tailing] = Tailing(
        timeout_s=6 * TIMEOUT_S, poll_s=2.5, types=("approval", "end"), is_per_tenant=True
    )
    options_model: ClassVar[type[ObserverOptions]] = EmailOptions
    wants_deltas = False

    def __init__(self, options: EmailOptions, public_url: str | None) -> None:
        self._options, self._public_url = options, public_url
        self._entries: list[MailEntry] = []

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        problem = f"mails are sent from the log: declare them in {settings.observers_file} instead of with an agent."
        raise PluginUnknown(problem, name=cls.name)

    @classmethod
    def from_options(cls, settings: Settings, options: ObserverOptions | None) -> Self:
        assert isinstance(options, EmailOptions)
        return cls(options, settings.public_url)

    def on_end(self, agent: AgentFacts, payload: EndPayload, context: RunFacts) -> None:
        is_failure = payload.status in ("failed", "dead")
        if context.parent_id is not None or not (is_failure or self._options.ends == "all"):
            return  # its parent's end says what came of a child run
        reason = f": {payload.reason}" if payload.reason else ""
        content = {"output": payload.output, "error": self._error_of(context.run_id) if is_failure else None}
        read = f"./callboard logs {context.run_id}"
        self._note(f"{agent.id} {payload.status}{reason}", payload, context, content, read)

    def on_approval(self, agent: AgentFacts, payload: ApprovalPayload, context: RunFacts) -> None:
        if payload.decision is not None or payload.approved_by is not None:
            return  # an answer
        about = f" about {payload.name}" if payload.name else ""
        facts = {"until": payload.expires_at, "persons": payload.approvers}
        answer = f"./callboard approve {context.run_id}"
        self._note(f"{agent.id} asks{about}", payload, context, {"arguments": payload.arguments}, answer, **facts)

    def _error_of(self, run_id: str) -> str | None:
        """Return the last error of a run."""
        if not self._options.content:
            return None
        message = None
        for error in self.runs.events(run_id, ("error",)):
            message = error.message if isinstance(error, ErrorPayload) else message
        return message

    def _note(
        self, title: str, payload: Payload, context: RunFacts, content: Mapping[str, Any], command: str, **facts: Any
    ) -> None:
        """Keep what the next mail says of an event; ``command``: what a person does then."""
        facts = {
            "run": context.run_id,
            "tenant": context.tenant,
            "principal": context.principal,
            "at": payload.at,
        } | facts
        lines = [_line(f"{name}: {value}") for name, value in facts.items() if value is not None]
        if self._options.content:
            lines += [line for name, value in content.items() if value is not None for line in _block(name, value)]
        if self._public_url:
            lines.append(_line(page_of(self._public_url, context)))
        lines.append(_line(command))
        key = f"{context.run_id}-{payload.seq}"
        self._entries.append(MailEntry(key=key, title=_line(title)[:MAX_TITLE_CHARS], lines=lines))

    def flush(self) -> None:
        """Send what was gathered; what a mail failed with is noted again by the next attempt.

        Raises:
            NotTaken: the server has not taken the mail.
        """
        entries, self._entries = self._entries, []
        if not entries:
            return
        to = self._options.to
        try:
            refused = send_mail(self._options, self._options.password_now(), self._mail(entries), to)
        except (smtplib.SMTPException, OSError, ValueError, ModelVisible) as error:
            raise NotTaken(f"{self._options.smtp}: {redact(mail_problem(error))}") from error
        for address, problem in refused.items():
            log.warning("the mail server refuses %s: %s", redact(address), redact(problem))

    def _mail(self, entries: Sequence[MailEntry]) -> MIMEText:
        """Return a mail whose id is the same for the same events, however often it is sent."""
        digest = hashlib.sha256(" ".join(entry.key for entry in entries).encode()).hexdigest()[:32]
        title = entries[0].title if len(entries) == 1 else f"{entries[0].title}, and {len(entries) - 1} more"
        parts = ["\n".join([entry.title, *(f"  {line}" for line in entry.lines)]) for entry in entries[:MAX_ENTRIES]]
        if len(entries) > MAX_ENTRIES:
            parts.append(f"{len(entries) - MAX_ENTRIES} more; `./callboard runs` and `./callboard approve` list them.")
        message_id = f"<cb.{digest}@{self._options.address.partition('@')[2]}>"
        mail = text_mail(self._options, self._options.to, f"[Callboard] {title}", "\n\n".join(parts), message_id)
        mail["Auto-Submitted"] = "auto-generated"
        return mail


def _block(name: str, value: Any) -> list[str]:
    """Return what was written by models and persons, a text line by line, under its name."""
    clean = without_secrets(value)
    text = clean if isinstance(clean, str) else orjson.dumps(clean, option=orjson.OPT_INDENT_2).decode()
    return [f"{name}:", *(f"  {line}" for line in without_hidden(text[:MAX_CONTENT_CHARS]).splitlines())]


def _line(text: str) -> str:
    """Return a text on one line, without secrets and without characters that hide or reorder it."""
    return " ".join(redact(without_hidden(text)).split())
