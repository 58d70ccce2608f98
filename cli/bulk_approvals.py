"""Several calls of one run, decided about with one answer: each is shown whole, and named with its digest."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from agents.handle import RunHandle
from bus.journal.approvals import Decision
from bus.journal.errors import ApprovalOver, ApprovalUnknown
from cli.output.json import print_json
from cli.output.question import choose, label, question_lines
from config.errors import Permanent
from config.text.visible import visible

DECISIONS = ("approve", "reject")
"""What can be said about several calls at once."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which calls of a run: those with these ids, or with ``is_all`` every one, of one tool if it is named."""

    ids: Sequence[str] = ()
    is_all: bool = False
    tool: str | None = None

    def is_several(self) -> bool:
        """Return whether more than one question may be meant."""
        return self.is_all or len(self.ids) > 1

    def check(self, run_id: str | None, decision: str | None, *, only_one: Sequence[str]) -> None:
        """Refuse what cannot be meant; ``only_one`` are the given options that are about one call.

        Raises:
            UsageError: the words do not go together, or calls would be approved unseen.
        """
        if self.tool is not None and not self.is_all:
            raise click.UsageError("--tool goes with --all only.")
        if self.is_all and (run_id is None or self.ids):
            raise click.UsageError("--all needs a RUN, and no approvals beside it.")
        if not self.is_several():
            return
        if only_one:
            raise click.UsageError(f"--{only_one[0]} is about one call; name one approval.")
        if decision not in (None, *DECISIONS):
            raise click.UsageError(f"several calls can be approved or rejected, not decided by '{decision}'.")
        if self.is_all and decision == "approve":
            raise click.UsageError("--all shows the calls and asks once; leave --decision out, or name each approval.")


def open_calls(questions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return those of the questions that ask whether a call may be made."""
    return [question for question in questions if question["kind"] == "call"]


def decide_several(
    handle: RunHandle, which: Selection, decision: str | None, message: str | None, as_json: bool
) -> tuple[int, str | None]:
    """Decide about the calls, after asking a person at the terminal where nothing was said.

    Returns the exit status, 1 where a decision did not count or none was made, and the run's status after the last
    decision that counted.

    Raises:
        UsageError: nothing was said, and this is no terminal; or a question named is about something else.
        ApprovalUnknown: a call to be shown is not open.
    """
    questions = {question["approval_id"]: question for question in handle.approvals()}
    calls = _selected(handle.run_id, which, questions, is_shown=decision is None)
    if decision is None and as_json:
        print_json(calls)
        return 0, None
    decision = decision or _ask_person(handle.run_id, calls)
    if decision is None:
        return 1, None
    choice = Decision(decision=decision, message=message)
    answers = list(_decide_each(handle, calls, choice, as_json))
    counted = [status for status in answers if status]
    return int(len(counted) < len(answers)), counted[-1] if counted else None


def _selected(
    run_id: str, which: Selection, questions: Mapping[str, Any], *, is_shown: bool
) -> list[Mapping[str, Any]]:
    if which.is_all:
        calls = [
            question for question in open_calls(list(questions.values())) if which.tool in (None, question["name"])
        ]
        if not calls:
            raise ApprovalOver(f"{run_id} has no open call {f'of {which.tool} ' if which.tool else ''}to approve.")
        return calls
    others = [id_ for id_ in which.ids if id_ in questions and questions[id_]["kind"] != "call"]
    if others:
        raise click.UsageError(f"{others[0][:80]} asks about something else than a call; answer it by itself.")
    for id_ in which.ids if is_shown else ():
        if id_ not in questions:
            raise ApprovalUnknown(approval_id=id_[:80])
    return [questions.get(id_, {"approval_id": id_}) for id_ in dict.fromkeys(which.ids)]


def _ask_person(run_id: str, calls: Sequence[Mapping[str, Any]]) -> str | None:
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    for call in calls:
        for line in (*question_lines(call), ""):
            click.echo(visible(line), err=is_terminal)
    ids = " ".join(call["approval_id"] for call in calls)
    if not is_terminal:
        click.echo(f"  ./callboard approve {run_id} {ids}  (with --decision approve or reject)")
        raise click.UsageError("nothing was decided; name a decision, as shown above.")
    several = len(calls) > 1
    click.echo(f"Approve {f'these {len(calls)} calls' if several else 'this call'}?", err=True)
    meanings = {
        "approve": "Each is made with exactly the arguments shown." if several else "It is made with these arguments.",
        "reject": "None is made, and the agent is informed." if several else "It is not made; the agent is informed.",
    }
    chosen = choose(meanings)
    if chosen is None:
        click.echo("Nothing was decided; the run keeps waiting.", err=True)
    return chosen


def _decide_each(
    handle: RunHandle, calls: Sequence[Mapping[str, Any]], choice: Decision, as_json: bool
) -> Iterator[str | None]:
    """Decide about each call and print it; yields the run's status, or None where the decision did not count."""
    for call in calls:
        ids = {"run_id": handle.run_id, "approval_id": call["approval_id"]}
        answer = Decision(decision=choice.decision, message=choice.message, digest=call.get("digest"))
        try:
            decided = handle.decide(call["approval_id"], answer, by="terminal")
        except Permanent as error:
            if as_json:
                print_json({**ids, "code": error.code, **error.facts}, lines=True)
            click.echo(visible(f"error: {call['approval_id']}: {error} [{error.code}]"), err=True)
            yield None
            continue
        if as_json:
            facts = {"decision": decided.decision, "by": decided.by, "status": decided.written.status}
            print_json(ids | facts, lines=True)
        else:
            click.echo(visible(f"decided: {label(decided.decision)} {call.get('name', '')} {call['approval_id']}."))
        yield decided.written.status
