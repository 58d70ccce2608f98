"""The public conformance suite of MCP against `/mcp`, and with agents as its client, in both eras of the protocol."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from pydantic import SecretStr

from agents.tools.mcp.oauth import flow, login
from config.folders import ROOT
from config.settings import Settings
from tests.agents.tools.mcp.conftest import FAKE
from tests.app_harness import AppHarness
from tests.fleet import Worker, environment
from tests.journeys.web_server import Web
from tests.mcp_suite import remarks
from tests.mcp_suite.bridge import bridge
from tests.mcp_suite.driver import LocalAsker, ScenarioDriver
from tests.mcp_suite.environment import require_suite
from tests.mcp_suite.page import OPTION, Results, compare, section
from tests.mcp_suite.remarks import ON_STDIO
from tests.mcp_suite.server_tools import SCHEMA, SCHEMA_TOOL, TOOLS
from tests.mcp_suite.suite import ERAS, ScenarioResult, SuiteRun
from tests.ports import free_port

pytestmark = [pytest.mark.journey, pytest.mark.timeout(300)]

SEAL_KEY = SecretStr(base64.b64encode(bytes(32)).decode())


@pytest.fixture(scope="module", autouse=True)
def suite() -> None:
    """The suite, installed."""
    require_suite()


@pytest.fixture(scope="module")
def fleet_settings(fleet_settings: Settings) -> Settings:
    """A deployment with MCP servers and a web process of its own."""
    servers = fleet_settings.state.parent / "servers"
    servers.mkdir()
    more = {"mcp_servers_dir": str(servers), "port": free_port(), "default_agent": "suite", "seal_keys": SEAL_KEY}
    return fleet_settings.model_copy(update=more)


@pytest.fixture
def agents(fleet_settings: Settings) -> Path:
    """The folder of agents, with one that has the tools of the suite."""
    folder = Path(fleet_settings.agents_dir.split(":")[0])
    folder.mkdir(exist_ok=True)
    offered = {"FAKE_TOOLS": json.dumps({SCHEMA_TOOL: {"inputSchema": SCHEMA}})}
    server = {"command": sys.executable, "args": ["-I", str(FAKE)], "env": offered}
    (fleet_settings.mcp_servers_folders[0] / "schemas.yaml").write_text(yaml.safe_dump(server))
    agent = {"name": "Suite", "model": "demo/assistant", "system_prompt": "You are a test."}
    (folder / "suite.yaml").write_text(yaml.safe_dump(agent | {"tools": [*TOOLS, "mcp:schemas"]}))
    return folder


@pytest.fixture
def web(fleet_settings: Settings, fleet_harness: AppHarness, agents: Path) -> Iterator[Web]:
    """A web process, with a worker that has the agent; neither opens what the client's logins are sealed with."""
    settings = fleet_settings.model_copy(update={"seal_keys": None})
    with Worker(settings, log=settings.state / "worker.log"), Web(settings) as process:
        yield process


def test_the_server(web: Web, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    suite = SuiteRun.of_server(tmp_path, f"{web.address}/mcp")
    results = {era: suite.results(era) for era in ERAS}

    results[ERAS[0]] = [
        *(result for result in results[ERAS[0]] if result.name not in ON_STDIO),
        *_on_stdio(web.settings, tmp_path),
    ]
    _require("The server", results, remarks.SERVER, request)


def _on_stdio(settings: Settings, folder: Path) -> list[ScenarioResult]:
    """Return the results of the scenarios for which the server needs a session."""
    variables = environment(settings) | {"PYTHONPATH": str(ROOT)}
    with bridge(variables, len(ON_STDIO)) as url:
        suite = SuiteRun.of_server(folder / "stdio", url)
        return [suite.result(name, ERAS[0]) for name in ON_STDIO]


def test_the_client(
    fleet_harness: AppHarness,
    agents: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (flow, login):
        monkeypatch.setattr(module, "OAuthAsker", LocalAsker)
    with ScenarioDriver(fleet_harness.runner, agents, tmp_path).serving() as port:
        suite = SuiteRun.of_client(tmp_path, port)

        _require("The client", {era: suite.results(era) for era in ERAS}, remarks.CLIENT, request)


def _require(title: str, by_era: Results, explanations: Mapping[str, str], request: pytest.FixtureRequest) -> None:
    """Fail unless every scenario passes or is known not to apply, as the page says."""
    wrong = [f"{era}: {line}" for era in ERAS for outcome in by_era[era] for line in outcome.unexplained(explanations)]
    named = {name for results in by_era.values() for result in results for name in result.named()}
    wrong += [f"{remark_name} passes, and is said not to apply" for remark_name in explanations.keys() - named]
    assert not wrong, "\n".join(wrong)
    page_section = section(title, by_era, explanations)
    print(page_section)
    compare(title, page_section, write=request.config.getoption(OPTION))
