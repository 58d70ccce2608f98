"""The model server is itself worth a test: pace, stamps, and what it tells about its clients."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections.abc import Iterator

import pytest

from tests.model_server import Call, ModelServer, Turn


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def ask(server: ModelServer, model: str = "m", stream: bool = True) -> list[str]:
    body = json.dumps({"model": model, "stream": stream, "messages": []}).encode()
    request = urllib.request.Request(f"{server.url}/chat/completions", data=body)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return [line.decode().strip() for line in answer if line.strip()]


def contents(lines: list[str]) -> list[str]:
    bodies = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    deltas = [body["choices"][0]["delta"] for body in bodies if body["choices"]]
    return [delta["content"] for delta in deltas if delta.get("content")]


def test_turns_are_played_in_order_and_requests_recorded(server: ModelServer) -> None:
    server.forget()
    server.script([Turn(text="first one"), Turn(text="second")])

    texts = ["".join(contents(ask(server))) for _ in range(2)]

    assert texts == ["first one", "second"]
    assert [request.body["model"] for request in server.requests] == ["m", "m"]


def test_a_model_may_have_a_script_of_its_own(server: ModelServer) -> None:
    server.forget()
    server.script([Turn(text="for anyone")])
    server.script([Turn(text="for b")], model="b")

    assert contents(ask(server, "b")) == ["for ", "b"]
    assert contents(ask(server, "a")) == ["for ", "anyone"]


def test_it_also_answers_whole(server: ModelServer) -> None:
    server.forget()
    server.script([Turn(calls=[Call(name="look", arguments={"a": 1})])])

    body = json.loads("".join(ask(server, stream=False)))

    assert body["choices"][0]["message"]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"a": 1}'}


def test_bench_models_stamp_each_token_and_keep_their_pace(server: ModelServer) -> None:
    started = time.monotonic_ns()

    stamps = [int(text) for text in contents(ask(server, "bench-10-100"))]

    assert len(stamps) == len(set(stamps)) == 10
    assert started < stamps[0]
    assert stamps == sorted(stamps)
    assert stamps[-1] - stamps[0] >= 80_000_000


def test_prose_models_say_as_many_tokens_of_markdown(server: ModelServer) -> None:
    tokens = contents(ask(server, "prose-400-4000"))

    assert len(tokens) == 400
    assert "".join(tokens).startswith("## Orders that arrive late\n\nThe warehouse")
    assert 3.5 <= sum(map(len, tokens)) / 400 <= 5


def test_a_client_that_leaves_is_noticed(server: ModelServer) -> None:
    server.forget()
    server.script([Turn(text="a b c", stall_after=1)])
    body = b'{"model": "m", "stream": true}'
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        assert not server.closed_early.is_set()

    assert server.closed_early.wait(5)


def test_a_stalled_stream_continues_when_resumed(server: ModelServer) -> None:
    server.forget()
    server.script([Turn(text="a b c", stall_after=2)])
    body = b'{"model": "m", "stream": true}'
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        received = b""
        while b'"a "' not in received:
            received += client.recv(4096)
        assert b'"c"' not in received

        server.resume()
        while not received.endswith(b"0\r\n\r\n"):
            received += client.recv(4096)

    assert b'"c"' in received
