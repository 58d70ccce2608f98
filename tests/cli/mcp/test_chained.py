"""An agent uses the tools of another Callboard, which `mcp serve` serves."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from agents.runner import Runner
from agents.tools.mcp.pool import close_pools
from agents.tools.mcp.tool_builder import mcp_tools
from config.database.migrate import migrate
from config.effects import Effect
from tests.cli.mcp.conftest import Installation

pytestmark = pytest.mark.parity

AGENT = "name: Caller\nmodel: demo/assistant\nsystem_prompt: You are a test.\ntools: ['mcp:other']\n"


def test_a_tool_of_another_callboard_has_its_effect_class_there_and_the_trace_of_its_run_here(
    installation: Installation, tmp_path: Path
) -> None:
    here = Installation(tmp_path / "here")
    for name in ("agents", "servers"):
        (here.folder / name).mkdir(parents=True)
    (here.folder / "agents" / "tester.yaml").write_text(AGENT)
    variables = [f"{name}={value}" for name, value in installation.environment().items()]
    program = [sys.executable, "-P", "-m", "cli", "mcp", "serve"]
    server = {"command": "env", "args": ["-i", *variables, *program], "trusted_hints": True}
    (here.folder / "servers" / "other.yaml").write_text(yaml.safe_dump(server))
    settings = here.settings.model_copy(update={"mcp_servers_dir": str(here.folder / "servers")})
    migrate(settings)

    with closing(Runner.open(settings)) as runner:
        effects = {name: mcp_tools(f"mcp:other/{name}", settings)[0].effect for name in ("calculator", "book")}
        handle = runner.call_tool("calculator", {"expression": "17 * 23"})
        state = handle.result(60).output
        trace_id = runner.journal.readers.runs.get(runner.principal, handle.run_id)["trace_id"]
        close_pools()

    assert effects == {"calculator": Effect.PURE, "book": Effect.KEYED}
    assert (state["status"], state["output"], state["trace_id"]) == ("succeeded", "391", trace_id)
    with closing(Runner.open(installation.settings)) as runner:
        assert [run["run_id"] for run in runner.journal.readers.runs.newest(runner.principal)] == [state["run_id"]]
