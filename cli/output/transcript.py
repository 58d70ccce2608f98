"""Print a run's events for a person: the answer on stdout, everything else, dimmed, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import singledispatchmethod
from typing import Any, TextIO

import click
import orjson
from click.globals import resolve_color_default

from bus.payloads import (
    EXPIRED,
    ApprovalPayload,
    ChildPayload,
    ControlPayload,
    EndPayload,
    ErrorPayload,
    HandoverPayload,
    MessagePayload,
    NodePayload,
    Payload,
    StatusPayload,
    TextPayload,
    ToolLogPayload,
    ToolNamePayload,
    ToolPayload,
    ToolProgressPayload,
    ToolResultPayload,
    WithdrawnPayload,
)
from cli.output import question
from cli.output.durations import took
from cli.output.markdown import Markdown
from cli.output.nodes import NodeLines
from cli.output.quoted import Quoted, columns, fit, hanging
from config.text.visible import escaped_json, visible

MAX_RESULT_CHARS = 200
MAX_FAILURE_CHARS = 1000
"""Longest shown sentence of a failed call: its end has the remedy."""
MARKS = {
    "done": ("✓", "green"),
    "failed": ("✕", "red"),
    "refused": ("⊘", "yellow"),
    "cancelled": ("■", "yellow"),
    "unknown": ("?", "yellow"),
}
WAITS = {
    "task": "a Celery application is at work on its call; it continues by itself",
    "child": "its child runs are at work; it continues by itself",
    "signal": "its nodes say above for what; it continues by itself once that comes",
    "code_version": "no worker has the code or the key for this run; `./callboard runs --why` names what is missing",
    "principal_disabled": "the run's principal is disabled; `./callboard runs --why` names it",
    "paused": "a client paused it; `./callboard resume RUN` continues it",
}
"""Display texts of wait reasons."""
CONTROLS = {
    ("steer", "consumed"): "→ from {by}{why}:",
    ("steer", "refused"): "✕ refused, from {by}{why}:",
    ("steer", "undelivered"): "✕ not delivered, from {by}{why}:",
    ("pause", "consumed"): "◐ paused by {by}",
    ("pause", "refused"): "✕ the pause by {by} is refused{why}",
    ("resume", "consumed"): "→ resumed by {by}",
    ("stop", "consumed"): "■ stopped by {by}",
    ("signal", "consumed"): "→ signal {content} from {by}",
    ("signal", "refused"): "✕ the signal {content} from {by} is refused{why}",
    ("set", "consumed"): "→ set by {by}: {content}",
    ("set", "refused"): "✕ {content} by {by} is refused{why}",
}
"""Display texts of controls, by verb and state; the others need no attention."""
WHYS = {
    "ended": "the run ended before",
    "superseded": "a later request took it back",
    "stale": "the run had left the status that it was for",
    "input_blocked": "a guardrail of the run's agent blocks it",
    "stopped": "the run was stopped before its model got it",
    "unchecked": "the run ended before its guardrails could look at it",
    "next_turn": "it begins the thread's next turn",
}
"""Display texts of the reasons of controls."""
StillAsked = Callable[[], Sequence[Mapping[str, Any]]]
"""Returns the run's open questions."""
QUIET = ("debug", "info", "notice")
"""Levels of a tool's log lines that need no attention."""
EXIT = {"succeeded": 0, "failed": 1, "dead": 1, "cancelled": 130}
"""The exit status of each end."""
WAITING = 3
"""The exit status of `run --no-wait` for a run that waits for an approval."""


