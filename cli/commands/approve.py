"""`./callboard approve`: answer a run's approval request."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click
import orjson

from agents.errors import ArgumentsInvalid
from agents.handle import RunHandle
from agents.runner import Runner
from agents.tools.schema import parse_arguments
from bus.journal.approvals import Decision
from bus.journal.clients import Decided
from bus.journal.errors import ApprovalDecided, ApprovalOver, ApprovalUnknown
from cli import options
from cli.bulk_approvals import Selection, decide_several, open_calls
from cli.inbox import ApprovalInbox
from cli.open_runner import open_runner
from cli.output.durations import seconds_of
from cli.output.form import fields_of
from cli.output.json import print_json
from cli.output.question import answer_commands, choose, label, meaning_of, prompt, question_lines, sticky_line
from cli.output.screen import is_screen
from cli.output.table import Column, Table
from cli.output.wait_reasons import warn_of_no_worker
from config.definitions.schemas.json_schema import schema_errors
from config.effects import Scope
from config.errors import BadRequest
from config.text.visible import visible

GOES_WITH = {"result": "take_as_done", "arguments": "approve", "scope": "approve", "answer": "answer"}
"""Option -> the one decision that it goes with."""


@click.command()
@click.argument("run_id", type=options.RUN, metavar="[RUN]", required=False)
@click.argument("approval_ids", type=options.APPROVAL, metavar="[APPROVAL]...", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All open calls of RUN: they are shown, and you are asked once.")
@click.option("--tool", metavar="NAME", help="With --all: the calls of this tool.")
@click.option(
    "--decision",
    metavar="WHICH",
    help="One of those the question offers: approve, reject, run_again, ...; without it you are asked.",
)
@click.option("--arguments", metavar="JSON", help="With approve: call the tool with these arguments instead.")
@click.option("--result", metavar="TEXT", help="With take_as_done: what the call returned, JSON or text.")
@click.option("--answer", metavar="JSON", help="What you fill in, as a JSON object; it means --decision answer.")
@click.option(
    "--scope", type=click.Choice([str(scope) for scope in Scope]), help="With approve: let it hold for later calls too."
)
@click.option(
    "--for", "duration", metavar="TIME", help="With --scope: for how long, such as 30m; else as long as it may."
)
@click.option("--list-sticky", is_flag=True, help="List the approvals that hold for later calls too.")
@click.option("--revoke", type=options.STICKY, metavar="STICKY", help="End such an approval before its time.")
@click.option("--message", metavar="TEXT", help="A comment that the log keeps.")
@options.as_json
@options.state_dir
def approve(
    run_id: str | None,
    approval_ids: tuple[str, ...],
    decision: str | None,
    is_all: bool,
    tool: str | None,
    list_sticky: bool,
    revoke: str | None,
    as_json: bool,
    state_dir: object,
    **words: str | None,
) -> int:
    """Answer an approval of RUN; without RUN, list the open ones of all runs.

    APPROVAL may be omitted if only one is open; several calls are approved or rejected together.
    The first answer counts.
    """
    for option, which in GOES_WITH.items():
        if words[option] is not None and decision not in (None, which):
            raise click.UsageError(f"--{option} goes with --decision {which} only.")
    parts: dict[str, Any] = {
        "result": _result(words["result"]),
        "arguments": _arguments(words["arguments"]),
        "message": _message(words["message"]),
    }
    if words["duration"] is not None and words["scope"] is None:
        raise click.UsageError("--for goes with --scope only.")
    parts["scope"], parts["scope_s"] = words["scope"], _seconds(words["duration"])
    if words["answer"] is not None:
        decision, parts["result"] = "answer", _arguments(words["answer"], "--answer")
    selection = Selection(ids=approval_ids, is_all=is_all, tool=tool)
    selection.check(run_id, decision, only_one=[option for option in GOES_WITH if words[option] is not None])
    with open_runner(options.apply(state_dir=state_dir)) as runner:
        if list_sticky or revoke is not None:
            return _list_sticky(runner, as_json) if revoke is None else _revoke(runner, revoke, as_json)
        if run_id is None:
            if decision is not None:
                raise click.UsageError("--decision needs a RUN; name the run whose question you answer.")
            return _list_open(runner, as_json)
        handle = runner.handle(run_id)
        if selection.is_several():
            return _decide_several(runner, handle, selection, decision, parts["message"], as_json)
        approval_id = next(iter(approval_ids), None)
        if decision is not None:
            return _decide(runner, handle, approval_id, Decision(decision=decision, **parts), as_json)
        questions = _asked(handle, approval_id)
        if as_json:
            print_json(questions)
            return 0
        answer = _ask_person(run_id, questions, parts)
        return 1 if answer is None else _decide(runner, handle, questions[0]["approval_id"], answer, as_json)


def _list_open(runner: Runner, as_json: bool) -> int:
    """Show the open questions of all runs, the newest first: on a terminal as an inbox, in which they are answered."""
    questions, _ = runner.journal.readers.runs.inbox(runner.settings.local_principal)
    if questions and not as_json and is_screen():
        ApprovalInbox(runner, typed_answer).show()
        return 0
    if as_json:
        print_json(questions)
    elif not questions:
        click.echo("No run waits for an answer.")
    for of_run in _by_run(questions) if not as_json else ():
        run_id = of_run[0]["run_id"]
        click.echo(visible("\n".join([f"{run_id}  {of_run[0]['agent']}", _listed(run_id, of_run), ""])))
    return 0


def _by_run(questions: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the questions of each run together, those of one tool one after the other."""
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for question in questions:
        runs.setdefault(question["run_id"], {}).setdefault(question["name"], []).append(question)
    return [[question for of_tool in tools.values() for question in of_tool] for tools in runs.values()]


