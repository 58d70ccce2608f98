"""What clients can make a web process hold: at most 64 MiB, whether they send too much or read too little."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from agents.governance.guardrails.guardrails import Guardrails
from agents.runner import Runner
from bus.journal import Journal
from config.database.migrate import migrate
from config.settings import Settings
from tests.journeys.web_server import Web
from tests.ports import free_port
from tests.web.conftest import RunOwner

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

MIB = 1024 * 1024
BAR = 64 * MIB
BODIES, VIEWERS = 40, 300
LARGE_RUNS, LARGE_CHARS = 40, 3_000_000
AGENT = "name: Assistant\nmodel: demo/assistant\nsystem_prompt: You answer.\n"


@pytest.fixture(scope="module")
def deployment_settings(tmp_path_factory: pytest.TempPathFactory, redis_server) -> Settings:
    """Settings of this module's own deployment, with its schema made."""
    folder = tmp_path_factory.mktemp("peers")
    (folder / "agents").mkdir()
    (folder / "state").mkdir()
    (folder / "agents" / "assistant.yaml").write_text(AGENT)
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own
        state_dir=folder / "state",
        agents_dir=str(folder / "agents"),
        redis_url=redis_server.url,
        deployment=folder.name,
    )
    migrate(settings)
    return settings


@pytest.fixture(scope="module")
def large_runs(deployment_settings: Settings) -> list[str]:
    """Runs that ended with 3 MB each."""
    runner = Runner.open(deployment_settings)
    with contextlib.closing(runner):
        runs = [runner.run(f"{n}", "assistant", detached=True).run_id for n in range(LARGE_RUNS)]
        for run_id in runs:
            RunOwner(runner.journal, run_id).finish("x" * LARGE_CHARS)
    return runs


@pytest.fixture
def web(deployment_settings: Settings) -> Iterator[Web]:
    """A web process of the test's own: one that had to hold much keeps the room for it."""
    with Web(deployment_settings.model_copy(update={"port": free_port()})) as server:
        yield server


class Watch:
    """Looks at a process's memory until it is left."""

    def __init__(self, web: Web) -> None:
        self._process = psutil.Process(web.process.pid).children()[0]
        self._stop = threading.Event()
        self._before = self._most = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def more(self) -> int:
        """By how much it grew, at most."""
        return self._most - self._before

    def _look(self) -> None:
        while not self._stop.wait(0.01):
            self._most = max(self._most, self._process.memory_info().rss)


def at_once(count: int, work: Callable[[], int]) -> list[int]:
    """Return what each of so many threads returned."""
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(work())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


HOSTILE = {
    "nested lists": b'{"agent":"assistant","input":"Hi","metadata":[' + b"[[]]," * 400_000 + b"0]}",
    "many texts": b'{"agent":"assistant","input":"Hi","metadata":[' + b'"",' * 650_000 + b"0]}",
    "one long text": b'{"agent":"assistant","input":"' + b"\\n" * 1_000_000 + b'"}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_bodies_that_grow_when_they_are_decoded(web: Web, body: bytes) -> None:
    body = body[: 2 * MIB]

    def post() -> int:
        connection = http.client.HTTPConnection("127.0.0.1", web.settings.port, timeout=60)
        with contextlib.suppress(ConnectionError):
            connection.request("POST", "/v1/runs", body, {"Content-Type": "application/json"})
            return connection.getresponse().status
        return 0

    with Watch(web) as watch:
        answers = at_once(BODIES, post)

    print(f"{BODIES} bodies of 2 MiB at once: {watch.more / MIB:+.1f} MiB; answers {sorted(answers)}")
    assert watch.more <= BAR
    assert set(answers) <= {0, 400, 413, 503}
    assert answers.count(0) <= BODIES // 4, "most get the reason"
    assert web.ask("/health")[0] == 200


def test_viewers_that_do_not_read_a_large_event(web: Web) -> None:
    run_id = web.ask("/v1/runs", {"agent": "assistant", "input": "Hello"})[2]["run_id"]
    journal = Journal(web.settings, publish=lambda message: None, guard=Guardrails)
    owner = RunOwner(journal, run_id)
    with Watch(web) as watch, contextlib.ExitStack() as stack:
        early = [stack.enter_context(unread(web, run_id)) for _ in range(VIEWERS // 2)]
        owner.finish("x" * LARGE_CHARS)
        late = [stack.enter_context(unread(web, run_id)) for _ in range(VIEWERS // 2)]
        time.sleep(3)  # everything that will be written has been
        reader = web.events(run_id)
        connection_count = sum(is_open(viewer) for viewer in early + late)
    journal.close()

    print(
        f"{VIEWERS} viewers of one event of 3 MB, unread: {watch.more / MIB:+.1f} MiB; {connection_count} are connected"
    )
    assert watch.more <= BAR
    assert len(reader[-1]["output"]) == LARGE_CHARS


def test_viewers_that_do_not_read_large_events_of_many_runs(web: Web, large_runs: list[str]) -> None:
    with Watch(web) as watch, contextlib.ExitStack() as stack:
        for run_id in large_runs:
            stack.enter_context(unread(web, run_id))
            time.sleep(0.1)  # a viewer a time, or reading all the logs is what is measured
        reader = web.events(large_runs[0])

    print(f"{len(large_runs)} viewers of as many events of 3 MB, unread: {watch.more / MIB:+.1f} MiB")
    assert watch.more <= BAR
    assert len(reader[-1]["output"]) == LARGE_CHARS


@pytest.mark.parametrize("path", ["/v1/runs?limit=20", "/v1/runs/{run_id}", "/v1/events"])
def test_readers_of_runs_with_large_outputs(web: Web, path: str, large_runs: list[str]) -> None:
    path = path.format(run_id=large_runs[0])

    def read() -> int:
        with socket.create_connection(("127.0.0.1", web.settings.port), timeout=10) as reader:
            reader.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            answer = reader.recv(64)
            with contextlib.suppress(TimeoutError, ConnectionError):
                reader.settimeout(3)
                while reader.recv(65536):
                    pass
            return int(answer[9:12])

    with Watch(web) as watch:
        answers = at_once(BODIES, read)

    print(f"{BODIES} readers of {path}: {watch.more / MIB:+.1f} MiB; answers {sorted(answers)}")
    assert watch.more <= BAR
    assert set(answers) <= {200, 503}


@contextlib.contextmanager
def unread(web: Web, run_id: str) -> Iterator[socket.socket]:
    """Hold a viewer that reads the beginning of its stream only."""
    with socket.socket() as viewer:
        viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        viewer.connect(("127.0.0.1", web.settings.port))
        viewer.sendall(f"GET /v1/runs/{run_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        viewer.settimeout(20)
        assert viewer.recv(64)
        yield viewer


def is_open(viewer: socket.socket) -> bool:
    """Tell whether the server has not reset the connection."""
    viewer.setblocking(False)
    try:
        return bool(viewer.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False