class Transcript:
    """Takes a run's events in order and prints them for a person."""

    def __init__(
        self,
        run_id: str,
        *,
        out: TextIO | None = None,
        err: TextIO | None = None,
        still_asked: StillAsked = tuple,
    ) -> None:
        self._run_id = run_id
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        renders = self._out.isatty() and resolve_color_default() is not False
        response = Markdown(self._out) if renders else Quoted(self._out)
        self._quoted: dict[str, Quoted | Markdown] = {"response": response}
        self._quoted |= {"reasoning": Quoted(self._err, dim=True, italic=True), "steer": Quoted(self._err)}
        self._width = columns() if self._err.isatty() else 0
        self._open = ""  # the unfinished line's kind: "response" or "reasoning"
        self._streamed: set[str] = set()
        self._still_asked = still_asked
        self._is_requeued = False
        self._newest_piece = 0
        self._trace_id: str | None = None
        self._model: str | None = None  # that was asked in place of the agent's own
        self._failure = ""  # the whole sentence of the call or the node that failed last
        self._nodes: NodeLines | None = None  # of a workflow, whose calls and answers are its nodes'
        self._at_work = ""  # the line, on a terminal, that the next one replaces

    @singledispatchmethod
    def take(self, payload: Payload) -> None:
        """Print one event; a type without a method of its own below is not shown."""

    @take.register
    def _(self, payload: WithdrawnPayload) -> None:
        if payload.reason == EXPIRED:
            self._note("… the log was not kept; only the end is shown", "yellow")
        elif any(first <= self._newest_piece <= last for first, last in payload.ranges):  # else: unused numbers only
            self._note("↺ the text above is withdrawn", "yellow")

    @take.register
    def _(self, payload: NodePayload) -> None:
        self._nodes = self._nodes or NodeLines()
        for line in self._nodes.take(payload):
            self._note(line.text, line.colour)
        if payload.status == "failed":
            self._failure = visible(payload.content or "").strip()
        self._show_at_work(self._nodes.at_work)

    @take.register
    def _(self, payload: TextPayload) -> None:
        if self._nodes is not None:
            return
        self._newest_piece = payload.seq
        self._piece(payload.type, payload.content, payload.message_id)

    @take.register
    def _(self, payload: ToolPayload) -> None:
        if self._nodes is not None:
            self._nodes.take_call(payload)
        elif not isinstance(payload, ToolNamePayload):
            self._note(f"⚙ {payload.content or payload.name}", "cyan")

    def _piece(self, kind: str, text: str, message_id: str) -> None:
        if self._open != kind:
            self._close_line()
            self._open = kind
        self._streamed.add(message_id)
        self._quoted[kind].write(text)

    @take.register
    def _(self, payload: MessagePayload) -> None:
        if self._nodes is not None:
            return
        if payload.message_id not in self._streamed and payload.content:
            self._piece("response", payload.content, payload.message_id)
        self._close_line()
        if payload.partial:
            self._note("… interrupted", "yellow")

    @take.register
    def _(self, payload: ToolProgressPayload) -> None:
        done = "" if payload.done is None else f"{payload.done:g}"
        done += f" of {payload.total:g}" if done and payload.total else ""
        self._note(f"  … {': '.join(filter(None, (done, visible(payload.message or ''))))}", "cyan")

    @take.register
    def _(self, payload: ToolLogPayload) -> None:
        colour = "cyan" if payload.level in QUIET else "yellow"
        self._note(f"  {visible(payload.level)}: {visible(payload.message)}", colour)

    @take.register
    def _(self, payload: ToolResultPayload) -> None:
        if self._nodes is not None:
            return self._nodes.take_call(payload)
        mark, colour = MARKS.get(payload.outcome, ("·", "white"))
        text = payload.result if isinstance(payload.result, str) else orjson.dumps(payload.result).decode()
        first, _, rest = visible(text).strip().partition("\n")
        limit = MAX_FAILURE_CHARS if payload.outcome in ("failed", "refused") else MAX_RESULT_CHARS
        more = " …" if rest or len(first) > limit else ""
        self._failure = "" if more or payload.outcome == "done" else first
        took = f"  {payload.duration_ms} ms" if payload.duration_ms is not None else ""
        self._note(f"  {mark} {first[:limit]}{more}{took}", colour)

    @take.register
    def _(self, payload: ChildPayload) -> None:
        if self._nodes is not None and payload.call_id is not None:
            self._nodes.children[payload.call_id] = payload.child_run_id
            if payload.status != "waiting":
                return
        hint = f"; answer it: `./callboard approve {payload.child_run_id}`" if payload.status == "waiting" else ""
        self._note(f"  ↳ {visible(payload.agent)} {payload.child_run_id} {payload.status}{hint}", "cyan")

    @take.register
    def _(self, payload: HandoverPayload) -> None:
        self._close_line()
        self._is_requeued = True  # the next owner continues, and took over from none
        self._note(visible(f"→ {payload.to_agent} continues{f': {payload.reason}' if payload.reason else ''}"), "cyan")

    @take.register
    def _(self, payload: ControlPayload) -> None:
        line = CONTROLS.get((payload.verb, payload.state))
        if line is None:
            return
        why = f", {WHYS.get(payload.reason, payload.reason)}" if payload.reason else ""
        self._note(visible(line.format(by=payload.by, content=payload.content, why=why)), "yellow")
        if payload.verb == "steer":
            self._piece("steer", payload.content or "", payload.control_id)
            self._close_line()

    @take.register
    def _(self, payload: ErrorPayload) -> None:
        message = visible(payload.message).strip()
        if message and self._failure.endswith(message):
            return  # a run of kind `tool` fails as its call did, which stands in the line above
        again = f" Retrying in {payload.retry_in_ms / 1000:.1f} s." if payload.retry_in_ms is not None else ""
        if payload.to_model is not None:
            again, self._model = f" Asking {payload.to_model} instead.", payload.to_model
        self._note(
            f"{'!' if payload.retryable else '✕'} {payload.message}{again}", "yellow" if payload.retryable else "red"
        )

    @take.register
    def _(self, payload: ApprovalPayload) -> None:
        if payload.decision is None and payload.approved_by:
            names = ", ".join(payload.approved_by)
            self._note(f"→ approved by {names}; {payload.approvers} have to approve", "yellow")
        elif payload.decision is None:
            first, *rest = question.question_lines(question.of_payload(payload))
            self._note("\n".join(["? " + first, *rest]), "yellow")
        else:
            comment = f": {payload.reason}" if payload.reason else ""
            lines = [f"→ {question.label(payload.decision)}, decided by {payload.by}{comment}"]
            if payload.decision == "approve" and payload.arguments is not None:
                lines += ["  The call is made with other arguments:", *question.argument_lines(payload.arguments)]
            self._note("\n".join(lines), "yellow")

    @take.register
    def _(self, payload: StatusPayload) -> None:
        if payload.status == "waiting":
            self._is_requeued = True  # its own process may continue it without a queue
        if payload.status == "waiting" and payload.reason == "approval":
            # An old log also has questions that are answered by now; show the command only for open ones.
            questions = self._still_asked()
            if questions:
                self._note("◐ waiting for an answer:", "yellow")
            for command in question.answer_commands(self._run_id, questions):
                self._note(f"  {command}", "yellow", width=0)  # unbroken, so that it can be copied
        elif payload.status == "waiting":
            self._note(f"◐ waiting: {WAITS.get(payload.reason or '', payload.reason or '')}", "yellow")
        elif payload.status == "queued":
            self._trace_id = payload.trace_id or self._trace_id
            self._is_requeued = payload.reason is not None  # an owner that was lost writes no such event
            if payload.privilege is not None:
                facts = payload.privilege
                self._note(f"! privileged, granted by {facts.get('by')}: {facts.get('reason')}", "yellow")
        elif payload.status == "moved":
            self._is_requeued = True
        elif payload.attempt is not None and payload.attempt > 1:
            text = "continued" if self._is_requeued else f"taken over, attempt {payload.attempt}"
            self._is_requeued = False
            self._note(f"↺ {text}", "yellow")

    @take.register
    def _(self, payload: EndPayload) -> None:
        for line in self._nodes.skipped() if self._nodes is not None else ():
            self._note(line.text, line.colour)
        for left in payload.not_undone or ():
            self._note(visible(f"! not undone: {left['node']}, a call of {left['tool']}: {left['reason']}"), "red")
        self._close_line()
        if payload.status == "succeeded" and payload.output is not None and not self._streamed:
            self._print_output(payload.output)  # of one call of a tool, or of an agent to which a route led
        facts = [payload.status if not payload.reason else f"{payload.status} ({payload.reason})"]
        if payload.duration_ms is not None:
            facts.append(took(payload.duration_ms, payload.work_ms))
        usage = payload.usage or {}
        if usage:
            facts.append(_tokens(usage.get("input_tokens", 0), usage.get("output_tokens", 0)))
        if payload.cost_usd is not None:
            facts.append(f"${payload.cost_usd:.4f}")
        facts += [f"by {self._model}"] if self._model is not None else []
        facts.append(self._run_id)
        if payload.status in ("failed", "dead") and self._trace_id is not None:
            facts.append(f"trace {self._trace_id}")
        colour = {"succeeded": "green", "cancelled": "yellow"}.get(payload.status, "red")
        mark = {"succeeded": "✓", "cancelled": "■"}.get(payload.status, "✕")
        self._note(f"{mark} {' · '.join(facts)}", colour)

    def _print_output(self, output: Any) -> None:
        if not isinstance(output, str):
            output = escaped_json(orjson.dumps(output, option=orjson.OPT_INDENT_2).decode())
        elif self._out.isatty():
            output = visible(output)
        self._out.write(output + "\n")
        self._out.flush()

    def _note(self, text: str, colour: str, width: int | None = None) -> None:
        """Print a line of ours with its later lines indented, so that a model's text cannot imitate one."""
        self._close_line()
        indented = hanging(text, self._width if width is None else width)
        click.secho(indented, file=self._err, fg=colour, dim=colour in ("cyan", "green"))

    def _show_at_work(self, text: str) -> None:
        """Show what is at work below the last line, on a terminal; the next line takes its place."""
        if self._width and text != self._at_work:
            self._close_line()
            self._err.write(fit(text, self._width - 1))
            self._err.flush()
            self._at_work = text

    def _close_line(self) -> None:
        if self._at_work:
            self._err.write("\r\x1b[K")
            self._at_work = ""
        if self._open:
            self._quoted[self._open].end()
        self._open = ""


def _tokens(read: int, written: int) -> str:
    """Return ``139 tokens in, 44 out``, as on the page (web/static/dom/format.js)."""
    return f"{read:,} {'token' if read == 1 else 'tokens'} in, {written:,} out"
