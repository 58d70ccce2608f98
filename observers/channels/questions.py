"""Questions of runs to persons, as buttons and forms: each is bound to one question, one person and one use.

Who may press is decided here by the table, and by the server, which gets the answer with the key of the person that
pressed and with the digest of what that person was shown.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from textwrap import indent
from typing import Any

from callboard_client import ApprovalEvent, CallboardError, RequestRefused
from config.errors import Permanent
from config.text.names import counted_names
from config.text.visible import visible
from observers.channels.channel import AnswerField, Button, Channel, Form, Press, place_of_person
from observers.channels.people import People, Speaker
from observers.channels.posts import Outlets, Post
from observers.channels.records import OpenQuestion, Records, Talk

log = logging.getLogger(__name__)

ASKS = "The agent asks for your decision."
MAX_ARGUMENTS_CHARS = 1200
"""Of a call's arguments that a question shows; one that does not fit cannot be approved here."""
LINK_AGAIN_S = 10.0
"""Between two attempts to make a link while the server is away."""
OVER = "This question takes no answer any more."
FIRST = "Your approval counts; the run waits for another answer."
LABELS = {
    "approve": "Approve",
    "reject": "Reject",
    "answer": "Answer",
    "run_again": "Run again",
    "fail": "Fail",
}
"""The answers that a button gives; ``take_as_done`` needs a result, which the page and the terminal take."""
STYLES: Mapping[str, Any] = {"approve": "good", "answer": "good", "run_again": "plain", "reject": "bad", "fail": "bad"}


