"""Logins at the SDK's own servers, over both kinds of HTTP and in both eras of the protocol."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from agents.errors import McpLoginNeeded
from agents.testing import AgentKit
from agents.tools.mcp.oauth.login import log_out
from agents.tools.mcp.pool import McpPool
from tests.agents.tools.mcp.conftest import Run, said
from tests.agents.tools.mcp.oauth.conftest import Define, LogIn, process, sealer
from tests.ports import free_port

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]
SDK = Path(__file__).with_name("sdk_login_server.py")


@contextmanager
def served(kind: str, lifetime_s: int) -> Iterator[str]:
    """Yield the address of a server whose tokens live so long."""
    port = free_port()
    words = [sys.executable, str(SDK), kind, str(port), str(lifetime_s)]
    running = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        until_s = time.monotonic() + 20
        while time.monotonic() < until_s:
            try:
                httpx2.get(f"http://127.0.0.1:{port}/nothing")
                break
            except httpx2.TransportError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}"
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize(("kind", "mode"), [("http", "auto"), ("sse", "legacy")])
def test_a_login_is_used_renewed_and_ended(
    kit: AgentKit, login: LogIn, define: Define, run: Run, kind: str, mode: str
) -> None:
    with served(kind, 31) as url:  # a second, before it is renewed
        server = define(url=url, transport=kind, mode=mode)
        login(server=server)

        async def use(pool: McpPool) -> list[str]:
            async def call() -> str:
                return said(await pool.call("default", server, "whoami", {}))

            first = await call()
            again = [first]
            while again[-1] == first:
                await asyncio.sleep(0.2)
                again.append(await call())
            await log_out(process().journal.stores.mcp_logins, sealer(), "default", server, by="local")
            with pytest.raises(McpLoginNeeded):
                await call()
            return again

        texts = run(use)

    assert {text.split()[0] for text in texts} == {"ann"}
    assert len(set(texts)) == 2
