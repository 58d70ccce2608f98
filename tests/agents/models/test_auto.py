"""What ``model: auto`` means on this machine."""

import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from agents.models import auto
from agents.models.auto import BY_KEY, DEMO, OLLAMA, has_model, resolve_model
from config.redaction.provider_keys import without_keys
from config.settings import ROOT

pytestmark = pytest.mark.parity


@pytest.fixture(autouse=True)
def _forget():
    auto._answers.cache_clear()


@pytest.fixture
def ollama():
    """A server that answers as Ollama does: its address, and what it was asked."""
    paths = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            paths.append(self.path)
            self.send_response(200 if self.path == "/api/tags" else 404)
            self.end_headers()
            self.wfile.write(b'{"models":[{"name":"llama3.2:3b"}]}' if self.path == "/api/tags" else b"")

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", paths
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def no_server():
    """An address where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_any_other_name_stands_as_it_is(no_server):
    assert resolve_model("openai/gpt-5-mini", {"ANTHROPIC_API_KEY": "x"}, no_server) == "openai/gpt-5-mini"


@pytest.mark.parametrize("variable", BY_KEY)
def test_a_key_decides(variable, no_server):
    assert resolve_model("auto", {variable: "x"}, no_server) == BY_KEY[variable]


@pytest.mark.parametrize("variable", BY_KEY)
def test_the_name_of_a_key_that_workers_hold_decides_as_well(variable, no_server):
    assert resolve_model("auto", without_keys({variable: "sk-0123456789", "LANG": "C"}), no_server) == BY_KEY[variable]


def test_the_first_of_several_keys_decides(no_server):
    environment = {"OPENAI_API_KEY": "x", "ANTHROPIC_API_KEY": "x"}

    assert resolve_model("auto", environment, no_server).startswith("anthropic/")


def test_an_empty_key_is_none(no_server):
    assert resolve_model("auto", {"OPENAI_API_KEY": " "}, no_server) == DEMO


def test_ollama_is_used_when_it_answers_and_asked_once(ollama):
    address, paths = ollama

    models = [resolve_model("auto", {}, address) for _ in range(5)]

    assert set(models) == {OLLAMA}
    assert len(paths) <= 2  # twice if a period ended in between


@pytest.mark.parametrize(
    ("body", "is_there"),
    [(b'{"models":[{"name":"llama3.2:3b"}]}', True), (b'{"models":[{"name":"qwen3:4b"}]}', False), (b"[]", True)],
)
def test_ollama_is_asked_whether_it_has_the_model(monkeypatch, body, is_there):
    monkeypatch.setattr("agents.models.auto.listed_models", lambda url: body)

    assert has_model() is is_there


def test_ollama_says_that_it_has_the_model(ollama):
    address, paths = ollama

    assert (has_model(address), paths) == (True, ["/api/tags"])


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "nonsense", "file:///etc/passwd"])
def test_without_key_and_ollama_it_is_the_demo(address):
    assert resolve_model("auto", {}, address) == DEMO


def test_a_server_that_says_nothing_is_not_waited_for(no_server):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert resolve_model("auto", {}, f"http://127.0.0.1:{silent.getsockname()[1]}") == DEMO


def test_a_server_that_speaks_something_else_is_not_ollama():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with server.accept()[0] as peer:
                peer.recv(1000)
                peer.sendall(b"+PONG\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        model = resolve_model("auto", {}, f"http://127.0.0.1:{server.getsockname()[1]}")
        thread.join()

    assert model == DEMO


def test_the_named_models_are_on_litellms_list():
    from agents.models.lite import litellm_module

    litellm = litellm_module()

    for named in BY_KEY.values():
        assert named in litellm.model_cost or named.partition("/")[2] in litellm.model_cost
        assert litellm.supports_function_calling(named)


def test_importing_it_does_not_bring_litellm():
    code = "import sys, agents.models.auto; print('litellm' in sys.modules)"

    printed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "False"
