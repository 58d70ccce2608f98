"""A login made by the command, used and renewed by real workers, whose agent also reads a server's resources."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import SecretStr

from bus.payloads import ToolResultPayload
from config.folders import ROOT
from config.settings import Settings
from tests.agents.tools.mcp.oauth.login_server import browse, guarding
from tests.app_harness import AppHarness
from tests.fleet import Worker, environment
from tests.model_server import Call, Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]
SDK = ROOT / "tests" / "agents" / "tools" / "mcp" / "sdk_server.py"


def test_workers_use_and_renew_a_login_and_read_resources(
    fleet_settings: Settings, fleet_harness: AppHarness, tmp_path: Path
) -> None:
    more = {"mcp_servers_dir": str(tmp_path), "seal_keys": SecretStr(base64.b64encode(bytes(32)).decode())}
    ours = fleet_settings.model_copy(update=more)
    fleet_harness.agent("tools: ['mcp:guarded']\nresources: ['mcp:shop/docs://*']")
    docs = {"command": sys.executable, "args": [str(SDK), "stdio"], "start_s": 30}
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(docs))
    with guarding() as server:
        login = {"url": server.url, "oauth": {}, "mode": "legacy", "start_s": 20}
        (tmp_path / "guarded.yaml").write_text(yaml.safe_dump(login))
        server.lifetime_s = 0
        log_in(ours)
        server.lifetime_s = 3600

        read = Call(name="shop_read_resource", arguments={"uri": "docs://readme"})
        fleet_harness.model.script([Turn(calls=[Call(name="whoami", arguments={}), read]), Turn(text="Done.")])
        with Worker(ours, "--concurrency", "2", log=ours.state / "worker.log"):
            handle = fleet_harness.run(detached=True)
            end = handle.result(120)

        results = [event.result for event in handle.events() if isinstance(event, ToolResultPayload)]
        secrets = [*server.tokens, *server.refreshes]

    assert (end.status, end.output) == ("succeeded", "Done.")
    text = next(result["contents"][0]["text"] for result in results if result != "ann")
    assert text.startswith("Read me.")
    assert "ann" in results
    assert len(server.asked_for("refresh_token")) == 1
    written = (ours.state / "worker.log").read_text() + str(handle.events())
    assert not [secret for secret in secrets if secret in written]


def log_in(settings: Settings) -> None:
    """Run the command, and be the person at the browser."""
    command = [sys.executable, "-P", "-m", "cli", "mcp", "login", "guarded", "--no-browser"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(settings) | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        url = next(line for line in running.stdout if line.startswith("http"))
        browse(url.strip())
        output = running.stdout.read()
    assert running.returncode == 0
    assert "logged in at guarded" in output
