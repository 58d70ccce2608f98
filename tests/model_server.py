"""A model on the other end of a real socket: four providers' wires, scripted, paced, faulty on request.

``with ModelServer() as server:`` runs it on a thread; ``python -m tests.model_server --port 9000`` is the
process the benchmarks use. A model called ``bench-120-20`` needs no script: 120 tokens at 20 a second, each
with the monotonic nanoseconds at which it was written, so that a client on this machine can tell the delay;
``GET /arrivals`` returns, with the stamp of each first token, when its request had been read, and forgets them.
``prose-120-20`` says as many tokens at that rate, of Markdown: sections of paragraphs and lists.
``plain-1000000`` sends so many tokens of three characters, unpaced: an answer may have four million characters.
``bench-tool`` calls the first tool it is offered, without arguments, and says a few words where it may call none.
``GET /resume`` resumes every stalled stream.
``calls-20-20`` says 20 tokens at 20 a second and calls the first tool it is offered; shown the result, it says 20 more.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, cast

import orjson

from tests.model_ticker import Ticker
from tests.model_turn import Call, Turn, prose
from tests.model_wires import DIALECTS, EMPTY, Dialect

__all__ = ["Call", "ModelServer", "Request", "Turn"]

_BENCH = re.compile(r"(bench|prose)-(\d+)-(\d+)$")
_PLAIN = re.compile(r"plain-(\d+)$")
_CALLS = re.compile(r"calls-(\d+)-(\d+)$")
_GEMINI = re.compile(r"/models/([^/:]+):streamGenerateContent")
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}
MAX_ARRIVALS = 10_000
_DEFAULT = Turn(text="The model server has no script, so it says this.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Mapping[str, Any]
    at: float
    """Monotonic seconds."""
    connection: object = None
    """The same object for requests on the same socket."""

    @property
    def model(self) -> str:
        """The model that is asked; Gemini's stands in the path."""
        match = _GEMINI.search(self.path)
        return match[1] if match else str(self.body.get("model", ""))

    @property
    def dialect(self) -> Dialect | None:
        """The wire that the path belongs to."""
        path = self.path.partition("?")[0]
        return next((dialect for end, dialect in DIALECTS.items() if path.endswith(end)), None)


