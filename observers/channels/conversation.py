"""A message of a person becomes a run, and the run becomes messages: what all platforms have in common."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

import orjson

from callboard_client import (
    ApprovalEvent,
    AsyncRunHandle,
    CallboardError,
    EndEvent,
    ErrorEvent,
    Event,
    MessageEvent,
    RequestRefused,
    ResponseEvent,
    StatusEvent,
    ToolEvent,
    ToolResultEvent,
    WithdrawnEvent,
)
from config.redaction import redact
from observers.channels.channel import Channel, PersonMessage
from observers.channels.people import People, Speaker
from observers.channels.posts import Outlets, Post, Tasks
from observers.channels.questions import Questions
from observers.channels.records import Records, Talk

log = logging.getLogger(__name__)

T = TypeVar("T")
THINKING = "Thinking..."
PAUSES_S = (1.0, 3.0)
"""Between the three attempts to start a run."""
AWAY_S = 10.0
"""Between two attempts to follow a run while the server is away."""
MAX_INPUT_CHARS = 8_000
REFUSED_AGAIN_S = 3600.0
"""After which a stranger gets the sentence once more."""
MAX_STRANGERS = 1000
EVENT_CHARS = 3000
"""Of a message's text in the event about it, which may have 16 KiB."""


class AnswerText:
    """What a run's events say so far."""

    def __init__(self) -> None:
        self._pieces: list[tuple[int, str]] = []
        self._message_id: str | None = None
        self._doing = ""
        self._error: ErrorEvent | None = None
        self.end: EndEvent | None = None
        self.is_away = False

    def take(self, event: Event) -> None:
        """Add an event."""
        match event:
            case ResponseEvent(seq=seq, content=content, message_id=message_id):
                if message_id != self._message_id:
                    self._pieces, self._message_id = [], message_id
                self._pieces.append((seq, content))
                self._doing = ""
            case MessageEvent(role="assistant", seq=seq, content=str(content), message_id=message_id) if content:
                self._pieces, self._message_id = [(seq, content)], message_id
            case ToolEvent(name=name):
                self._doing = f"calling `{name[:60]}`"
            case ToolResultEvent():
                self._doing = ""
            case StatusEvent(status=status):
                self._doing = {"queued": "queued", "waiting": "waiting"}.get(status, "")
            case WithdrawnEvent(ranges=ranges):
                spans = [(first, last) for first, last in ranges]
                lost = [seq for seq, _ in self._pieces if any(first <= seq <= last for first, last in spans)]
                self._pieces = [piece for piece in self._pieces if piece[0] not in set(lost)]
            case ErrorEvent():
                self._error = event
            case EndEvent():
                self.end = event

    def text(self) -> str:
        """Return what is to be shown now; of an unfinished answer whole words, since half a secret is not noticed."""
        text = "".join(piece for _, piece in self._pieces)
        if self.end is not None:
            return self._final(self.end, text)
        whole = text[: max(text.rfind(" "), text.rfind("\n")) + 1].rstrip()
        doing = "Callboard does not answer; this continues when it does" if self.is_away else self._doing
        return "\n".join(part for part in (whole, f"-# {doing}…" if doing else "") if part) or THINKING

    def _final(self, end: EndEvent, text: str) -> str:
        if end.status == "succeeded":
            output = end.output if end.output is not None else text
            if not isinstance(output, str):
                return f"```json\n{orjson.dumps(output, option=orjson.OPT_INDENT_2).decode()}\n```"
            return output if output.strip() else "(The agent's answer is empty.)"
        if end.status == "cancelled":
            sentence = "The run was stopped."
        elif self._error is not None and end.status == "failed":
            sentence = f"The run failed: {self._error.message} (`{self._error.code}`)"
        else:
            sentence = f"The run failed (`{end.reason or end.status}`)."
        return f"{text.rstrip()}\n\n{sentence}" if text.strip() else sentence