def _list_sticky(runner: Runner, as_json: bool) -> int:
    """Print the approvals that hold for later calls too, the newest first."""
    approvals = runner.journal.stores.sticky_approvals.page(runner.settings.local_principal, limit=200)
    STICKY.print(approvals, "json" if as_json else "table", empty="No approval holds for later calls.")
    return 0


def _until(approval: Mapping[str, Any]) -> str:
    return f"{approval['expires_at'][:16].replace('T', ' ')} UTC" if approval["is_valid"] else "ended"


STICKY = Table(
    "sticky_id",
    (
        Column("APPROVAL", "sticky_id"),
        Column("TOOL", "name"),
        Column("AGENT", "agent", worth=90),
        Column("THREAD", lambda approval: approval.get("thread_id") or "all its threads", worth=80),
        Column("FOR", "principal", worth=70),
        Column("BY", "approved_by", worth=60),
        Column("UNTIL", _until),
    ),
)


def _revoke(runner: Runner, sticky_id: str, as_json: bool) -> int:
    ended = runner.journal.stores.sticky_approvals.revoke(runner.settings.local_principal, sticky_id, by="terminal")
    if as_json:
        print_json(ended, lines=True)
    else:
        click.echo(visible(sticky_line(ended)))
    return 0


# --- which question -------------------------------------------------------------------------------


def _asked(handle: RunHandle, approval_id: str | None) -> list[dict[str, Any]]:
    questions = [question for question in handle.approvals() if approval_id in (None, question["approval_id"])]
    if not questions and approval_id is not None:
        raise ApprovalUnknown(approval_id=approval_id[:80])
    return questions


def _only(handle: RunHandle) -> dict[str, Any]:
    questions = handle.approvals()
    if not questions:  # another person may have answered in the meantime
        raise handle.last_decided() or ApprovalOver(f"{handle.run_id} has no open question; it is {handle.status()}.")
    if len(questions) > 1:
        listing = _listed(handle.run_id, questions)
        raise click.UsageError(f"{handle.run_id} has {len(questions)} open questions; name one:\n{listing}")
    return questions[0]


