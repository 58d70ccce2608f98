"""A server with logins, and agents that use it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.catalogue import forget
from agents.process import Process, opened_process
from agents.testing import AgentKit
from agents.tools.mcp.oauth import tokens
from agents.tools.mcp.oauth.login import keep_login, log_in
from agents.tools.mcp.pool import close_pools
from bus.sealing import Sealer, sealer_of
from config.definitions.mcp.server import McpServerDefinition, load_server
from tests.agents.tools.mcp.oauth.login_server import LoginServer, browse, guarding

Define = Callable[..., McpServerDefinition]
LogIn = Callable[..., None]


@pytest.fixture
def guarded() -> Iterator[LoginServer]:
    with guarding() as server:
        yield server


@pytest.fixture
def define(tmp_path: Path, guarded: LoginServer) -> Define:
    """Writes the server's file, and returns what it says."""

    def defined(name: str = "guarded", **fields: Any) -> McpServerDefinition:
        folder = tmp_path / "mcp_servers"
        folder.mkdir(exist_ok=True)
        content = {"url": guarded.url, "oauth": {}, "mode": "legacy", "start_s": 10, "trusted_hints": True, **fields}
        path = folder / f"{name}.yaml"
        path.write_text(json.dumps(content))
        return load_server(path)

    return defined


@pytest.fixture
def kit(tmp_path: Path, define: Define, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentKit]:
    """An agent that may ask the server who it is."""
    define()
    monkeypatch.setattr(tokens, "KNOWN_S", 0.0)
    key = base64.b64encode(bytes(32)).decode()
    with AgentKit(settings={"mcp_servers_dir": str(tmp_path / "mcp_servers"), "seal_keys": key}) as agent_kit:
        agent_kit.agent(tools=["mcp:guarded"])
        yield agent_kit
    close_pools()
    forget()


@pytest.fixture
def login(kit: AgentKit, define: Define, guarded: LoginServer) -> LogIn:
    """Logs a person in."""

    def logged_in(person: str = "ann", tenant: str = "default", server: McpServerDefinition | None = None) -> None:
        guarded.person = person
        definition = server or define()
        account = asyncio.run(log_in(definition, browse, timeout_s=10))
        keep_login(process().journal.stores.mcp_logins, sealer(), tenant, definition, account, by="local")

    return logged_in


def process() -> Process:
    opened = opened_process()
    assert opened is not None
    return opened


def sealer() -> Sealer:
    token_sealer = sealer_of(process().settings)
    assert token_sealer is not None
    return token_sealer
