"""No secret and nothing that is blocked gets into a run's events or rows, from a client, a tool or a model."""

from __future__ import annotations

import logging
import re
import time
from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import select

from agents.governance.guardrails.errors import INPUT_BLOCKED
from agents.handle import RunHandle
from agents.testing import AgentKit, Call, Turn
from agents.tools.call_context import current_call
from agents.tools.tool import tool
from bus.journal.approvals import Decision
from bus.journal.clients import IdempotencyKey
from bus.payloads import ApprovalPayload, ErrorPayload, MessagePayload, ToolPayload, ToolResultPayload, encode
from config.database.tables import metadata
from config.errors import BadRequest, ToolFailed
from config.logs import JsonLines, TextLines
from config.redaction import REDACTED, register_secrets
from tests.agents.governance.guardrails.samples import JWT, KEYS, PEM
from tests.raising import raises

KEY = KEYS[0]
OWN = "the-own-secret-77"
CARD = "4111 1111 1111 1111"
sent: list[str] = []


@tool(effect="pure")
def post(text: str) -> dict[str, Any]:
    """Post a text.

    Args:
        text: what to post.
    """
    sent.append(text)
    return {"posted": text, "password": "hunter2222", "headers": [f"Authorization: Bearer {JWT}"], KEY: 1}


@tool(effect="pure")
def broken() -> str:
    """Fail."""
    raise ToolFailed(f"no luck with {KEY}")


@tool(effect="pure", secrets={"TOKEN": "env:TILL_TOKEN"})
def till(way: str) -> Any:
    """Open the till.

    Args:
        way: what to do with its token.
    """
    token = current_call().secret("TOKEN")
    sent.append(token)
    if way == "raise":
        raise ValueError(f"cannot use {token}: {current_call()!r}")
    if way == "log":
        logging.getLogger("till").error("used %s", token, exc_info=ValueError(token), extra={"token_used": token})
    return {"said": token, "quoted": quote(token, safe=""), "base64": b64encode(token.encode()).decode()}


@tool(effect="unsafe", confirm=True)
def order(item: str) -> str:
    """Order something.

    Args:
        item: what to order.
    """
    sent.append(item)
    return item


@pytest.fixture(autouse=True)
def own_secret() -> None:
    sent.clear()
    register_secrets([OWN])


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    with AgentKit(tools=[post, broken, till]) as agent_kit:
        yield agent_kit


def written(kit: AgentKit) -> str:
    """Return everything that is in the database."""
    with kit.runner.journal.database.read() as connection:
        tables = metadata.sorted_tables
        return "\n".join(str(row) for table in tables for row in connection.execute(select(table)))


def shown(played: Any) -> str:
    return "\n".join(encode(event, "", "").decode() for event in played.events)


def test_a_secret_in_the_input_is_neither_stored_nor_sent_to_the_model(kit: AgentKit) -> None:
    kit.model.script(Turn(text="Thanks."))

    played = kit.play(f"My key is {KEY}\n{PEM}", metadata={"note": f"see {OWN}", "password": "hunter2222"})

    everything = written(kit) + shown(played) + str(kit.model.requests[0].messages)
    assert f"My key is {REDACTED}" in everything
    for secret in (KEY, PEM[40:60], OWN, "hunter2222"):
        assert secret not in everything


@pytest.mark.parity
@pytest.mark.parametrize("secret", [KEY, JWT, PEM, OWN])
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_secret_in_an_answer_is_neither_streamed_nor_stored(kit: AgentKit, secret: str, size: int) -> None:
    text = f"It is {secret} and so on."
    kit.model.script(Turn(text=[text[at : at + size] for at in range(0, len(text), size)], reasoning=[f"Hm {secret}"]))

    played = kit.play()

    assert secret[8:] not in written(kit) + shown(played)
    assert played.output == played.text == f"It is {REDACTED} and so on."


def test_a_call_with_a_secret_is_refused_and_recorded_without_it(kit: AgentKit) -> None:
    calls = [Call(name="post", arguments={"text": f"x {secret}"}) for secret in (KEY, OWN)]
    kit.model.script(Turn(calls=calls), Turn(text="Well."))

    played = kit.play()

    assert sent == []
    assert [event.outcome for event in played.of(ToolResultPayload)] == ["failed", "failed"]
    assert [event.arguments for event in played.of(ToolPayload) if event.arguments] == [{"text": f"x {REDACTED}"}] * 2
    assert KEY not in written(kit) + shown(played)
    assert OWN not in written(kit) + shown(played)


