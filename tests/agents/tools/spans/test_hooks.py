"""Libraries that tools use, with real servers and files: each operation makes one span, in a call only."""

import asyncio
import builtins
import io
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import httpx2
import pytest
import requests
import sqlalchemy
import urllib3

from agents.tools.spans.collector import collecting
from agents.tools.spans.hooks import enable_hooks, remove_hooks
from config.folders import ROOT

pytestmark = pytest.mark.parity


@pytest.fixture
def hooks():
    enable_hooks()
    yield
    remove_hooks()


@pytest.fixture(scope="module")
def url():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(201)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "8")
            self.end_headers()
            self.wfile.write(b'{"id":7}')

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/orders"
    server.shutdown()
    server.server_close()


async def by_async_httpx(url):
    async with httpx.AsyncClient() as client:
        await client.post(url, json={"a": 1}, headers={"Authorization": "Bearer abcdefghijk"})


HEADERS = {"Authorization": "Bearer abcdefghijk", "Content-Type": "application/json"}
CLIENTS = {
    "httpx": lambda url: httpx.post(url, content=b'{"a":1}', headers=HEADERS),
    "httpx async": lambda url: asyncio.run(by_async_httpx(url)),
    "httpx2": lambda url: httpx2.post(url, content=b'{"a":1}', headers=HEADERS),
    "requests": lambda url: requests.post(url, data=b'{"a":1}', headers=HEADERS, timeout=5),
    "urllib3": lambda url: urllib3.PoolManager().request("POST", url, body=b'{"a":1}', headers=HEADERS),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_request_makes_one_span(hooks, url, name):
    with collecting() as collector:
        CLIENTS[name](url)

    (record,) = [entry for entry in collector.close() if entry["kind"] == "http"]
    assert (record["name"], record["method"], record["status"]) == ("POST 127.0.0.1", "POST", 201)
    assert record["url"].endswith("/orders")
    assert record["request_headers"]["authorization"] == "[redacted]"
    assert record["request_body"].replace(" ", "") == '{"a":1}'
    assert record["response_body"] == '{"id":7}'


@pytest.mark.parametrize("name", CLIENTS)
def test_a_refused_connection_makes_a_span_with_its_error(hooks, name):
    with collecting() as collector, pytest.raises(Exception):  # noqa: B017  # each library has its own
        CLIENTS[name]("http://127.0.0.1:9/")

    (record,) = [entry for entry in collector.close() if entry["kind"] == "http"]
    assert record["error"]


def test_a_streamed_body_is_left_to_the_tool(hooks, url):
    with collecting() as collector, httpx.Client() as client, client.stream("POST", url, content=b"x") as answer:
        assert answer.read() == b'{"id":7}'

    (record,) = [entry for entry in collector.close() if entry["kind"] == "http"]
    assert "response_body" not in record


def test_a_statement_of_sqlalchemy_makes_one_span(hooks, tmp_path):
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/shop.db")
    with collecting() as collector, engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE a (b TEXT)"))
        connection.execute(sqlalchemy.text("INSERT INTO a VALUES (:b)"), [{"b": "private"}, {"b": "words"}])
        connection.execute(sqlalchemy.text("SELECT * FROM a"))
    engine.dispose()

    records = [record for record in collector.close() if record["kind"] == "sql"]
    assert [record["name"] for record in records] == ["CREATE", "INSERT", "SELECT"]
    assert records[2]["statement"] == "SELECT * FROM a"
    assert records[2]["database"].endswith("shop.db")
    assert "private" not in str(records)


@pytest.mark.postgres
@pytest.mark.parametrize("through", ["psycopg", "sqlalchemy", "async"])
def test_a_statement_of_psycopg_makes_one_span(postgres_cluster, through):
    import psycopg

    url = postgres_cluster.new_database()
    plain = url.replace("postgresql+psycopg", "postgresql")
    enable_hooks()

    async def run():
        async with await psycopg.AsyncConnection.connect(plain) as connection:
            await connection.execute("SELECT %s", ("private",))

    with collecting() as collector:
        if through == "psycopg":
            with psycopg.connect(plain) as connection:
                connection.execute("SELECT %s", ("private",))
        elif through == "async":
            asyncio.run(run())
        else:
            engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
            with engine.connect() as sql_connection:
                sql_connection.execute(sqlalchemy.text("SELECT :a"), {"a": "private"})
            engine.dispose()
    remove_hooks()

    records = [record for record in collector.close() if record["kind"] == "sql" and "SELECT %" in record["statement"]]
    assert len(records) == 1
    assert (records[0]["name"], records[0]["database"]) == ("SELECT", plain.split("?")[0].rsplit("/", 1)[1])
    assert "private" not in str(records)


def test_files_that_are_opened_make_spans(hooks, tmp_path):
    file = tmp_path / "notes.txt"
    with collecting() as collector:
        file.write_text("a")
        with open(file) as opened:
            assert opened.read() == "a"
        with pytest.raises(FileNotFoundError):
            (tmp_path / "gone").read_bytes()
        with open("/dev/null"):
            pass

    records = collector.close()
    assert [(Path(record["path"]).name, record["mode"][:1], record.get("error")) for record in records] == [
        ("notes.txt", "w", None),
        ("notes.txt", "r", None),
        ("gone", "r", "FileNotFoundError"),
    ]


def test_outside_of_a_call_nothing_is_noted(hooks, url, tmp_path):
    httpx.post(url, content=b"x")
    (tmp_path / "a").write_text("x")

    with collecting() as collector:
        pass

    assert collector.close() == []


def test_the_hooks_can_be_removed_and_installed_again():
    originals = (builtins.open, io.open, httpx.Client.send, requests.Session.send)

    for _ in range(3):
        enable_hooks()
        assert builtins.open is not originals[0]
        assert httpx.Client.send is not originals[2]
        remove_hooks()
        assert (builtins.open, io.open, httpx.Client.send, requests.Session.send) == originals


def test_a_function_that_other_code_has_replaced_meanwhile_is_left(monkeypatch):
    enable_hooks()
    ours = requests.Session.send
    monkeypatch.setattr(requests.Session, "send", lambda *_, **__: ours)

    remove_hooks()

    assert requests.Session.send is not ours
    with monkeypatch.context():
        monkeypatch.undo()
    requests.Session.send = ours.__wrapped__


FIRST_CALL = """
import sys
from agents.tools.spans.collector import collecting
from agents.tools.spans.hooks import enable_hooks, remove_hooks
enable_hooks()
if sys.argv[2] == "removed":
    remove_hooks()
assert "requests" not in sys.modules
with collecting() as collector:
    import requests
    requests.post(sys.argv[1], json={})
print(*[span["kind"] for span in collector.close()])
"""


@pytest.mark.parametrize(("state", "kinds"), [("enabled", "http"), ("removed", "")])
def test_a_library_that_a_call_imports_is_hooked_at_once_where_hooks_are_enabled(url, state, kinds):
    command = [sys.executable, "-P", "-c", FIRST_CALL, url, state]

    process = subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)

    assert process.stdout.strip() == kinds