def _listed(run_id: str, questions: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    for question, command in zip(questions, answer_commands(run_id, questions), strict=True):
        parts += [*question_lines(question), f"  {command}", ""]
    parts += _together(run_id, questions)
    return visible("\n".join(parts).rstrip())


def _together(run_id: str, questions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines that say how to decide about several calls at once: all of the run, or those of one tool."""
    names = Counter(question["name"] for question in open_calls(questions))
    commands = [(f"all {names.total()} calls", f"./callboard approve {run_id} --all")] if names.total() > 1 else []
    if len(names) > 1:
        commands += [(f"{n} of {name}", f"{commands[0][1]} --tool {name}") for name, n in names.items() if n > 1]
    return [f"{what} together: {command}" for what, command in commands]


# --- asking ---------------------------------------------------------------------------------------


def _ask_person(run_id: str, questions: Sequence[Mapping[str, Any]], parts: Mapping[str, Any]) -> Decision | None:
    """Show the question and return the answer typed at the terminal; None if the user postpones it."""
    if not questions:
        raise ApprovalOver(f"{run_id} has no open question; `./callboard runs --why` says what runs wait for.")
    if len(questions) > 1 or not (sys.stdin.isatty() and sys.stderr.isatty()):
        click.echo(_listed(run_id, questions))
        what = "a decision" if len(questions) == 1 else "one of these questions"
        raise click.UsageError(f"nothing was decided; name {what}, as shown above.")
    (question,) = questions
    for line in question_lines(question):
        click.echo(visible(line), err=True)
    answer = typed_answer(question, parts)
    if answer is None:
        click.echo("Nothing was decided; the run keeps waiting.", err=True)
    return answer


NO_PARTS: Mapping[str, Any] = dict.fromkeys(("result", "arguments", "message", "scope", "scope_s"))
"""What an answer has besides its decision, where no option says any of it."""


def typed_answer(question: Mapping[str, Any], parts: Mapping[str, Any] = NO_PARTS) -> Decision | None:
    """Return the answer to a question, which the user types at the terminal; None if the user postpones it."""
    chosen = choose({decision: meaning_of(question, decision) for decision in question["decisions"]})
    if chosen is None:
        return None
    result = parts["result"]
    if chosen == "take_as_done" and result is None:
        result = _result(prompt("What did the call return? JSON or text, Enter for nothing") or None)
    if chosen == "answer":
        result = _filled_in(question["input_schema"] or {})
    arguments = parts["arguments"] if chosen == "approve" else None
    scope = {name: parts[name] for name in ("scope", "scope_s")} if chosen == "approve" else {}
    return Decision(decision=chosen, result=result, arguments=arguments, message=parts["message"], **scope)


def _filled_in(form: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for each field of a form at the terminal until what was typed fits the form, and return it."""
    typed: dict[str, str] = {}
    while True:
        for field in fields_of(form):
            text = f"{field.label} ({field.kind}{'' if field.is_required else '; optional'})"
            typed[field.name] = str(click.prompt(visible(text), default=typed.get(field.name, ""), err=True))
        values = {
            field.name: field.value(typed[field.name])
            for field in fields_of(form)
            if typed[field.name] or field.is_required
        }
        problems = schema_errors(form, values)
        if not problems:
            return values
        click.echo(visible(f"This does not fit: {'; '.join(problems)}."), err=True)


# --- answering ------------------------------------------------------------------------------------


def _decide(runner: Runner, handle: RunHandle, approval_id: str | None, answer: Decision, as_json: bool) -> int:
    try:
        decided = handle.decide(approval_id or _only(handle)["approval_id"], answer, by="terminal")
    except (ApprovalDecided, ApprovalOver) as error:  # valid input that came too late: not a usage error
        if as_json:
            print_json({"run_id": handle.run_id, "code": error.code, **error.facts}, lines=True)
        click.echo(visible(f"error: {error} [{error.code}]"), err=True)
        return 1
    if as_json:
        ids = {"run_id": decided.written.run_id, "approval_id": decided.approval_id}
        facts = {"decision": decided.decision, "by": decided.by, "status": decided.written.status}
        print_json(ids | facts, lines=True)
    else:
        _say(runner, handle, decided)
    return 0


def _decide_several(
    runner: Runner, handle: RunHandle, which: Selection, decision: str | None, message: str | None, as_json: bool
) -> int:
    code, status = decide_several(handle, which, decision, message, as_json)
    if status is not None and not as_json:
        _say_what_follows(runner, handle, status)
    return code


def _say(runner: Runner, handle: RunHandle, decided: Decided) -> None:
    click.echo(f"decided: {label(decided.decision)}.")
    _say_what_follows(runner, handle, decided.written.status, ends=decided.decision == "fail")


def _say_what_follows(runner: Runner, handle: RunHandle, status: str, *, ends: bool = False) -> None:
    if status == "waiting":
        remaining = len(handle.approvals())
        click.echo(f"{handle.run_id} has {remaining} more open: ./callboard approve {handle.run_id}")
    else:
        what = "ends" if ends else "continues"
        click.echo(f"{handle.run_id} {what}; ./callboard watch {handle.run_id} shows how.")
        if not runner.journal.stores.workers.alive():
            consequence = "the run waits for one, unless the process that executed it is alive"  # such as `mcp serve`
            warn_of_no_worker(runner.settings.state, consequence)


def _result(text: str | None) -> Any:
    """Return the typed text decoded as JSON; the text itself if it is not JSON."""
    if text is None:
        return None
    if len(_whole(text, "--result").encode()) > Decision.MAX_RESULT_BYTES:
        raise click.UsageError(f"the result is longer than {Decision.MAX_RESULT_BYTES:,} bytes; shorten it.")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _arguments(text: str | None, option: str = "--arguments") -> dict[str, Any] | None:
    """Return the typed arguments, or the typed answer.

    Raises:
        UsageError: they are not a JSON object, or too long.
    """
    if text is None:
        return None
    if len(_whole(text, option).encode()) > Decision.MAX_RESULT_BYTES:
        raise click.UsageError(f"{option} is longer than {Decision.MAX_RESULT_BYTES:,} bytes; shorten it.")
    try:
        return parse_arguments(text)
    except ArgumentsInvalid as error:
        raise click.UsageError(f"{option}: {error}") from error


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return seconds_of(text)
    except BadRequest as error:
        raise click.UsageError(f"--for: {error}") from error


def _message(text: str | None) -> str | None:
    if text is not None and len(_whole(text, "--message")) > Decision.MAX_MESSAGE_CHARS:
        raise click.UsageError(f"the message is longer than {Decision.MAX_MESSAGE_CHARS:,} characters.")
    return text or None


def _whole(text: str, what: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise click.UsageError(f"{what} is not text in UTF-8.") from error
    return text
