"""The capabilities of docs/examples/capabilities can be copied and called."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from agents import catalogue
from agents.catalogue import find_tool
from agents.checkup import problems_of
from agents.errors import ArgumentsInvalid
from agents.testing import call_capability
from config.definitions.errors import ToolUnknown
from config.folders import ROOT
from config.settings import Settings
from tests.agents.tools.runners.machines import container_engine, import_image

FOLDER = ROOT / "docs" / "examples" / "capabilities"
IMAGE = "docker.io/library/busybox:stable"


@pytest.fixture
def settings(tmp_path):
    catalogue.forget()
    yield Settings(state_dir=tmp_path / "state", capabilities_dir=str(FOLDER))
    catalogue.forget()


def test_each_file_is_a_capability(settings, monkeypatch):
    monkeypatch.setenv("ROOMS_TOKEN", "tok-en-1234567")

    names = [path.stem for path in FOLDER.glob("*.yaml")]

    assert {name: problems_of(name, settings) for name in names if name not in ("word_list", "count_words")} == {
        "book_room": [],
        "old_count": [],
    }
    assert "CALLBOARD_CONTAINERS" in problems_of("word_list", settings)[0]
    assert all(f"`{name}.yaml`" in (FOLDER / "README.md").read_text() for name in names)


def test_a_retired_id_names_what_replaces_it(settings):
    with pytest.raises(ToolUnknown, match="is retired: count_words counts words of every script"):
        find_tool("old_count", settings)


@pytest.mark.parity
def test_the_program_counts(settings):
    assert call_capability("count_words", {"text": "eins zwei 三"}, settings=settings) == {"words": 3}

    with pytest.raises(ArgumentsInvalid):
        call_capability("count_words", {"words": "a"}, settings=settings)


@pytest.mark.parity
def test_the_container_lists(settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("engine")
    engine = container_engine(folder)
    import_image(engine, folder, IMAGE)
    able = settings.model_copy(update={"containers": engine})

    assert problems_of("word_list", able) == []
    assert call_capability("word_list", {"text": "to be or not to be"}, settings=able) == ["be", "not", "or", "to"]


@pytest.mark.parity
def test_the_room_is_booked_with_the_token_and_a_key(settings, monkeypatch):
    monkeypatch.setenv("ROOMS_TOKEN", "tok-en-1234567")
    requests = []

    class Rooms(BaseHTTPRequestHandler):
        def do_POST(self):
            requests.append((self.headers["Authorization"], self.headers["Idempotency-Key"]))
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200 if len(requests) > 1 else 503)
            self.end_headers()
            self.wfile.write(json.dumps({"booking": "b-17"}).encode())

        def log_message(self, *_):
            return

    with HTTPServer(("127.0.0.1", 0), Rooms) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        booked = call_capability("book_room", {"room": "4.17", "day": "2030-01-01"}, url=url, settings=settings)
        server.shutdown()

    assert booked == {"booking": "b-17"}
    assert requests[0] == requests[1], "the second attempt has the first one's key"
    assert requests[0][0] == "Bearer tok-en-1234567"
    assert find_tool("book_room", settings).needs_approval
