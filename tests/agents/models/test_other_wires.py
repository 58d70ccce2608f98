"""Answers as the servers of Gemini, Ollama and Azure send them are read, over HTTP, and these get what was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest

from agents.models.call import ModelCall
from agents.models.errors import MODEL_UNKNOWN
from agents.models.open import open_stream
from tests.agents.models.conftest import WEATHER, read
from tests.raising import raises

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore:Item.* on TypedDict class:UserWarning")]

Data = Mapping[str, Any]
FACTS = "/api/show"
"""Where LiteLLM asks Ollama about a model, perhaps once a process."""


def events(parts: Sequence[Data]) -> bytes:
    return b"".join(b"data: " + json.dumps(part, ensure_ascii=False).encode() + b"\r\n\r\n" for part in parts)


def lines(parts: Sequence[Data]) -> bytes:
    return b"".join(json.dumps(part, ensure_ascii=False).encode() + b"\n" for part in parts)


class Wire(NamedTuple):
    """One provider: where it is asked, and what it answers with a text and with a call."""

    model: str
    path: str
    kind: str
    text: bytes
    call: bytes
    temperature: Callable[[Data], Any]
    """Where a request has the temperature."""


def _gemini(part: Data, **more: Any) -> Data:
    return {
        "candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0, **more}],
        "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 5, "totalTokenCount": 17},
        "modelVersion": "gemini-2.5-flash",
        "responseId": "r1",
    }


def _ollama(message: Data, **more: Any) -> Data:
    reply = {"role": "assistant", "content": "", **message}
    return {"model": "llama3.2:3b", "created_at": "2026-11-24T15:00:00.1Z", "message": reply, "done": False, **more}


def _azure(delta: Data, finish: str | None = None) -> Data:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None, "content_filter_results": {}}
    return {**_AZURE, "choices": [choice]}


_AZURE = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1764000000, "model": "gpt-4o-2024-08-06"}
_SAFE = {"hate": {"filtered": False, "severity": "safe"}}
_FIRST = {**_AZURE, "choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": _SAFE}]}
_USAGE = {**_AZURE, "choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}}
_ENDED = {"done": True, "prompt_eval_count": 12, "eval_count": 5, "total_duration": 9}
_ASKED = {"name": "get_weather", "arguments": '{"city": "Köln"}'}
_DONE = b"data: [DONE]\r\n\r\n"

WIRES = {
    "gemini": Wire(
        model="gemini/gemini-2.5-flash",
        path="/models/gemini-2.5-flash:streamGenerateContent",
        kind="text/event-stream",
        text=events([_gemini({"text": "Grüße, "}), _gemini({"text": "你好 👋"}, finishReason="STOP")]),
        call=events(
            [_gemini({"functionCall": {"name": "get_weather", "args": {"city": "Köln"}}}, finishReason="STOP")]
        ),
        temperature=lambda body: body["generationConfig"]["temperature"],
    ),
    "ollama": Wire(
        model="ollama_chat/llama3.2:3b",
        path="/api/chat",
        kind="application/x-ndjson",
        text=lines(
            [
                _ollama({"content": "Grüße, "}),
                _ollama({"content": "你好 👋"}),
                _ollama({}, done_reason="stop", **_ENDED),
            ]
        ),
        call=lines(
            [
                _ollama({"tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Köln"}}}]}),
                _ollama({}, done_reason="stop", **_ENDED),
            ]
        ),
        temperature=lambda body: body["options"]["temperature"],
    ),
    "azure": Wire(
        model="azure/gpt-test",
        path="/openai/deployments/gpt-test/chat/completions",
        kind="text/event-stream",
        text=events(
            [
                _FIRST,
                _azure({"role": "assistant", "content": ""}),
                _azure({"content": "Grüße, "}),
                _azure({"content": "你好 👋"}),
                _azure({}, "stop"),
                _USAGE,
            ]
        )
        + _DONE,
        call=events(
            [
                _FIRST,
                _azure({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": _ASKED}]}),
                _azure({}, "tool_calls"),
                _USAGE,
            ]
        )
        + _DONE,
        temperature=lambda body: body["temperature"],
    ),
}


class Provider(ThreadingHTTPServer):
    """Answers every request but one for facts with ``answer``, and keeps what it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.kind, self.answer = 200, "application/json", b""
        self.seen: list[tuple[str, Data]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != FACTS:
            self.server.seen.append((self.path, body))
        answer = self.server.answer if self.path != FACTS else b"{}"
        self.send_response(self.server.status)
        self.send_header("Content-Type", self.server.kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return WIRES[request.param]


def test_a_text_is_read_with_its_usage_and_temperature_0_is_sent(
    wire: Wire, provider: Provider, call_of: Callable[..., ModelCall], run: Any
) -> None:
    provider.kind, provider.answer = wire.kind, wire.text

    answer = run(read(call_of(wire.model, api_base=provider.url, params={"temperature": 0})))

    assert (answer.text, answer.finish_reason) == ("Grüße, 你好 👋", "stop")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (12, 5)
    ((path, body),) = provider.seen
    assert path.partition("?")[0] == wire.path
    assert wire.temperature(body) == 0


def test_a_call_of_a_tool_is_read(wire: Wire, provider: Provider, call_of: Callable[..., ModelCall], run: Any) -> None:
    provider.kind, provider.answer = wire.kind, wire.call

    answer = run(read(call_of(wire.model, api_base=provider.url, tools=[WEATHER])))

    (tool_call,) = answer.tool_calls
    assert (tool_call.name, json.loads(tool_call.arguments_text)) == ("get_weather", {"city": "Köln"})
    assert tool_call.id
    ((_, body),) = provider.seen
    assert "get_weather" in json.dumps(body["tools"])


def test_a_model_that_ollama_does_not_have_is_offered_and_not_fetched(
    provider: Provider, call_of: Callable[..., ModelCall], run: Any
) -> None:
    provider.status = 404
    provider.answer = b'{"error":"model \'llama3.2:3b\' not found"}'

    with raises(MODEL_UNKNOWN) as caught:
        run(open_stream(call_of("ollama_chat/llama3.2:3b", api_base=provider.url)))

    assert "`ollama pull llama3.2:3b`" in str(caught.value)
    assert [path for path, _ in provider.seen] == ["/api/chat"]