class Conversations:
    """Answers the messages of one channel."""

    def __init__(
        self,
        channel: Channel,
        agent: str,
        *,
        people: People,
        records: Records,
        tasks: Tasks,
        outlets: Outlets,
        questions: Questions,
    ) -> None:
        self._channel, self._people, self._records, self._agent = channel, people, records, agent
        self._tasks, self._outlets, self._questions = tasks, outlets, questions
        self._refused: dict[str, float] = {}

    def receive(self, message: PersonMessage) -> None:
        """Answer a message; one that was received before is not answered again."""
        talk = Talk(message_id=message.message_id, place=message.place, author_id=message.author_id)
        if self._people.speaker(message.author_id) is None:
            if self._channel.limits.answers_strangers:
                self._refuse(talk)
        elif self._records.begin(talk, time.time()):
            self._tasks.start(self._answer(talk, message))

    def resume(self) -> None:
        """Continue each answer that an earlier process has not finished, in the messages that are there."""
        for talk in self._records.unfinished():
            self._tasks.start(self._resume(talk))

    def _refuse(self, talk: Talk) -> None:
        now = time.monotonic()
        if now < self._refused.get(talk.author_id, 0.0) or not self._records.begin(talk, time.time()):
            return
        self._refused = {author: until for author, until in self._refused.items() if until > now}
        if len(self._refused) < MAX_STRANGERS:
            self._refused[talk.author_id] = now + REFUSED_AGAIN_S
            self._tasks.start(
                self._finish(self._post(talk), talk, "I do not know you, so I cannot answer. Ask my operator.")
            )

    async def _resume(self, talk: Talk) -> None:
        questions = self._records.messages_of_questions(talk)
        replies = await self._channel.replies(talk.place, talk.message_id)
        here = [message_id for message_id in replies if message_id not in questions]
        talk.posted = talk.posted + [message_id for message_id in here if message_id not in talk.posted]
        message = None if talk.run_id else await self._channel.fetch(talk.place, talk.message_id)
        if talk.run_id is None and message is None:
            self._records.over(talk)  # the person has deleted it
            return
        await self._answer(talk, message)

    def _post(self, talk: Talk) -> Post:
        return Post(
            talk.place,
            reply_to=talk.message_id,
            key=f"{self._channel.name}-{talk.message_id}",
            posted=talk.posted,
            keep=lambda ids: self._records.posted(talk, ids),
        )

    async def _answer(self, talk: Talk, message: PersonMessage | None) -> None:
        """Bring a run's answer into the place of the message; ``message``: it is to start the run."""
        post, person = self._post(talk), self._people.speaker(talk.author_id)
        if person is None:
            await self._finish(post, talk, "You may not talk here any more.")
            return
        if message is not None:
            handle = await self._start(post, talk, person, message)
        else:
            handle = await self._attempted(post, talk, lambda: person.callboard.handle(talk.run_id or ""))
        if handle is not None:
            await self._follow(handle, post, talk)

    async def _start(self, post: Post, talk: Talk, person: Speaker, message: PersonMessage) -> AsyncRunHandle | None:
        """Start the run of a message. Its id is the idempotency key, so a message has one run.

        None: there is none, and a sentence says why.
        """
        text = input_of(message)
        if not text:
            await self._finish(post, talk, "Your message has no text that I can read.")
            return None
        self._grow(post, lambda: THINKING)
        correlation = f"{self._channel.name}-{message.message_id}"
        self._tasks.start(self._log_event(person, message, correlation))

        async def start() -> AsyncRunHandle:
            await self._people.compare(person)
            return await person.callboard.run(
                self._agent,
                text,
                thread_id=f"{self._channel.name}-{self._channel.account}-{message.place}",
                metadata={"correlation_id": correlation, "channel": self._channel.name},
                if_busy="enqueue",
                idempotency_key=f"{self._channel.account}-{correlation}",
            )

        handle = await self._attempted(post, talk, start)
        if handle is not None:
            self._records.started(talk, handle.run_id)
        return handle

    async def _log_event(self, person: Speaker, message: PersonMessage, correlation: str) -> None:
        """Log the message as an internal event. No answer waits for that, and without it there is a warning."""
        payload = {
            "place": message.place,
            "author": message.author_id,
            "content": redact(message.text[:EVENT_CHARS]),
            "attachments": [name[:200] for name in message.attachments[:10]],
        }
        try:
            await self._people.compare(person)
            await person.callboard.log_event(
                correlation, "message.created", self._channel.name, payload, idempotency_key=correlation
            )
        except Exception as error:
            log.warning("a message was not logged", extra={"correlation_id": correlation, "problem": str(error)})

    async def _attempted(self, post: Post, talk: Talk, request: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of a request that is made three times at most; None: a sentence says why there is none."""
        for pause_s in (*PAUSES_S, None):
            try:
                return await request()
            except RequestRefused as error:
                problem = f"I cannot answer: {error.detail} (`{error.code}`)"
                if not error.retryable:
                    break
            except CallboardError:
                problem = "I cannot answer: Callboard does not answer. Write again in a few minutes. (`unreachable`)"
            except Exception as error:  # a key that is another principal's
                log.error("a run was not started", exc_info=error)
                problem = "I cannot answer: my configuration is wrong. Ask my operator."
                break
            if pause_s is not None:
                await asyncio.sleep(pause_s)
        log.warning("a message has no answer", extra={"place": talk.place, "problem": problem})
        await self._finish(post, talk, problem)
        return None

    async def _follow(self, handle: AsyncRunHandle, post: Post, talk: Talk) -> None:
        """Show a run from its beginning to its end. A server that is away is waited for: it has the run afterwards."""
        transcript, after = AnswerText(), 0
        post.show(transcript.text)
        while transcript.end is None and not post.is_gone:
            try:
                async with aclosing(handle.events(after)) as events:
                    async for event in events:
                        after, transcript.is_away = event.seq, False
                        self._take(event, transcript, talk)
                        if transcript.end is None:
                            self._grow(post, transcript.text)
                if transcript.end is None:
                    return
            except CallboardError as error:
                if not error.retryable:
                    await self._finish(post, talk, f"I cannot follow the run {handle.run_id}: {error}")
                    return
                transcript.is_away = True
                self._grow(post, transcript.text)
                await asyncio.sleep(AWAY_S)
        self._questions.end(talk)
        await self._finish(post, talk, transcript.text())

    def _take(self, event: Event, transcript: AnswerText, talk: Talk) -> None:
        transcript.take(event)
        if isinstance(event, ApprovalEvent):
            self._questions.take(event, talk)

    def _grow(self, post: Post, text: Callable[[], str]) -> None:
        """Show what an unfinished answer says, where a later text can replace it."""
        if self._channel.limits.can_edit:
            post.show(text)
            self._outlets.update(post)

    async def _finish(self, post: Post, talk: Talk, text: str) -> None:
        post.show(lambda: text, is_urgent=True)
        self._outlets.update(post)
        await post.complete()
        for message_id in talk.posted if not post.is_gone else ():
            await self._channel.finish(talk.place, message_id)
        self._records.over(talk)


def input_of(message: PersonMessage) -> str:
    """Return what the agent gets: the text, and the names of the files, which are data."""
    text = message.text.strip()[:MAX_INPUT_CHARS]
    names = ", ".join(name[:100] for name in message.attachments[:10])
    return f"{text}\n\n(Attached, and not available: {names})".strip() if names else text
