"""The open questions of all runs on a terminal: a list, the chosen one in full, and keys that answer it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import click
import orjson

from agents.runner import Runner
from agents.tools.schema import parse_arguments
from bus.journal.approvals import Decision
from cli.output.question import label, question_lines, sentence_of
from cli.output.quoted import INDENT, fit, hanging
from cli.output.screen import Screen, hints
from cli.output.table import Column, Table
from cli.supervisor.serving import run_route
from config.definitions.schemas.json_schema import schema_errors
from config.errors import CallboardError
from config.text.visible import visible
from web.feeds.board import POLL_S

Question = dict[str, Any]
KEYS = "j k move · a approve · e edit and approve · r reject · Enter other answers · o address · space scroll · q leave"
MOST_LISTED = 0.35
"""Part of the screen's lines that the list gets."""


def _asks(question: Mapping[str, Any]) -> str:
    return sentence_of(question) or f"{question.get('name') or 'the run'}: {question.get('reason') or ''}"


QUESTIONS = Table(
    "approval_id",
    (
        Column("", lambda question: "▸" if question["is_chosen"] else " "),
        Column("RUN", "run_id"),
        Column("AGENT", "agent", worth=80),
        Column("AGE", "asked_at", worth=70, is_time=True, is_number=True),
        Column("EXPIRES", "expires_at", worth=90, is_time=True, is_number=True),
        Column("ASKS", _asks),
    ),
)


