"""A run told on a terminal as it happens: the answer on stdout, everything around it, dimmed, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

import click
import orjson

from bus.payloads import (
    EXPIRED,
    ApprovalPayload,
    EndPayload,
    ErrorPayload,
    MessagePayload,
    Payload,
    ReasoningPayload,
    ResponsePayload,
    StatusPayload,
    ToolNamePayload,
    ToolPayload,
    ToolResultPayload,
    WithdrawnPayload,
)
from config.visible import visible
from web.terminal import question
from web.terminal.quoted import Quoted, columns, hanging

MAX_RESULT_CHARS = 200
MARKS = {"done": ("✓", "green"), "failed": ("✕", "red"), "refused": ("⊘", "yellow"), "unknown": ("?", "yellow")}
WAITS = {"code_version": "no worker's code fits this run; `./callboard runs --why` says what is missing"}
"""What is said of the reasons for which runs wait."""
StillAsked = Callable[[], Sequence[Mapping[str, Any]]]
"""Returns the questions of the run that are open now."""
EXIT = {"succeeded": 0, "failed": 1, "dead": 1, "cancelled": 130}
"""The exit status of each end."""
WAITING = 3
"""The exit status of `run --no-wait` that left a run which waits for a person."""


def safe(text: str) -> str:
    """Return text from a model or a tool with nothing in it that moves a terminal's cursor or is not seen."""
    return visible(text)


def fit(text: str, width: int) -> str:
    """Return text in at most ``width`` characters; what was cut shows as an ellipsis."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


class Transcript:
    """Takes a run's events in order and prints them for a person."""

    def __init__(
        self, run_id: str, *, out: TextIO | None = None, err: TextIO | None = None, still_asked: StillAsked = tuple
    ) -> None:
        self._run_id = run_id
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._quoted = {"response": Quoted(self._out), "reasoning": Quoted(self._err, dim=True, italic=True)}
        self._width = columns() if self._err.isatty() else 0
        self._open = ""  # whose line is not finished: "response" or "reasoning"
        self._streamed: set[str] = set()
        self._still_asked = still_asked
        self._is_answered = False
        self._newest_piece = 0

    def take(self, payload: Payload) -> None:
        """Print one event."""
        if isinstance(payload, (ResponsePayload, ReasoningPayload)):
            self._newest_piece = payload.seq
        if isinstance(payload, ResponsePayload):
            self._piece("response", payload.content, payload.message_id)
        elif isinstance(payload, ReasoningPayload):
            self._piece("reasoning", payload.content, payload.message_id)
        elif isinstance(payload, MessagePayload):
            self._message(payload)
        elif isinstance(payload, ToolPayload) and not isinstance(payload, ToolNamePayload):
            self._note(f"⚙ {payload.content or payload.name}", "cyan")
        elif isinstance(payload, ToolResultPayload):
            self._result(payload)
        elif isinstance(payload, ApprovalPayload):
            self._approval(payload)
        elif isinstance(payload, ErrorPayload):
            self._error(payload)
        elif isinstance(payload, WithdrawnPayload):
            self._withdrawn(payload)
        elif isinstance(payload, StatusPayload):
            self._status(payload)
        elif isinstance(payload, EndPayload):
            self._end(payload)

    def _withdrawn(self, payload: WithdrawnPayload) -> None:
        if payload.reason == EXPIRED:
            self._note("… the log was not kept; this is how it ended", "yellow")
        elif any(first <= self._newest_piece <= last for first, last in payload.ranges):  # else it names unused numbers
            self._note("↺ what was said above is taken back", "yellow")

    def _piece(self, kind: str, text: str, message_id: str) -> None:
        if self._open != kind:
            self._close_line()
            self._open = kind
        self._streamed.add(message_id)
        self._quoted[kind].write(text)

    def _message(self, payload: MessagePayload) -> None:
        if payload.message_id not in self._streamed and payload.content:
            self._piece("response", payload.content, payload.message_id)
        self._close_line()
        if payload.partial:
            self._note("… cut off here", "yellow")

    def _result(self, payload: ToolResultPayload) -> None:
        mark, colour = MARKS.get(payload.outcome, ("·", "white"))
        text = payload.result if isinstance(payload.result, str) else orjson.dumps(payload.result).decode()
        first, _, rest = safe(text).strip().partition("\n")
        more = " …" if rest or len(first) > MAX_RESULT_CHARS else ""
        took = f"  {payload.duration_ms} ms" if payload.duration_ms is not None else ""
        self._note(f"  {mark} {first[:MAX_RESULT_CHARS]}{more}{took}", colour)

    def _error(self, payload: ErrorPayload) -> None:
        again = f" Trying again in {payload.retry_in_ms / 1000:.1f} s." if payload.retry_in_ms is not None else ""
        self._note(
            f"{'!' if payload.retryable else '✕'} {payload.message}{again}", "yellow" if payload.retryable else "red"
        )

    def _approval(self, payload: ApprovalPayload) -> None:
        if payload.decision is None:
            first, *rest = question.told(question.of_payload(payload))
            self._note("\n".join(["? " + first, *rest]), "yellow")
        else:
            said = f": {payload.reason}" if payload.reason else ""
            self._note(f"→ {question.word(payload.decision)}, decided by {payload.by}{said}", "yellow")

    def _status(self, payload: StatusPayload) -> None:
        if payload.status == "waiting" and payload.reason == "approval":
            # A log read long after tells of questions that have their answer; how to give one is said of others.
            asked = self._still_asked()
            if asked:
                self._note("◐ waiting for an answer:", "yellow")
            for command in question.how(self._run_id, asked):
                self._note(f"  {command}", "yellow", width=0)  # to be copied whole
        elif payload.status == "waiting":
            self._note(f"◐ waiting: {WAITS.get(payload.reason or '', payload.reason or '')}", "yellow")
        elif payload.status == "queued":
            self._is_answered = payload.reason == "answered"
        elif payload.attempt is not None and payload.attempt > 1:
            said = "goes on" if self._is_answered else f"taken over, attempt {payload.attempt}"
            self._is_answered = False
            self._note(f"↺ {said}", "yellow")

    def _end(self, payload: EndPayload) -> None:
        self._close_line()
        facts = [payload.status if not payload.reason else f"{payload.status} ({payload.reason})"]
        if payload.duration_ms is not None:
            facts.append(f"{payload.duration_ms / 1000:.1f} s")
        usage = payload.usage or {}
        if usage:
            facts.append(f"{usage.get('input_tokens', 0):,} + {usage.get('output_tokens', 0):,} tokens")
        if payload.cost_usd is not None:
            facts.append(f"${payload.cost_usd:.4f}")
        facts.append(self._run_id)
        colour = {"succeeded": "green", "cancelled": "yellow"}.get(payload.status, "red")
        mark = {"succeeded": "✓", "cancelled": "■"}.get(payload.status, "✕")
        self._note(f"{mark} {' · '.join(facts)}", colour)

    def _note(self, text: str, colour: str, width: int | None = None) -> None:
        """Print a line of ours; what a model had a part in stays indented behind its first line."""
        self._close_line()
        told = hanging(text, self._width if width is None else width)
        click.secho(told, file=self._err, fg=colour, dim=colour in ("cyan", "green"))

    def _close_line(self) -> None:
        if self._open:
            self._quoted[self._open].end()
        self._open = ""
