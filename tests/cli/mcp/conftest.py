"""A folder with an agent, and what starts `mcp serve` on it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from mcp import StdioServerParameters

from config.database.migrate import migrate
from config.settings import Settings
from tests.fleet import bare_environment
from tests.processes import folder_variables

AGENT = """\
name: Tester
description: Tests.
model: demo/assistant
system_prompt: You are a test.
tools: [calculator, 'tests.cli.mcp.noisy_tools:shout', 'tests.cli.mcp.noisy_tools:take_long',
  'tests.cli.mcp.noisy_tools:book']
"""


@dataclass(frozen=True)
class Installation:
    """A state folder with one agent, without workers."""

    folder: Path

    @property
    def settings(self) -> Settings:
        return Settings(
            _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own; a developer's .env is not the tests'
            state_dir=self.folder / "state",
            agents_dir=str(self.folder / "agents"),
            default_agent="tester",
        )

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a process of this installation."""
        return bare_environment(CALLBOARD_DEFAULT_AGENT="tester", **folder_variables(self.folder), **more)

    def parameters(
        self, arguments: tuple[str, ...] = ("mcp", "serve"), env: Mapping[str, str] | None = None
    ) -> StdioServerParameters:
        """Return how an SDK's client starts the command, in a folder that is none of ours."""
        return StdioServerParameters(
            command=sys.executable,
            args=["-P", "-m", "cli", *arguments],
            env=self.environment(**(env or {})),
            cwd="/",
        )


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "tester.yaml").write_text(AGENT)
    new_installation = Installation(tmp_path)
    migrate(new_installation.settings)
    return new_installation