class ApprovalInbox:
    """Shows the questions that the installation's principal may answer until the user leaves."""

    def __init__(self, runner: Runner, ask: Callable[[Mapping[str, Any]], Decision | None]) -> None:
        self._runner = runner
        self._ask = ask
        self._chosen = ""
        self._above = 0
        self._note = ""
        self._questions: list[Question] = []

    def show(self) -> None:
        """Draw and answer until the user leaves; the terminal is then as it was."""
        with suppress(EOFError), Screen() as screen, hints(self._runner, screen.wake):
            key: str | None = None
            while key not in ("q", "\x1b"):
                self._read()
                screen.draw(self._lines(*screen.size))
                key = screen.key(POLL_S)
                if key is not None:
                    self._take(key, screen)

    def _read(self) -> None:
        """Read the questions again; one that is answered meanwhile is followed by its neighbour."""
        before = [question["approval_id"] for question in self._questions]
        self._questions, _ = self._runner.journal.readers.runs.inbox(self._runner.principal)
        ids = [question["approval_id"] for question in self._questions]
        if self._chosen not in ids:
            at = before.index(self._chosen) if self._chosen in before else 0
            self._choose(min(at, len(ids) - 1))

    def _choose(self, at: int) -> None:
        at = max(0, min(at, len(self._questions) - 1))
        self._chosen = self._questions[at]["approval_id"] if self._questions else ""
        self._above = 0

    @property
    def _at(self) -> int:
        ids = [question["approval_id"] for question in self._questions]
        return ids.index(self._chosen) if self._chosen in ids else 0

    # --- drawing

    def _lines(self, width: int, height: int) -> list[str]:
        count = "1 open question" if len(self._questions) == 1 else f"{len(self._questions)} open questions"
        foot = [*(hanging(visible(self._note), width).splitlines() if self._note else [""])]
        foot += [click.style(line, dim=True) for line in _broken(KEYS, width)]
        listed = self._listed(width, max(3, int(height * MOST_LISTED)))
        head = [click.style(count, bold=True), *listed, ""]
        room = max(1, height - len(head) - len(foot))
        body = self._in_full(width)
        self._above = max(0, min(self._above, len(body) - room))
        lines = body[self._above : self._above + room]
        if len(body) > self._above + room:
            lines[-1] = click.style(f"… {len(body) - self._above - room + 1} more lines: space", fg="yellow")
        return [*head, *lines, *[""] * (room - len(lines)), *foot]

    def _listed(self, width: int, most: int) -> list[str]:
        if not self._questions:
            return ["", "No run waits for an answer."]
        first = max(0, min(self._at - most // 2, len(self._questions) - most))
        rows = [question | {"is_chosen": question["approval_id"] == self._chosen} for question in self._questions]
        return QUESTIONS.lines(rows[first : first + most], width)

    def _in_full(self, width: int) -> list[str]:
        if not self._questions:
            return []
        question = self._questions[self._at]
        about = f"{question['run_id']} · {question['agent']} · {question.get('title') or ''}"
        lines = [click.style(fit(visible(about), width), bold=True)]
        for line in question_lines(question):
            lines += hanging(line, width).splitlines()
        names = ", ".join(label(decision) for decision in question["decisions"])
        return [*lines, click.style(f"{INDENT}answers: {names}"[:width], dim=True)]

    # --- keys

    def _take(self, key: str, screen: Screen) -> None:
        self._note = ""
        if key in ("j", "k"):
            self._choose(self._at + (1 if key == "j" else -1))
        elif key in (" ", "b"):
            self._above += (1 if key == " " else -1) * max(1, screen.size[1] // 3)
        elif self._questions:
            question = self._questions[self._at]
            actions = {"a": self._approve, "e": self._edit, "r": self._reject, "\n": self._other, "o": self._address}
            if key in actions:
                actions[key](question, screen)

    def _approve(self, question: Question, screen: Screen) -> None:
        self._decide(question, "approve")

    def _edit(self, question: Question, screen: Screen) -> None:
        """Let the user edit the arguments until they fit the tool, and approve the call with them."""
        text, problem = orjson.dumps(question["arguments"], option=orjson.OPT_INDENT_2).decode() + "\n", ""
        while "approve" in question["decisions"]:
            with screen.left():
                if problem and not click.confirm(f"{visible(problem)}\nEdit again?", default=True, err=True):
                    return
                edited = click.edit(text, extension=".json")
            if edited is None or edited == text:
                self._note = "Nothing was changed, so nothing was sent; `a` approves the call as it is."
                return
            text = edited
            try:
                arguments = parse_arguments(edited)
            except CallboardError as error:
                problem = str(error)
                continue
            problems = schema_errors(question["input_schema"] or {}, arguments)
            if not problems:
                self._decide(question, "approve", arguments=arguments)
                return
            problem = f"This does not fit the tool: {'; '.join(problems)}."
        self._note = _not_offered(question, "approve")

    def _reject(self, question: Question, screen: Screen) -> None:
        if "reject" not in question["decisions"]:
            self._note = _not_offered(question, "reject")
            return
        with screen.left():
            try:
                text = "Why? The agent gets it; Enter for no reason, Ctrl-C to go back"
                reason = click.prompt(text, default="", show_default=False, err=True)
            except click.Abort:
                return
        self._decide(question, "reject", message=reason or None)

    def _other(self, question: Question, screen: Screen) -> None:
        """Ask as `approve RUN` does: for a form, a result, or what a question offers besides approve and reject."""
        with screen.left():
            for line in question_lines(question):
                click.echo(visible(line), err=True)
            try:
                answer = self._ask(question)
            except click.Abort:
                return
        if answer is not None:
            self._send(question, answer)

    def _address(self, question: Question, screen: Screen) -> None:
        base = self._runner.settings.public_url or ""
        self._note = f"{base.rstrip('/')}/#{run_route(question['run_id'])}  (./callboard open {question['run_id']})"

    def _decide(self, question: Question, decision: str, **parts: Any) -> None:
        if decision not in question["decisions"]:
            self._note = _not_offered(question, decision)
            return
        self._send(question, Decision(decision=decision, digest=question["digest"], **parts))

    def _send(self, question: Question, answer: Decision) -> None:
        """Send the answer, and keep what the journal says of it: another person may have decided first."""
        try:
            handle = self._runner.handle(question["run_id"])
            decided = handle.decide(question["approval_id"], answer, by="terminal")
        except CallboardError as error:
            self._note = f"✕ {error} [{error.code}]"
        else:
            follows = "waits for more answers" if decided.written.status == "waiting" else "continues"
            self._note = f"✓ decided: {label(decided.decision)}; {question['run_id']} {follows}."


def _not_offered(question: Mapping[str, Any], decision: str) -> str:
    names = ", ".join(label(name) for name in question["decisions"])
    return f"'{label(decision)}' is none of this question's answers ({names}); Enter asks for one of them."


def _broken(keys: str, width: int) -> list[str]:
    """Return the line about the keys, broken between them."""
    lines = [""]
    for key in keys.split(" · "):
        joined = f"{lines[-1]} · {key}" if lines[-1] else key
        if len(joined) > width and lines[-1]:
            lines.append(key)
        else:
            lines[-1] = joined
    return lines