@dataclass(slots=True)
class ModelServer:
    """The server; every member may be used from any thread."""

    port: int = 0
    """0 takes a free one."""
    requests: list[Request] = field(default_factory=list)
    """Calls of the model, in order."""
    respond: Callable[[Mapping[str, Any]], Turn] | None = None
    """Makes a turn from a request's body; goes before the script."""
    closed_early: threading.Event = field(default_factory=threading.Event)
    """Set when a client closed its socket before the stream was over."""
    _scripts: dict[str | None, deque[Turn]] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _resumed: list[Callable[[], None]] = field(default_factory=list)
    _loop: asyncio.AbstractEventLoop | None = None
    _thread: threading.Thread | None = None
    _ready: threading.Event = field(default_factory=threading.Event)
    ticker: Ticker | None = None
    arrivals: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=MAX_ARRIVALS))
    """Of each stamped answer: its first token's stamp, and when its request had been read; monotonic nanoseconds."""

    @property
    def url(self) -> str:
        """The base address of the OpenAI wire."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def root(self) -> str:
        """The base address of the other wires."""
        return f"http://127.0.0.1:{self.port}"

    def script(self, turns: Iterable[Turn], model: str | None = None) -> None:
        """Answer the next calls (of ``model``, or of any) with ``turns``, one each."""
        with self._changed:
            self._scripts.setdefault(model, deque()).extend(turns)

    def resume(self, timeout_s: float = 5.0) -> None:
        """Resume every stalled stream, once there is one: a stream that stalls afterwards would wait forever."""
        assert self._loop is not None
        with self._changed:
            self._changed.wait_for(lambda: self._resumed, timeout_s)
        self._loop.call_soon_threadsafe(self._resume)

    def wait_for_requests(self, count: int, timeout_s: float = 10.0) -> bool:
        """Return whether ``count`` calls have come, waiting for them."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.requests) >= count, timeout_s)

    def forget(self) -> None:
        """Drop scripts and records."""
        with self._changed:
            self._scripts.clear()
            self.requests.clear()
        self.respond = None
        self.closed_early.clear()

    def take(self, request: Request) -> Turn:
        """Record a call and return what to answer."""
        model = request.model
        bench = _BENCH.search(model)
        if bench:
            count = int(bench[2])
            return Turn(text=[""] * count if bench[1] == "bench" else prose(count), pace=float(bench[3]) or None)
        plain = _PLAIN.search(model)
        if plain:
            return Turn(text=["ab "] * int(plain[1]))
        calls = _CALLS.search(model)
        if calls:
            is_called = request.body["messages"][-1]["role"] == "tool"
            tools = [] if is_called else [Call(name=request.body["tools"][0]["function"]["name"])]
            return Turn(text=["word "] * int(calls[1]), pace=float(calls[2]) or None, calls=tools)
        if model.endswith("bench-tool"):
            if not request.body.get("tools") or request.body.get("tool_choice") == "none":
                return _DEFAULT
            return Turn(calls=[Call(name=request.body["tools"][0]["function"]["name"])])
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            if self.respond is None:
                for key in (model, None):
                    if self._scripts.get(key):
                        return self._scripts[key].popleft()
        return self.respond(request.body) if self.respond is not None else _DEFAULT

    def __enter__(self) -> ModelServer:
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), name="model-server", daemon=True)
        self._thread.start()
        assert self._ready.wait(10), "the model server did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._thread is not None
        loop = self._loop
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        self._thread.join(10)

    async def serve(self) -> None:
        """Serve until cancelled."""
        self._loop = asyncio.get_running_loop()
        self.ticker = Ticker(self._loop)
        connections: set[_Connection] = set()
        server = await self._loop.create_server(lambda: _Connection(self, connections), "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        try:
            await server.serve_forever()
        except asyncio.CancelledError:
            pass
        finally:
            for connection in list(connections):
                connection.abort()

    def _resume(self) -> None:
        waiting, self._resumed = self._resumed, []
        for resume in waiting:
            resume()

    def on_resume(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` at the next ``resume()``; on the server's loop only."""
        with self._changed:
            self._resumed.append(resume)
            self._changed.notify_all()


class _Connection(asyncio.Protocol):
    """One client's socket: requests one after another, kept alive."""

    def __init__(self, server: ModelServer, connections: set[_Connection]) -> None:
        self._server = server
        self._connections = connections
        self._input = bytearray()
        self._player: _Player | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's derives from nothing of asyncio's
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self.transport = None
        if self._player is not None and not self._player.over:
            self._player.over = True
            self._server.closed_early.set()

    def abort(self) -> None:
        if self.transport is not None:
            if self._player is not None:
                self._player.over = True
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._input += data
        if self._player is not None and not self._player.over:
            return
        head, blank, rest = self._input.partition(b"\r\n\r\n")
        if not blank:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        method, path, _ = lines[0].split(" ", 2)
        body = bytes(rest[:length])
        self._input = bytearray(rest[length:])
        self._answer(
            Request(method=method, path=path, headers=headers, body=_json(body), at=time.monotonic(), connection=self)
        )

    def _answer(self, request: Request) -> None:
        path = request.path.partition("?")[0]
        if path.endswith("/models"):
            self.send_whole(200, orjson.dumps({"object": "list", "data": [{"id": "test", "object": "model"}]}), {})
        elif path == "/arrivals":
            arrivals = [self._server.arrivals.popleft() for _ in range(len(self._server.arrivals))]
            self.send_whole(200, orjson.dumps(arrivals), {})
        elif path == "/resume":
            self._server._resume()
            self.send_whole(200, b"{}", {})
        elif path == "/api/show":  # where LiteLLM asks Ollama about a model
            self.send_whole(200, b"{}", {})
        elif request.dialect is not None:
            self._player = _Player(self._server, self, request, request.dialect)
            self._player.start()
        else:
            self.send_whole(404, b'{"error": {"message": "no such path"}}', {})

    def send_whole(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Send one answer with its length."""
        self.write(_head(status, {"content-type": "application/json", **headers, "content-length": str(len(body))}))
        self.write(body)

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)


class _Player:
    """Plays one turn into a connection."""

    def __init__(self, server: ModelServer, connection: _Connection, request: Request, dialect: Dialect) -> None:
        assert server.ticker is not None
        self.over = False
        self._server = server
        self._ticker = server.ticker
        self._connection = connection
        self._request = request
        self._dialect = dialect
        self._model = request.model
        self._stamped = _BENCH.search(self._model) is not None
        self._turn = server.take(request)
        self._sent = 0
        self._has_token = False
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()

    def start(self) -> None:
        """Answer now, or after the turn's delay."""
        if self._turn.delay_s:
            self._ticker.at(self._due + self._turn.delay_s, self._begin)
        else:
            self._begin()

    def _begin(self) -> None:
        turn = self._turn
        if turn.status != 200 or (turn.error is not None and turn.error_after is None):
            self.over = True
            error: Any = dict(turn.error or {"message": "no"})
            if self._dialect == "ollama":
                error = error["message"]
            body = turn.raw or orjson.dumps({"type": "error", "error": error})
            self._connection.send_whole(turn.status, body, turn.headers or {})
            return
        if not self._request.body.get("stream") and self._dialect != "gemini":
            self.over = True
            self._connection.send_whole(200, orjson.dumps(turn.whole(self._model)), turn.headers or {})
            return
        self._open_stream()

    def _open_stream(self) -> None:
        turn = self._turn
        kind = "application/x-ndjson" if self._dialect == "ollama" else "text/event-stream"
        head = {"content-type": turn.content_type or kind, "transfer-encoding": "chunked"}
        if turn.gzip:
            head["content-encoding"] = "gzip"
        self._connection.write(_head(200, {**head, **(turn.headers or {})}))
        self._events = [turn.raw] if turn.raw is not None else turn.events(self._dialect, self._model)
        if turn.gzip:
            self._events = [gzip.compress(b"".join(self._events))]
        if turn.bytes_apart:
            self._events = [bytes([byte]) for event in self._events for byte in event]
        self._due = self._loop.time() + turn.first_delay_s
        if turn.first_delay_s:
            self._ticker.at(self._due, self._play)
        else:
            self._play()

    def _play(self) -> None:
        turn, step = self._turn, 1.0 / self._turn.pace if self._turn.pace else 0.0
        while not self.over:
            if self._sent == turn.disconnect_after:
                self.over = True
                assert self._connection.transport is not None
                self._connection.transport.close()
                return
            if self._sent == turn.stall_after:
                self._turn = Turn(pace=turn.pace, disconnect_after=turn.disconnect_after)
                self._server.on_resume(self._play)
                return
            if self._sent >= len(self._events):
                self.over = True
                self._connection.write(b"0\r\n\r\n")
                return
            event = self._events[self._sent]
            self._sent += 1
            if self._stamped:
                event = self._with_stamp(event)
            self._connection.write(b"%x\r\n%b\r\n" % (len(event), event))
            if step:
                self._due += step
                self._ticker.at(self._due, self._play)
                return

    def _with_stamp(self, event: bytes) -> bytes:
        now = time.monotonic_ns()
        empty = EMPTY[self._dialect]
        stamped = event.replace(empty, empty.replace(b'""', b'"%d "' % now))
        if not self._has_token and stamped != event:
            self._has_token = True
            self._server.arrivals.append((now, int(self._request.at * 1e9)))
        return stamped


def _json(body: bytes) -> Mapping[str, Any]:
    if not body:
        return {}
    loaded = orjson.loads(body)
    return loaded if isinstance(loaded, dict) else {}


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def main() -> None:
    """Serve until interrupted; prints the address when it answers."""
    parser = argparse.ArgumentParser(description="A scripted model server for tests and benchmarks.")
    parser.add_argument("--port", type=int, default=0)
    server = ModelServer(port=parser.parse_args().port)
    threading.Thread(target=lambda: server._ready.wait() and print(server.url, flush=True), daemon=True).start()
    try:
        import uvloop

        uvloop.run(server.serve())
    except ImportError:
        asyncio.run(server.serve())
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
