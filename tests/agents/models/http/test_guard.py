"""What a provider may send back over HTTP: no redirect, no long error body, no compressed bomb."""

from __future__ import annotations

import gzip
import resource
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from agents.models import http
from agents.models.call import ModelCall
from agents.models.errors import MODEL_REFUSED, ModelFailed
from agents.models.open import open_stream
from config.errors import CallboardError
from config.tracing import trace_id_of, traced
from tests.agents.models.conftest import read
from tests.model_server import ModelServer, Turn

MODELS = """
    openai/gpt-test hosted_vllm/test anthropic/claude-sonnet-4-5 azure/test groq/test deepseek/test openrouter/test
    mistral/test ollama_chat/test gemini/test text-completion-openai/test cohere/test
""".split()
"""Each on another route through LiteLLM: two SDKs, its handler, providers of their own."""
MIB = 1024 * 1024

# LiteLLM's classes: pydantic's remark about a qualifier, nothing of ours to change
pytestmark = pytest.mark.filterwarnings("ignore:Item.* on TypedDict class:UserWarning")


@pytest.fixture
def elsewhere() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """500 MiB of blanks in half a MiB of gzip."""
    packer = zlib.compressobj(level=1, wbits=31)
    return b"".join([*(packer.compress(b" " * MIB) for _ in range(500)), packer.flush()])


class _Redirector(ThreadingHTTPServer):
    """Answers every request with a redirect to ``target``."""

    daemon_threads = True
    status = 307
    target = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Redirect)
        self.seen: list[str] = []


class _Redirect(BaseHTTPRequestHandler):
    server: _Redirector

    def do_POST(self) -> None:
        self.server.seen.append(self.path)
        self.rfile.read(int(self.headers.get("content-length", "0")))
        self.send_response(self.server.status)
        self.send_header("location", self.server.target)
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_POST  # noqa: N815 - http.server's name

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def redirector(elsewhere: ModelServer) -> Iterator[_Redirector]:
    with _Redirector() as server:
        server.target = f"{elsewhere.url}/chat/completions?key=sk-test-0123456789abcdef"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


CASES = [*((model, 307) for model in MODELS), *(("openai/gpt-test", status) for status in (301, 302, 303, 308))]


@pytest.mark.parametrize(("model", "status"), CASES)
def test_a_redirect_is_not_followed_with_prompt_or_key(
    model: str,
    status: int,
    redirector: _Redirector,
    elsewhere: ModelServer,
    call_of: Callable[..., ModelCall],
    run: Any,
) -> None:
    redirector.status = status

    failure = _failure(run, call_of(model, api_base=f"http://127.0.0.1:{redirector.server_port}/v1"))

    assert elsewhere.requests == []
    assert len(redirector.seen) == 1
    assert failure.code == MODEL_REFUSED.code
    assert "redirect" in str(failure)
    assert "api_base" in str(failure)
    assert "0123456789" not in str(failure)


@pytest.mark.parametrize("unit", ["-eyJ", "-----BEGIN PRIVATE KEY-----", "://", "password=", " ", "[", '{"a":'])
@pytest.mark.parametrize(
    ("model", "status"),
    [("openai/gpt-test", 500), ("hosted_vllm/test", 429), ("anthropic/claude-sonnet-4-5", 400), ("azure/test", 422)],
)
def test_an_error_body_of_ten_megabytes_is_truncated_before_it_is_read(
    unit: str, model: str, status: int, server: ModelServer, call_of: Callable[..., ModelCall], run: Any
) -> None:
    body = b'{"error": {"message": "' + unit.encode() * (10 * MIB // len(unit)) + b'"}}'
    server.script([Turn(status=status, raw=body)])

    spent = _cpu_s(lambda: _failure(run, call_of(model)))

    assert spent < 1.0


@pytest.mark.parametrize("model", ["openai/gpt-test", "hosted_vllm/test", "anthropic/claude-sonnet-4-5", "azure/test"])
@pytest.mark.parametrize("status", [200, 500])
def test_a_compressed_bomb_is_not_unpacked(
    model: str, status: int, server: ModelServer, call_of: Callable[..., ModelCall], run: Any, bomb: bytes
) -> None:
    headers = {"content-encoding": "gzip"}
    server.script([Turn(status=status, raw=bomb, headers=headers)])
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    spent = _cpu_s(lambda: _failure(run, call_of(model)))

    assert spent < 1.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 64 * 1024


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip"])
def test_an_unrequested_compression_is_refused(
    encoding: str, server: ModelServer, call_of: Callable[..., ModelCall], run: Any
) -> None:
    server.script([Turn(raw=b"x" * 100, headers={"content-encoding": encoding})])

    with pytest.raises(ModelFailed, match="compressed"):
        run(read(call_of()))


def test_an_answer_is_asked_for_without_compression_and_read_with_it_all_the_same(
    server: ModelServer, call_of: Callable[..., ModelCall], run: Any
) -> None:
    server.script([Turn(text="Hello you.", gzip=True)])

    stream = run(read(call_of("hosted_vllm/test")))

    assert stream.text == "Hello you."
    assert server.requests[0].headers["accept-encoding"] == "identity"


def test_an_error_body_that_drips_is_left_and_its_status_reported(
    server: ModelServer, call_of: Callable[..., ModelCall], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "ERROR_BODY_S", 0.2)
    packed = gzip.compress(b'{"error": {"message": "the beginning"}}')
    server.script([Turn(status=503, raw=packed[:-8], headers={"content-encoding": "gzip"})])

    with pytest.raises(ModelFailed, match="HTTP 503"):
        run(open_stream(call_of()))


def test_clients_outside_a_provider_call_are_left_alone(server: ModelServer, elsewhere: ModelServer, run: Any) -> None:
    server.respond = lambda _: Turn(status=307, raw=b"moved", headers={"location": f"{elsewhere.url}/chat/completions"})

    answer = httpx.post(f"{server.url}/chat/completions", json={"model": "x"}, follow_redirects=True)

    assert answer.status_code == 200
    assert len(elsewhere.requests) == 1


def _failure(run: Any, call: ModelCall) -> CallboardError:
    with pytest.raises(CallboardError) as caught:
        run(read(call))
    return caught.value


def _cpu_s(work: Callable[[], object]) -> float:
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


@pytest.mark.parametrize("model", ["openai/gpt-test", "hosted_vllm/test", "anthropic/claude-sonnet-4-5", "azure/test"])
def test_a_request_continues_the_trace_of_its_run_and_has_no_correlation_id(
    model: str, server: ModelServer, call_of: Callable[..., ModelCall], run: Any
) -> None:
    server.script([Turn(text="hello"), Turn(text="hello")])
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"

    async def ask() -> None:
        await read(call_of(model))

    async def ask_in_trace() -> None:
        with traced(trace_id, "order 4711"):
            await ask()

    run(ask_in_trace())
    run(ask())

    first, second = (request.headers for request in server.requests)
    assert trace_id_of(first["traceparent"]) == trace_id
    assert "traceparent" not in second
    assert "order 4711" not in str(server.requests)
