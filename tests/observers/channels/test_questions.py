"""Who may press a button, and what the server gets then; the client is the real one, without sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from callboard_client import ApprovalEvent, AsyncCallboard, event_of
from observers.channels.channel import ChannelLimits, Form, Press
from observers.channels.people import People, Speaker
from observers.channels.posts import Outlets, Tasks
from observers.channels.questions import Questions, asked
from observers.channels.records import Records, Talk
from tests.observers.channels.test_posts import MemoryChannel

ANA, BEN, CY, STRANGER = "1", "2", "3", "4"
CALL = {"name": "pay", "call_id": "c1", "arguments": {"sum": 7}, "digest": "d" * 64, "decisions": ["approve", "reject"]}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
LIMITS = ChannelLimits(max_chars=1990, edit_interval_s=0.02, window_s=0.1)
Use = Callable[[Questions, MemoryChannel], Coroutine[Any, Any, None]]


class Server:
    """What a client of Callboard sends, each with the key it came with, and the answers."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.refusal: dict[str, Any] | None = None
        self.principal: str | None = None
        """Whose each key is; None: that of its name."""

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        principal = request.headers["authorization"].removeprefix("Bearer key-of-")
        if request.url.path == "/v1/me":
            return httpx.Response(200, json={"principal": self.principal or principal, "tenant": "default"})
        if request.method == "GET":
            return httpx.Response(200, json={"run_id": "run_1", "thread_id": "t", "agent": "a", "status": "waiting"})
        self.sent.append((principal, json.loads(request.content)))
        if self.refusal is not None:
            return httpx.Response(409, json=self.refusal)
        answer = {"run_id": "run_1", "approval_id": "q", "decision": "approve", "by": principal, "status": "queued"}
        return httpx.Response(200, json=answer)


def ask(folder: Path, server: Server, use: Use, **fields: Any) -> MemoryChannel:
    """Ask Ana a question of her run, and use the questions."""

    def speaker(name: str, decides: str) -> Speaker:
        client = httpx.AsyncClient(transport=httpx.MockTransport(server))
        callboard = AsyncCallboard("http://callboard", f"key-of-{name}", http_client=client)
        return Speaker(principal=name, callboard=callboard, decides=decides, field=name)

    async def main() -> MemoryChannel:
        channel, tasks, records = MemoryChannel(limits=LIMITS), Tasks(), Records(folder / "x.db", 0.0)
        table = {ANA: speaker("ana", "own"), BEN: speaker("ben", "all"), CY: speaker("cy", "none")}
        questions = Questions(channel, People(table, None, "file"), records, Outlets(channel, tasks))
        talk = Talk(message_id="9", place="p", author_id=ANA)
        records.begin(talk, 0.0)
        questions.take(question(**fields), talk)
        while not channel.changes:
            await asyncio.sleep(0)
        await use(questions, channel)
        await tasks.close()
        records.close()
        return channel

    return asyncio.run(main())


def question(**fields: Any) -> ApprovalEvent:
    event = event_of({"type": "approval", "seq": 1, "run_id": "run_1", "approval_id": "q", **CALL, **fields})
    assert isinstance(event, ApprovalEvent)
    return event


def token_of(channel: MemoryChannel, label: str = "Approve") -> str:
    [button] = [button for button in channel.changes[0][2] if button.label == label]
    return button.token


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        (ANA, None),
        (BEN, None),
        (CY, "You may talk here, and answer no questions."),
        (STRANGER, "You are not among the persons who may answer here."),
    ],
)
def test_a_press_is_decided_with_the_key_of_who_pressed(tmp_path: Path, user: str, sentence: str | None) -> None:
    server = Server()

    async def use(questions: Questions, channel: MemoryChannel) -> None:
        assert await questions.press(Press(user_id=user, token=token_of(channel))) == sentence

    ask(tmp_path, server, use)

    principal = {ANA: "ana", BEN: "ben"}.get(user)
    assert server.sent == ([(principal, {"decision": "approve", "digest": "d" * 64})] if principal else [])


