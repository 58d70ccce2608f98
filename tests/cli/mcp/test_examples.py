"""The files of MCP servers that users copy, and the one that is there and disabled."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from agents.catalogue import forget
from agents.runner import Runner
from agents.tools.mcp.calls.call import to_value
from agents.tools.mcp.pool import close_pools
from agents.tools.mcp.server_session import MCPClientManager, MCPServerDefinition, mcp_list_tools
from bus.loop import process_loop
from config.database.migrate import migrate
from config.definitions.mcp.server import load_server, read_servers
from config.folders import ROOT
from config.settings import Settings

FOLDER = ROOT / "docs" / "examples" / "mcp_servers"
COMMANDS = ("reserve: article A-1001, pieces 2", "stock_of: article A-1001")
FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_file_describes_a_server(file: Path) -> None:
    server = load_server(file)

    assert not server.disabled
    assert server.included_tools is None or all(server.includes(tool) for tool in server.tools)
    assert f"examples/mcp_servers/{file.name}" in (ROOT / "docs" / "mcp-servers.md").read_text()


def test_the_server_that_is_there_is_disabled(settings: Settings) -> None:
    servers, broken = read_servers([ROOT / "config" / "mcp_servers"])

    assert not broken
    assert {name: server.disabled for name, server in servers.items()} == {"stripe": True}
    assert ROOT / settings.mcp_servers_dir == ROOT / "config" / "mcp_servers"


@pytest.fixture
def stock() -> MCPServerDefinition:
    """The server in Python, with this interpreter."""
    return load_server(FOLDER / "stock.yaml").model_copy(update={"command": sys.executable})


@pytest.mark.parity
def test_the_server_in_python_is_listed_by_the_first_designs_names(stock: MCPServerDefinition) -> None:
    tools = process_loop().run(mcp_list_tools(stock))
    chosen = process_loop().run(mcp_list_tools(stock, ["reserve"]))

    assert set(tools) == {"stock_of", "reserve"}
    assert tools["stock_of"]["input_schema"]["required"] == ["article"]
    assert set(chosen) == {"reserve"}


@pytest.mark.parity
def test_the_server_in_python_is_called_and_ended(stock: MCPServerDefinition) -> None:
    async def use() -> list[object]:
        manager = MCPClientManager("default")
        try:
            session = await manager.start_server(stock)
            assert await manager.start_server(stock) is session
            left = await session.call("reserve", {"article": "A-1001", "pieces": 2})
            return [to_value(left), to_value(await session.call("stock_of", {"article": "A-1001"}))]
        finally:
            await manager.cleanup()
            assert not session.life.is_usable

    assert process_loop().run(use()) == [{"result": 10}, {"result": 10}]


@pytest.mark.parity
def test_the_demo_model_names_the_tools_of_the_server_in_python_and_calls_them(
    settings: Settings, stock: MCPServerDefinition, tmp_path: Path
) -> None:
    shutil.copy(FOLDER / "stock_server.py", tmp_path)
    (tmp_path / "stock.yaml").write_text(f"{{command: {sys.executable}, args: {[*stock.args]}, trusted_hints: true}}")
    (tmp_path / "agents").mkdir(exist_ok=True)
    words = "{name: K, model: demo/instant, system_prompt: You help., tools: [calculator, 'mcp:stock'], starters: [Go]}"
    (tmp_path / "agents" / "keeper.yaml").write_text(words)
    ours = {"agents_dir": str(tmp_path / "agents"), "mcp_servers_dir": str(tmp_path)}
    migrate(settings)
    runner = Runner.open(settings.model_copy(update=ours))
    outputs = [runner.run(text, "keeper").result(30).output for text in ("Hello", *COMMANDS)]
    runner.close()
    close_pools()
    forget()

    assert "- Stock of: article …\n- Reserve: article …, pieces …\n- Go" in outputs[0]
    assert ["- result: 10" in answer for answer in outputs[1:]] == [True, True], outputs
