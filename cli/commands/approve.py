"""`./callboard approve`: answer what a run asks."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
import orjson

from agents.handle import RunHandle
from agents.runner import Runner
from bus.journal import workers
from bus.journal.approvals import MAX_MESSAGE_CHARS, MAX_RESULT_BYTES, Decided, Decision
from config.errors import ApprovalDecided, ApprovalOver, ApprovalUnknown
from web.terminal import options
from web.terminal.opening import open_runner
from web.terminal.printed_json import print_json
from web.terminal.question import MEANINGS, how, told, word
from web.terminal.transcript import safe


@click.command()
@click.argument("run_id", metavar="RUN")
@click.argument("approval_id", metavar="[APPROVAL]", required=False)
@click.option("--decision", metavar="WHICH", help="run_again, take_as_done or fail; without it you are asked.")
@click.option("--result", metavar="TEXT", help="With take_as_done: what the call returned, JSON or text.")
@click.option("--message", metavar="TEXT", help="A word with it, for the log.")
@options.as_json
@options.state_dir
def approve(
    run_id: str, approval_id: str | None, decision: str | None, result: str | None, message: str | None,
    as_json: bool, **flags: object,
) -> int:  # fmt: skip
    """Answer what RUN asks. With one open question APPROVAL may be left out; the first answer counts."""
    if result is not None and decision not in (None, "take_as_done"):
        raise click.UsageError("--result goes with --decision take_as_done only.")
    given = {"result": _result(result), "message": _message(message)}
    with open_runner(**flags) as runner:
        handle = runner.handle(run_id)
        if decision is not None:
            return _decide(runner, handle, approval_id, Decision(decision=decision, **given), as_json)
        asked = _asked(handle, approval_id)
        if as_json:
            print_json(asked)
            return 0
        answer = _ask_person(run_id, asked, given)
        return 1 if answer is None else _decide(runner, handle, asked[0]["approval_id"], answer, as_json)


# --- which question -------------------------------------------------------------------------------


def _asked(handle: RunHandle, approval_id: str | None) -> list[dict[str, Any]]:
    asked = handle.approvals()
    if approval_id is None:
        return asked
    if not (these := [one for one in asked if one["approval_id"] == approval_id]):
        raise ApprovalUnknown(approval_id)
    return these


def _only(handle: RunHandle) -> dict[str, Any]:
    asked = handle.approvals()
    if not asked:  # perhaps somebody answered while this one was typing
        raise handle.last_decided() or ApprovalOver(f"{handle.run_id} asks nothing now; it is {handle.status()}.")
    if len(asked) > 1:
        raise click.UsageError(f"{handle.run_id} asks {len(asked)} things; name one:\n{_listed(handle.run_id, asked)}")
    return asked[0]


def _listed(run_id: str, asked: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    for one, command in zip(asked, how(run_id, asked), strict=True):
        parts += [*told(one), f"  {command}", ""]
    return safe("\n".join(parts).rstrip())


# --- asking ---------------------------------------------------------------------------------------


def _ask_person(run_id: str, asked: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> Decision | None:
    """Show the question and return the answer of whoever sits there, or None when they would rather not now."""
    if not asked:
        raise ApprovalOver(f"{run_id} asks nothing now; `./callboard runs --why` says what runs wait for.")
    if len(asked) > 1 or not (sys.stdin.isatty() and sys.stderr.isatty()):
        click.echo(_listed(run_id, asked))
        raise click.UsageError("nothing was decided; say what, as shown above." if len(asked) == 1 else
                               "nothing was decided; name one of these questions, as shown above.")  # fmt: skip
    (one,) = asked
    for line in told(one):
        click.echo(safe(line), err=True)
    offered = list(one["decisions"])
    for number, decision in enumerate(offered, 1):
        click.echo(f"  {number}  {click.style(word(decision), bold=True)}  {MEANINGS.get(decision, '')}", err=True)
    chosen = _chosen(offered)
    if chosen is None:
        click.echo("Nothing was decided; the run waits on.", err=True)
        return None
    result = given["result"]
    if chosen == "take_as_done" and result is None:
        result = _result(_prompt("What did the call return? JSON or text, Enter for nothing") or None)
    return Decision(decision=chosen, result=result, message=given["message"])


def _chosen(offered: Sequence[str]) -> str | None:
    while text := _prompt(f"Your answer, 1 to {len(offered)}, Enter for not now"):
        for number, decision in enumerate(offered, 1):
            if text.strip().lower() in (str(number), decision, word(decision)):
                return decision
        click.echo(f"That is not among them: {', '.join(offered)}.", err=True)
    return None


def _prompt(text: str) -> str:
    return str(click.prompt(text, default="", show_default=False, err=True))


# --- answering ------------------------------------------------------------------------------------


def _decide(runner: Runner, handle: RunHandle, approval_id: str | None, answer: Decision, as_json: bool) -> int:
    try:
        decided = handle.decide(approval_id or _only(handle)["approval_id"], answer, by="terminal")
    except (ApprovalDecided, ApprovalOver) as wrong:  # nothing wrong was typed: it came too late
        if as_json:
            print_json({"run_id": handle.run_id, "code": wrong.code, **wrong.facts}, lines=True)
        click.echo(safe(f"error: {wrong} [{wrong.code}]"), err=True)
        return 1
    if as_json:
        print_json(_facts(decided), lines=True)
        return 0
    _say(runner, handle, decided)
    return 0


def _facts(decided: Decided) -> dict[str, Any]:
    return {
        "run_id": decided.written.run_id, "approval_id": decided.approval_id, "decision": decided.decision,
        "by": decided.by, "status": decided.written.status,
    }  # fmt: skip


def _say(runner: Runner, handle: RunHandle, decided: Decided) -> None:
    click.echo(f"decided: {word(decided.decision)}.")
    if decided.written.status == "waiting":
        click.echo(f"{handle.run_id} still asks {len(handle.approvals())} more: ./callboard approve {handle.run_id}")
        return
    click.echo(f"{handle.run_id} {'ends' if decided.decision == 'fail' else 'goes on'}; "
               f"./callboard watch {handle.run_id} shows how.")  # fmt: skip
    with runner.journal.read() as connection:
        if not workers.alive(runner.journal.database, connection):
            click.secho("no worker is alive: that happens once there is one. Start one: ./callboard up", err=True,
                        fg="yellow")  # fmt: skip


def _result(text: str | None) -> Any:
    """Return what a person typed as the value it is: JSON where it is JSON, else the text itself."""
    if text is None:
        return None
    if len(_whole(text, "--result").encode()) > MAX_RESULT_BYTES:
        raise click.UsageError(f"the result is longer than {MAX_RESULT_BYTES:,} bytes; say what matters of it.")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _message(text: str | None) -> str | None:
    if text is not None and len(_whole(text, "--message")) > MAX_MESSAGE_CHARS:
        raise click.UsageError(f"the message is longer than {MAX_MESSAGE_CHARS:,} characters.")
    return text or None


def _whole(text: str, what: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as wrong:
        raise click.UsageError(f"{what} is not text in UTF-8.") from wrong
    return text