def test_a_question_of_another_person_is_not_for_one_who_decides_her_own(tmp_path: Path) -> None:
    server = Server()

    async def use(questions: Questions, channel: MemoryChannel) -> None:
        talk = Talk(message_id="8", place="p", author_id=BEN)
        questions.take(question(approval_id="q2"), talk)
        while len(channel.changes) < 2:
            await asyncio.sleep(0)
        press = Press(user_id=ANA, token=channel.changes[1][2][0].token)
        assert await questions.press(press) == "This question is for the person who started the run."

    ask(tmp_path, server, use)

    assert server.sent == []


def test_two_presses_at_once_and_presses_after_the_answer_send_nothing(tmp_path: Path) -> None:
    server = Server()

    async def use(questions: Questions, channel: MemoryChannel) -> None:
        press = Press(user_id=ANA, token=token_of(channel))
        answers = await asyncio.gather(questions.press(press), questions.press(press))
        assert list(answers) == [None, "An answer to this question is on its way."]
        assert await questions.press(press) == "Your answer has been taken."
        questions.take(question(decision="approve", by="ana"), Talk(message_id="9", place="p", author_id=ANA))
        assert await questions.press(press) == "This question takes no answer any more."
        while len(channel.changes) < 2:
            await asyncio.sleep(0.001)
        assert channel.changes[1] == ("m1", "ana answered `pay`: **approve**", ())

    ask(tmp_path, server, use)

    assert len(server.sent) == 1


def test_tokens_that_no_button_has_are_refused(tmp_path: Path) -> None:
    server = Server()

    async def use(questions: Questions, channel: MemoryChannel) -> None:
        token = token_of(channel).partition(":")[0]
        for each in ("", ":", "x:approve", f"{token}:", f"{token}:take_as_done", f"{token}x:approve", "%:approve"):
            assert await questions.press(Press(user_id=ANA, token=each)) == "This question takes no answer any more."

    ask(tmp_path, server, use)

    assert server.sent == []


def test_a_key_of_another_principal_is_not_used(tmp_path: Path) -> None:
    server = Server()
    server.principal = "zoe"

    async def use(questions: Questions, channel: MemoryChannel) -> None:
        press = Press(user_id=ANA, token=token_of(channel))
        assert await questions.press(press) == "My configuration is wrong. Ask my operator."

    ask(tmp_path, server, use)

    assert server.sent == []


def test_what_the_server_refuses_is_a_sentence_and_the_question_stays(tmp_path: Path) -> None:
    server = Server()
    server.refusal = {"code": "arguments_differ", "detail": "the call is another one.", "retryable": False}

    async def use(questions: Questions, channel: MemoryChannel) -> None:
        press = Press(user_id=ANA, token=token_of(channel))
        assert await questions.press(press) == "the call is another one. (arguments_differ)"
        server.refusal = None
        assert await questions.press(press) is None

    ask(tmp_path, server, use)


def test_an_answer_opens_its_form_first(tmp_path: Path) -> None:
    server = Server()

    async def use(questions: Questions, channel: MemoryChannel) -> None:
        token = token_of(channel, "Answer")
        form = await questions.press(Press(user_id=ANA, token=token))
        assert isinstance(form, Form)
        assert isinstance(await questions.press(Press(user_id=STRANGER, token=token, values={"name": "x"})), str)
        assert await questions.press(Press(user_id=ANA, token=form.token, values={"name": "Ada"})) is None

    ask(tmp_path, server, use, form=FORM, decisions=["answer", "reject"], arguments=None)

    assert server.sent == [("ana", {"decision": "answer", "digest": "d" * 64, "result": {"name": "Ada"}})]


@pytest.mark.parametrize(
    "fields", [{"arguments": {"text": "x" * 2000}}, {"form": {"type": "array"}, "decisions": ["answer"]}]
)
def test_what_cannot_be_shown_whole_has_no_buttons(tmp_path: Path, fields: dict[str, Any]) -> None:
    async def use(questions: Questions, channel: MemoryChannel) -> None:
        pass

    channel = ask(tmp_path, Server(), use, **fields)

    _, text, buttons = channel.changes[0]
    assert text.endswith("Answer it on the page, or with `callboard approve run_1`.")
    assert buttons == ()


def test_nothing_of_a_call_is_hidden() -> None:
    text = asked(question(arguments={"to": "a\u202eb", "note": "```\nok"}), is_answerable=True)

    assert "⟨U+202E⟩" in text
    assert text.count("```") == 2
    assert "\\u0060\\u0060\\u0060" in text
