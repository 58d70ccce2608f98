"""A name server that does not answer holds up the tenant that asks it, and nothing else."""

import ast
import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeGuard

import pytest

from config.egress import lookup
from config.egress.errors import HostUnreachable
from config.egress.fetch import Fetcher
from config.egress.lookup import MOST_AT_ONCE, Resolver, resolver_of
from config.egress.request import Outgoing
from config.egress.target import parse_target
from config.errors import ModelVisible
from config.folders import ROOT

PUBLIC = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 80))]


class NameServer:
    """Answers at once, except for names that begin with ``hangs``."""

    def __init__(self) -> None:
        self.hanging: list[str] = []
        self.released = threading.Event()

    def answer(self, host: str, *_: object, **__: object) -> object:
        if not host.startswith("hangs"):
            return PUBLIC
        self.hanging.append(host)
        self.released.wait(20)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server.answer)
    yield server
    server.released.set()


def fetch(host: str, resolver: Resolver) -> asyncio.Task[object]:
    request = Outgoing(method="GET", target=parse_target(f"http://{host}/"))
    return asyncio.create_task(Fetcher(resolver=resolver).fetch(request))


def test_look_ups_that_hang_hold_up_no_other_tenant_and_no_other_work(names: NameServer) -> None:
    async def run() -> None:
        hanging = [fetch(f"hangs-{number}.example", resolver_of("a")) for number in range(40)]
        await asyncio.sleep(0)

        async with asyncio.timeout(10):
            assert await resolver_of("b")("shop.example", 80) == ["93.184.216.34"]
            assert await asyncio.to_thread(lambda: 7) == 7
            addresses = await asyncio.get_running_loop().getaddrinfo("models.example", 443)

        assert addresses == PUBLIC
        assert len(names.hanging) == MOST_AT_ONCE
        for task in hanging:
            task.cancel()
        names.released.set()
        await asyncio.gather(*hanging, return_exceptions=True)

    asyncio.run(run())


def test_a_look_up_has_its_time_and_holds_its_place_until_the_name_server_answers(
    names: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "LOOKUP_S", 0.2)
    own = resolver_of("a")

    async def run() -> None:
        tasks = [fetch(f"hangs-{number}.example", own) for number in range(MOST_AT_ONCE + 1)]
        for task in tasks:
            with pytest.raises(HostUnreachable, match=r"hangs-\d\.example was not looked up within"):
                await task
        assert len(names.hanging) == MOST_AT_ONCE
        with pytest.raises(TimeoutError):
            await own("shop.example", 80)

        names.released.set()
        monkeypatch.setattr(lookup, "LOOKUP_S", 20.0)
        assert await own("shop.example", 80) == ["93.184.216.34"]

    asyncio.run(run())


def test_a_machine_without_threads_looks_up_nothing(names: NameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoThread:
        def __init__(self, **_: object) -> None: ...

        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(lookup, "Thread", NoThread)

    async def run() -> None:
        for _ in range(MOST_AT_ONCE + 1):
            with pytest.raises(OSError, match="no thread"):
                await resolver_of("a")("shop.example", 80)

    asyncio.run(run())


def test_the_loop_may_end_before_a_look_up(names: NameServer) -> None:
    async def run() -> None:
        task = fetch("hangs.example", resolver_of("a"))
        while not names.hanging:
            await asyncio.sleep(0.001)
        task.cancel()
        with suppress(asyncio.CancelledError, ModelVisible):
            await task

    asyncio.run(run())
    names.released.set()
    for thread in threading.enumerate():
        if thread.name == "callboard-lookup":
            thread.join(10)


@pytest.mark.parity
def test_every_request_of_an_agent_says_whose_look_up_it_is() -> None:
    files = (path for folder in ("agents", "handlers", "web") for path in (ROOT / folder).rglob("*.py"))
    calls = [(path, node) for path in files for node in ast.walk(ast.parse(path.read_text())) if is_fetcher(node)]

    assert [path for path, call in calls if "resolver" not in {word.arg for word in call.keywords}] == []
    assert len(calls) == 4


def is_fetcher(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Fetcher"