def test_program_texts_pass_as_they_are(kit: AgentKit) -> None:
    text = "client.login(user, password=os.environ['PASSWORD'])"
    kit.model.script(Turn(calls=[Call(name="post", arguments={"text": text})]), Turn(text="Done."))

    kit.play()

    assert sent == [text]


def test_an_agent_may_write_keys_on_purpose_but_never_those_of_the_deployment(kit: AgentKit) -> None:
    kit.agent(tools=[post], guardrails={"arguments": "pass"})
    calls = [Call(name="post", arguments={"text": secret}) for secret in (KEY, OWN)]
    kit.model.script(Turn(calls=calls), Turn(text="Done."))

    kit.play()

    assert sent == [KEY]
    assert OWN not in written(kit)


def test_a_result_is_recorded_and_given_to_the_model_without_secrets(kit: AgentKit) -> None:
    kit.model.script(Turn(calls=[Call(name="post", arguments={"text": "hello"})]), Turn(text="Done."))

    played = kit.play()

    (result,) = played.results("post")
    assert (result["posted"], result["password"], result[REDACTED]) == ("hello", REDACTED, 1)
    for secret in (JWT, "hunter2222", KEY):
        assert secret not in written(kit) + shown(played) + str(kit.model.requests[1].messages)


def test_an_error_of_a_tool_and_the_name_of_a_tool_are_recorded_without_secrets(kit: AgentKit) -> None:
    calls = [Call(name="broken", arguments={}), Call(name=KEY, arguments={})]
    kit.model.script(Turn(calls=calls), Turn(text="Done."))

    played = kit.play()

    assert KEY not in written(kit) + shown(played)


def test_a_blocked_input_stores_nothing_and_says_why(kit: AgentKit) -> None:
    kit.agent(guardrails={"input": {"pii": "block", "pii_kinds": ["card"], "max_chars": 50}})

    for text, reason in ((f"pay with {CARD}", "blocked: card"), ("x" * 51, "blocked: longer than 50 characters")):
        with raises(INPUT_BLOCKED) as caught:
            kit.run(text)
        assert caught.value.facts["reasons"] == [reason]

    assert CARD not in written(kit)
    kit.model.script(Turn(text="Hello."))
    assert kit.play("my mail is jane@example.org").output == "Hello."


def test_a_repeated_request_gets_its_run_although_its_input_would_be_blocked_now(kit: AgentKit) -> None:
    kit.model.script(Turn(text="Hello."))
    key = IdempotencyKey(method="POST", path="/v1/runs", key="k", body_digest="d" * 64)
    first = kit.run(f"pay with {CARD} {KEY}", idempotency=key)
    first.result(10)
    again = kit.run(f"pay with {CARD} {KEY}", idempotency=key)

    kit.agent(guardrails={"input": {"pii": "block"}})

    assert kit.run(f"pay with {CARD} {KEY}", idempotency=key).run_id == again.run_id == first.run_id


def test_a_blocked_answer_fails_the_run_and_is_not_sent(kit: AgentKit) -> None:
    kit.agent(guardrails={"output": {"pii": "block", "patterns": [{"name": "ticket", "pattern": r"T-\d{4}"}]}})
    kit.model.script(Turn(text=["See T-", "1234 and ", *CARD, " or so"]))

    played = kit.play()

    assert (played.end.status, played.end.reason) == ("failed", "output_blocked")
    assert [(event.content, event.partial) for event in played.of(MessagePayload)] == [(f"See {REDACTED} and ", True)]
    group = re.compile(
        r"(?<![0-9a-f])(?:4111|1111)(?![0-9a-f])"
    )  # of the card; times and digests have such digits in them
    assert group.search(f"See {CARD}")
    assert not group.search(written(kit) + shown(played))
    assert played.of(ErrorPayload)[0].message == "the answer is blocked: blocked: card."


def test_an_answer_that_is_too_long_is_blocked(kit: AgentKit) -> None:
    kit.agent(guardrails={"output": {"max_chars": 20}})
    kit.model.script(Turn(text=["word "] * 100))

    assert kit.play().end.reason == "output_blocked"