class Questions:
    """The questions of a channel."""

    def __init__(self, channel: Channel, people: People, records: Records, outlets: Outlets) -> None:
        self._channel, self._people, self._records, self._outlets = channel, people, records, outlets
        self._posts: dict[str, Post] = {}
        self._deciding: set[str] = set()
        self._asking: set[str] = set()
        self._taken: set[tuple[str, str]] = set()
        """Who has answered which open question: the token, and the person's id."""

    def take(self, event: ApprovalEvent, talk: Talk) -> None:
        """Ask a person what the event asks, or show its answer and take the buttons away. Twice is as once."""
        question = self._records.ask(
            OpenQuestion(
                token=secrets.token_hex(12),
                run_id=event.run_id,
                approval_id=event.approval_id,
                asker=talk.author_id,
                digest=event.digest,
                form=_form_of(event),
            ),
            talk,
        )
        if question.is_closed:
            return
        if not self._channel.limits.has_buttons:
            self._take_for_links(event, question, talk)
            return
        if event.decision is None:
            buttons = self._buttons(event, question)
            self._show(question, talk, lambda: asked(event, is_answerable=bool(buttons)), buttons)
            return
        self._records.close_question(question)
        self._show(question, talk, lambda: answered(event), ())

    def end(self, talk: Talk) -> None:
        """Take the buttons of all open questions of a run away, which has ended."""
        for question in self._records.open_questions(talk):
            self._records.close_question(question)
            if self._channel.limits.has_buttons:
                self._show(question, talk, lambda: OVER, ())

    def _take_for_links(self, event: ApprovalEvent, question: OpenQuestion, talk: Talk) -> None:
        if event.decision is not None:
            self._records.close_question(question)
            return
        for person_id, person in self._people.deciders(talk.author_id):
            name = f"asked-{question.token}-{person_id}"
            if name not in self._asking and self._records.noted(name) is None:
                self._asking.add(name)
                self._outlets.start(self._ask_by_link(event, question, talk, person_id, person))

    async def _ask_by_link(
        self, event: ApprovalEvent, question: OpenQuestion, talk: Talk, person_id: str, person: Speaker
    ) -> None:
        """Send one person a question with a link that this person alone can use, once."""
        link = await self._link(event, person)
        current = self._records.question(question.token)
        is_asker = person_id == talk.author_id
        if current is None or current.is_closed or (link is None and not is_asker):
            return  # it was answered meanwhile, or is not for this person
        name = f"asked-{question.token}-{person_id}"
        post = Post(
            talk.place if is_asker else place_of_person(talk.place, person_id),
            reply_to=talk.message_id,
            key=name,
            keep=lambda ids: self._records.note(name, ids[-1], time.time()),
        )
        post.show(lambda: asked_by_link(event, link), is_urgent=True)
        self._outlets.update(post)

    async def _link(self, event: ApprovalEvent, person: Speaker) -> str | None:
        """Return a link to a question; None: the server does not let this person answer it."""
        while True:
            try:
                await self._people.compare(person)
                handle = await person.callboard.handle(event.run_id)
                return (await handle.link(event.approval_id, person.principal)).url
            except CallboardError as error:
                if isinstance(error, RequestRefused) and not error.retryable:
                    return None
                log.warning("a link to a question was not made yet", extra={"problem": str(error)})
                await asyncio.sleep(LINK_AGAIN_S)
            except Permanent as error:  # the key is another principal's
                log.error("a key of the table is not used", extra={"problem": str(error)})
                return None

    def _show(self, question: OpenQuestion, talk: Talk, text: Callable[[], str], buttons: Sequence[Button]) -> None:
        post = self._posts.get(question.token)
        if post is None:
            post = self._posts[question.token] = Post(
                talk.place,
                reply_to=talk.message_id,
                key=question.token,
                posted=[question.message_id] if question.message_id else [],
                keep=lambda ids: self._records.asked(question, ids[-1]),
            )
        post.show(text, buttons, is_urgent=True)
        self._outlets.update(post)
        if question.is_closed:
            del self._posts[question.token]
            self._taken = {pair for pair in self._taken if pair[0] != question.token}

    def _buttons(self, event: ApprovalEvent, question: OpenQuestion) -> list[Button]:
        if event.form is not None and self._form(question) is None:
            return []
        if len(_arguments(event)) > MAX_ARGUMENTS_CHARS:
            return []
        return [
            Button(label=LABELS[decision], token=f"{question.token}:{decision}", style=STYLES[decision])
            for decision in event.decisions or ()
            if decision in LABELS
        ]

    async def press(self, press: Press) -> str | Form | None:
        """Give the server a person's answer. Return a sentence for this person alone, a form, or nothing."""
        token, _, decision = press.token.partition(":")
        question = self._records.question(token)
        if question is None or question.is_closed or decision not in LABELS:
            return OVER
        person = self._people.known(press.user_id)
        problem = _refusal(person, press.user_id, question)
        if person is None or problem is not None:
            return problem
        if decision == "answer" and press.values is None:
            return self._form(question) or OVER
        if token in self._deciding:
            return "An answer to this question is on its way."
        if (token, press.user_id) in self._taken:
            return "Your answer has been taken."
        self._deciding.add(token)
        try:
            sentence = await self._decide(person, question, decision, press.values)
        finally:
            self._deciding.discard(token)
        if sentence in (None, FIRST):
            self._taken.add((token, press.user_id))
        return sentence

    async def _decide(
        self, person: Speaker, question: OpenQuestion, decision: str, values: Mapping[str, str] | None
    ) -> str | None:
        try:
            result = None if values is None else filled_in(question.form or {}, values)
        except ValueError as error:
            return str(error)
        try:
            await self._people.compare(person)
            handle = await person.callboard.handle(question.run_id)
            decided = await handle.decide(question.approval_id, decision, result=result, digest=question.digest)
        except RequestRefused as error:
            return f"{error.detail} ({error.code})"
        except CallboardError as error:
            return f"Your answer could not be delivered; press again. ({error})"
        except Permanent as error:  # the key is another principal's
            log.error("a key of the table is not used", extra={"problem": str(error)})
            return "My configuration is wrong. Ask my operator."
        if decided.status == "waiting" and decision == "approve":
            return FIRST
        return None

    def _form(self, question: OpenQuestion) -> Form | None:
        """Return the form of a question; None where the platform cannot show it."""
        fields = fields_of(question.form or {})
        if not fields or len(fields) > self._channel.limits.form_fields:
            return None
        return Form(title="Your answer", token=f"{question.token}:answer", fields=fields)


