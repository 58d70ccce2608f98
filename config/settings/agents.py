"""The settings of agents and of what they use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, field_validator

from config.egress.origins import listed
from config.settings.container_engine import engine_of, is_image
from config.settings.sources import ROOT, Part
from config.settings.tenants import AllowedHosts

_DATABASE = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,63})\s*=\s*((?!CALLBOARD_)[A-Za-z_][A-Za-z0-9_]{0,127})")


class AgentSettings(Part):
    """Part of ``Settings``."""

    agents_dir: str = "config/agents"
    """One or more folders of agent definitions, separated by ``:``; the first one that has an id wins."""
    celery_tasks_dir: str = "config/celery_tasks"
    """One or more folders with files of Celery applications whose tasks agents may call, separated by ``:``."""
    mcp_servers_dir: str = "config/mcp_servers"
    """One or more folders with files of MCP servers, separated by ``:``; nothing else starts a server."""
    default_agent: str = "assistant"
    """The agent of requests that name none."""
    plugins: str = ""
    """Comma-separated dotted paths of observers and tools (``package.module:Name``)."""
    tool_modules: str = Field(default=".", pattern=r"^\s*(\.|[A-Za-z_][\w.]*)?(\s*,\s*(\.|[A-Za-z_][\w.]*)?)*\s*$")
    """Comma-separated modules a definition may name by dotted path: ``.`` allows those of the working folder, a package
    allows all in it. Installed plugins and ``plugins`` are always allowed."""
    policy: str = "config/policy.yaml"
    """Files and folders of the policy's rules, separated by ``:``; of a folder its ``.yaml`` files. Empty: the shipped
    rules alone."""
    http_allowed_hosts: AllowedHosts = ""
    """Comma-separated hosts that the tools ``http_get`` and ``http_request`` may ask: names, ``*.example.org``, ``*``
    for every public host, networks; empty: every public host, and no private one."""
    sql_databases: str = ""
    """Comma-separated databases that the tool ``sql_query`` may ask: ``name=VARIABLE``, each with the variable of the
    workers that holds its URL."""
    sql_timeout_s: float = Field(default=10.0, gt=0, le=50)
    """Seconds that one query of ``sql_query`` may take."""
    sql_max_rows: int = Field(default=200, ge=1, le=10_000)
    """Rows of one answer of ``sql_query``."""
    capabilities_dir: str = "config/capabilities"
    """One or more folders of capability definitions, separated by ``:``."""
    containers: str = ""
    """The command that starts containers: ``podman`` or ``docker``, with options of its own where it needs some; empty:
    no container is started."""
    shell_image: str = ""
    """The container image of the tool ``shell``; empty: the tool cannot be used."""
    secrets_dir: str = "/run/secrets"
    """The folder with a file for each ``secret://NAME`` that no variable ``CALLBOARD_SECRET_NAME`` has."""
    guardrails_file: str = ""
    """A YAML file with what is checked and redacted in the runs of all agents; empty: secrets are replaced."""
    spans: bool = True
    """Whether the HTTP requests, SQL statements and file operations of a tool's call are recorded with its step."""
    builtins: bool = True
    """Whether the built-in observers and tools are available."""
    max_result_chars: int = Field(default=64_000, ge=1_000)
    """Characters of one tool result that the model gets; the log and the page have the whole result."""
    max_input_chars: int = Field(default=200_000, ge=1)
    """Longest input of a run."""
    fast_stream: bool = True
    """Whether model streams use the fast path; ``0`` sends all of them through LiteLLM's wrapper."""

    @field_validator("sql_databases")
    @classmethod
    def _are_databases(cls, value: str) -> str:
        for part in listed(value):
            if not _DATABASE.fullmatch(part):
                raise ValueError(
                    f"'{part.partition('=')[0][:60]}' has to be a name, '=' and the name of a variable that holds the "
                    "database's URL, such as shop=SHOP_DATABASE_URL; never the URL itself, and no variable of "
                    "Callboard's own"
                )
        return value

    @property
    def sql_variables(self) -> Mapping[str, str]:
        """The databases of ``sql_query``: each name's variable."""
        found = (_DATABASE.fullmatch(part) for part in listed(self.sql_databases))
        return {match[1]: match[2] for match in found if match is not None}

    @field_validator("containers")
    @classmethod
    def _is_an_engine(cls, value: str) -> str:
        engine_of(value)
        return value

    @field_validator("shell_image")
    @classmethod
    def _is_an_image(cls, value: str) -> str:
        if value and not is_image(value):
            raise ValueError("has to be an image's name, like registry.example.org/tools:1.0")
        return value

    @property
    def agent_folders(self) -> list[Path]:
        """The folders of agent definitions, absolute, in order."""
        return [(ROOT / part).resolve() for part in self.agents_dir.split(":") if part]

    @property
    def capability_folders(self) -> list[Path]:
        """The folders of capability definitions, absolute, in order."""
        return [(ROOT / part).resolve() for part in self.capabilities_dir.split(":") if part]

    @property
    def policy_places(self) -> list[Path]:
        """The files and folders of the policy, absolute, in order."""
        return [(ROOT / part).resolve() for part in self.policy.split(":") if part]

    @property
    def celery_tasks_folders(self) -> list[Path]:
        """The folders of Celery applications, absolute, in order."""
        return [(ROOT / part).resolve() for part in self.celery_tasks_dir.split(":") if part]

    @property
    def mcp_servers_folders(self) -> list[Path]:
        """The folders of MCP servers, absolute, in order."""
        return [(ROOT / part).resolve() for part in self.mcp_servers_dir.split(":") if part]

    @property
    def plugin_paths(self) -> list[str]:
        """The dotted paths of plugins, in order."""
        return listed(self.plugins)

    @property
    def tool_module_names(self) -> tuple[str, ...]:
        """The modules a dotted path may name, in order; ``.`` stands for those of the working folder."""
        return tuple(listed(self.tool_modules))