def test_a_blocked_result_is_kept_back_as_a_whole(kit: AgentKit) -> None:
    kit.agent(tools=[post], guardrails={"output": {"pii": "block"}})
    kit.model.script(Turn(calls=[Call(name="post", arguments={"text": f"card {CARD}"})]), Turn(text="Done."))

    played = kit.play()

    assert [event.outcome for event in played.of(ToolResultPayload)] == ["failed"]
    assert "blocked: card" in played.results("post")[0]
    assert "hunter2222" not in written(kit)


def test_what_a_failed_attempt_held_back_does_not_get_into_the_next(kit: AgentKit) -> None:
    from agents.models.errors import ModelFailed

    kit.model.script(Turn(text=["Look: sk-", "proj"], error=ModelFailed("busy"), error_after=2), Turn(text="All good."))

    assert kit.play().text == "All good."


def test_a_client_s_call_with_a_secret_is_refused_before_it_is_stored(kit: AgentKit) -> None:
    with raises(INPUT_BLOCKED, match="blocked: secrets"):
        kit.runner.call_tool("post", {"text": KEY}, agent_id="tester")

    assert KEY not in written(kit)


TOKEN = 't1ll "tökén"/77'


@pytest.mark.parametrize("way", ["return", "raise", "log"])
def test_a_secret_of_a_tool_reaches_the_tool_and_nothing_else(
    kit: AgentKit, way: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TILL_TOKEN", TOKEN)
    formats = [TextLines("test"), JsonLines("test")]
    kit.model.script(
        Turn(calls=[Call(name="till", arguments={"way": way})]), Turn(text=["It is t1ll ", '"tökén"', "/77, I say."])
    )

    played = kit.play()

    logged = "".join(formatter.format(record) for formatter in formats for record in caplog.records)
    assert sent == [TOKEN]
    assert played.text == f"It is {REDACTED}, I say."
    for spelled in (TOKEN, quote(TOKEN, safe=""), b64encode(TOKEN.encode()).decode(), "tökén", "t1ll"):
        assert spelled not in shown(played) + logged + str(kit.model.requests[1].messages)
    assert "tökén" not in written(kit)


def test_a_secret_that_is_not_there_fails_the_call_before_the_tool_begins(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TILL_TOKEN", raising=False)
    kit.model.script(Turn(calls=[Call(name="till", arguments={"way": "return"})]), Turn(text="Well."))

    played = kit.play()

    assert sent == []
    assert "env:TILL_TOKEN is missing or empty" in played.results("till")[0]


def waiting(kit: AgentKit) -> tuple[RunHandle, str]:
    """Return a run that waits for an approval, and the question's id."""
    kit.agent(tools=[order])
    kit.model.script(Turn(calls=[Call(name="order", arguments={"item": "pen"})]), Turn(text="Done."))
    handle = kit.run()
    question = next(event for event in handle.events() if isinstance(event, ApprovalPayload))
    while handle.status() != "waiting":
        time.sleep(0.01)
    return handle, question.approval_id


def test_a_secret_in_edited_arguments_is_refused_and_the_question_stays_open(kit: AgentKit) -> None:
    handle, question = waiting(kit)

    with raises(INPUT_BLOCKED, match="blocked: secrets"):
        handle.decide(question, Decision(decision="approve", arguments={"item": KEY}))

    assert KEY not in written(kit)
    handle.decide(question, Decision(decision="approve", arguments={"item": "ink"}))
    handle.result(10)
    assert sent == ["ink"]


def test_a_secret_in_a_comment_is_replaced(kit: AgentKit) -> None:
    handle, question = waiting(kit)

    handle.decide(question, Decision(decision="reject", message=f"not with {KEY}"))
    handle.result(10)

    assert KEY not in written(kit)
    assert f"not with {REDACTED}" in str(kit.model.requests[-1].messages)


def test_a_thread_that_is_named_like_a_key_is_refused_without_repeating_it(kit: AgentKit) -> None:
    with pytest.raises(BadRequest) as caught:
        kit.run("Hello", thread_id=KEY)

    assert KEY not in str(caught.value)
    assert KEY not in written(kit)
