"""An approval on a terminal: the exact call, the reason, the deadline, and the command that answers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import orjson

from bus.payloads import ApprovalPayload
from cli.output.form import fields_of
from config.effects import GATE

MEANINGS = {
    "approve": "The call is made with exactly these arguments.",
    "reject": "The call is not made, and the agent is informed.",
    "answer": "You fill in the fields above, and the agent continues with them.",
    "run_again": "The call is made once more. If it took effect before, it takes effect twice.",
    "take_as_done": "The call is not made again; the agent continues with the result you give, if you give one.",
    "fail": "Nothing more is done; the run ends as failed.",
}
OF_GATE = {
    "approve": "The workflow continues.",
    "reject": "The node fails, and with it the run, unless the workflow continues otherwise.",
}
"""What the decisions about an APPROVAL_GATE mean."""
EXPIRIES = {
    "fail": "the run fails",
    "reject": "the call is rejected",
    "take_default": "the call is not made and gets its default result",
}
"""What is done without an answer."""
EFFECTS = {
    "pure": "pure: it changes nothing.",
    "idempotent": "idempotent: made twice, it takes effect once.",
    "keyed": "keyed: made twice, it takes effect once.",
    "checkable": "checkable: it can be found out whether it took effect.",
    "unsafe": "unsafe: made twice, it takes effect twice.",
}
"""What an effect class means to who decides."""
INDENT = "    "
MAX_LINE_CHARS = 80


def of_payload(payload: ApprovalPayload) -> Mapping[str, Any]:
    """Return an approval event in the form of the list of open questions."""
    names = (
        "approval_id",
        "name",
        "arguments",
        "decisions",
        "reason",
        "expires_at",
        "on_expiry",
        "approvers",
        "approved_by",
        "scopes",
        "scope_s",
    )
    return {name: getattr(payload, name) for name in names} | {"input_schema": payload.form or payload.input_schema}


def sentence_of(question: Mapping[str, Any]) -> str:
    """Return what a question asks in its tool's words, as the page does; empty of a tool without a title."""
    if question.get("name") == GATE:
        return str((question.get("arguments") or {}).get("message") or "May the workflow continue?")
    sentence, decisions = question.get("sentence"), question.get("decisions") or ()
    if not sentence or "answer" in decisions:
        return ""
    return f"Did this take effect: {sentence}?" if "run_again" in decisions else f"{sentence}?"


def question_lines(question: Mapping[str, Any]) -> list[str]:
    """Return a question's lines with the whole call, since the answer applies to exactly this call."""
    reason = question.get("reason") or "A decision is needed."
    schema, arguments = question.get("input_schema") or {}, question.get("arguments") or {}
    if question.get("name") == GATE:
        return [sentence_of(question), *_gate_lines(reason, arguments), *_terms(question)]
    lines = [sentence] if (sentence := sentence_of(question)) else []
    lines += [f"{question.get('name') or 'the run'} asks: {reason}", *argument_lines(arguments)]
    if "answer" in (question.get("decisions") or ()):
        lines += [f"  {line}" for line in field_lines(schema)]
    else:
        lines += default_lines(schema, arguments)
        lines += [f"  {says}" for says in (schema.get("description"), effect_words(question.get("effect"))) if says]
    return lines + _terms(question)