def _refusal(person: Speaker | None, user_id: str, question: OpenQuestion) -> str | None:
    """Return why this person may not answer; None where it may."""
    if person is None:
        return "You are not among the persons who may answer here."
    if person.decides == "none":
        return "You may talk here, and answer no questions."
    if person.decides == "own" and user_id != question.asker:
        return "This question is for the person who started the run."
    return None


def _form_of(event: ApprovalEvent) -> dict[str, Any] | None:
    return None if event.form is None else dict(event.form)


def _arguments(event: ApprovalEvent) -> str:
    """Return the call's arguments as JSON in which nothing is hidden and no block of code ends."""
    if event.arguments is None:
        return ""
    return visible(json.dumps(event.arguments, ensure_ascii=False, indent=1)).replace("`", "\\u0060")


def asked(event: ApprovalEvent, *, is_answerable: bool) -> str:
    """Return a question as it is shown above its buttons."""
    lines = [f"**{event.reason or ASKS}**"]
    arguments = _arguments(event)
    if event.name and arguments:
        lines.append(f"`{event.name}`\n```json\n{arguments[:MAX_ARGUMENTS_CHARS]}\n```")
    lines += _approvals(event)
    if not is_answerable:
        lines.append(f"Answer it on the page, or with `callboard approve {event.run_id}`.")
    return "\n".join(lines)


def asked_by_link(event: ApprovalEvent, link: str | None) -> str:
    """Return a question as plain text, with the link by which one person answers it; None: that person has none."""
    parts = [event.reason or ASKS]
    if event.name and (arguments := _arguments(event)):
        parts.append(f"{event.name}\n{indent(arguments[:MAX_ARGUMENTS_CHARS], '    ')}")
    parts += _approvals(event)
    if link is not None:
        parts.append(f"Answer it here, once: {link}\nAn answer to this message does not answer the question.")
    else:
        parts.append(f"Answer it on the page, or with: callboard approve {event.run_id}")
    return "\n\n".join(parts)


def _approvals(event: ApprovalEvent) -> list[str]:
    if (event.approvers or 1) <= 1:
        return []
    by = f": {', '.join(counted_names(event.approved_by))}" if event.approved_by else ""
    return [f"{len(event.approved_by or ())} of {event.approvers} approvals{by}"]


def answered(event: ApprovalEvent) -> str:
    """Return a question as it is shown after its answer."""
    call = f" `{event.name}`" if event.name else ""
    return f"{event.by or 'Callboard'} answered{call}: **{event.decision}**"


def fields_of(schema: Mapping[str, Any]) -> list[AnswerField]:
    """Return the fields of a form; none where one is not a text, a number, a choice or a yes or no."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        return []
    fields = []
    for name, field in properties.items():
        if not isinstance(field, dict):
            return []
        options = ["true", "false"] if field.get("type") == "boolean" else field.get("enum", [])
        if not all(isinstance(option, str) for option in options) or len(options) > 25:
            return []
        if not options and field.get("type") not in ("string", "integer", "number"):
            return []
        default = field.get("default")
        fields.append(
            AnswerField(
                name=name,
                label=str(field.get("title") or name),
                options=options,
                required=name in schema.get("required", ()),
                default=None if default is None else json.dumps(default) if not isinstance(default, str) else default,
            )
        )
    return fields


def filled_in(schema: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """Return the texts of a form as the data that the schema wants; the server checks them.

    Raises:
        ValueError: a sentence for the person.
    """
    data: dict[str, Any] = {}
    for name, field in (schema.get("properties") or {}).items():
        text = values.get(name, "").strip()
        if not text:
            continue
        data[name] = _value_of(field.get("type"), text, str(field.get("title") or name))
    return data


def _value_of(kind: object, text: str, label: str) -> Any:
    try:
        match kind:
            case "integer":
                return int(text)
            case "number":
                return float(text)
            case "boolean":
                return text == "true"
            case _:
                return text
    except ValueError:
        raise ValueError(f"{label[:80]}: '{text[:80]}' is not a number; press the button again.") from None