def _gate_lines(reason: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the lines about the data with which an APPROVAL_GATE asks, and about why."""
    data = {name: value for name, value in arguments.items() if name != "message"}
    return [*(argument_lines(data) if data else ()), f"  {reason}"]


def _terms(question: Mapping[str, Any]) -> list[str]:
    """Return the lines about who has to answer, for what an answer holds, and until when."""
    lines = []
    if (question.get("approvers") or 1) > 1:
        names = ", ".join(question.get("approved_by") or ()) or "none yet"
        lines.append(
            f"  {question['approvers']} persons have to approve it, not the run's owner; approved by: {names}."
        )
    if question.get("scopes"):
        minutes = max(1, (question.get("scope_s") or 0) // 60)
        scopes = " or ".join(f"--scope {scope}" for scope in question["scopes"])
        lines.append(f"  An approval may hold for later calls too, for up to {minutes} minutes: {scopes}.")
    if until := question.get("expires_at"):
        what = EXPIRIES.get(question.get("on_expiry") or "fail", "the run continues")
        lines.append(f"  Without an answer by {until[:16].replace('T', ' ')} UTC {what}.")
    return lines


def meaning_of(question: Mapping[str, Any], decision: str) -> str:
    """Return what a decision about a question does; empty where its name says it."""
    meanings = {**MEANINGS, **OF_GATE} if question.get("name") == GATE else MEANINGS
    return meanings.get(decision, "")


def default_lines(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """Return a line for each argument that the call leaves out and the tool has a default for."""
    defaults = {
        name: field["default"]
        for name, field in (schema.get("properties") or {}).items()
        if name not in arguments and isinstance(field, Mapping) and field.get("default") is not None
    }
    return [f"{line}  (default)" for line in argument_lines(defaults)] if defaults else []


def effect_words(effect: str | None) -> str:
    """Return what repeating a call of this class would do; the page says the same."""
    return EFFECTS.get(effect or "", "")


def field_lines(form: Mapping[str, Any]) -> list[str]:
    """Return a line for each field of a form: its name, what it takes, and whether it may be left empty."""
    return [f"{field.label} ({field.kind}{'' if field.is_required else ', optional'})" for field in fields_of(form)]


def answer_commands(run_id: str, questions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the commands that answer these questions, one each.

    A pasted command asks before it decides: one that decided at once could repeat a call by accident.
    """
    several = len(questions) > 1
    return [
        f"./callboard approve {run_id}{' ' + question['approval_id'] if several else ''}  "
        f"(or with --decision {_or(question.get('decisions') or tuple(MEANINGS))})"
        for question in questions
    ]


def label(decision: str) -> str:
    """Return the display text of a decision."""
    return "fail the run" if decision == "fail" else decision.replace("_", " ")


def sticky_line(approval: Mapping[str, Any]) -> str:
    """Return a line about an approval that holds for later calls too."""
    where = f"thread {approval['thread_id']}" if approval.get("thread_id") else "all its threads"
    until = approval["expires_at"][:16].replace("T", " ")
    state = f"until {until} UTC" if approval["is_valid"] else "ended"
    whose = f"{approval['name']} of {approval['agent']}, {where}, {approval['principal']}"
    return f"{approval['sticky_id']}  {whose}: {approval['approved_by']}, {state}"


def _json(value: Any) -> str:
    """Return a value as JSON, on one line if it fits."""
    line = orjson.dumps(value).decode()
    return line if len(line) <= MAX_LINE_CHARS else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _or(words: Sequence[str]) -> str:
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def argument_lines(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each argument of a call, or more where a text has more."""
    if not arguments:
        yield f"{INDENT}without arguments"
    for name, value in arguments.items():
        text = value if isinstance(value, str) else _json(value)
        first, *rest = text.split("\n")
        yield f"{INDENT}{name}: {first}"
        yield from (f"{INDENT}{' ' * len(name)}  {line}" for line in rest)


def choose(meanings: Mapping[str, str]) -> str | None:
    """Show the decisions with what each means, and return the one typed; None where nothing is."""
    for number, (decision, meaning) in enumerate(meanings.items(), 1):
        click.echo(f"  {number}  {click.style(label(decision), bold=True)}  {meaning}", err=True)
    return _chosen(list(meanings))


def prompt(text: str) -> str:
    """Return the line typed; empty where nothing is."""
    return str(click.prompt(text, default="", show_default=False, err=True))


def _chosen(offered: Sequence[str]) -> str | None:
    while text := prompt(f"Your answer, 1 to {len(offered)}, Enter for not now"):
        for number, decision in enumerate(offered, 1):
            if text.strip().lower() in (str(number), decision, label(decision)):
                return decision
        click.echo(f"Not one of the decisions: {', '.join(offered)}.", err=True)
    return None
