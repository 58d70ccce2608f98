"""The settings of agents and their tools, of the MCP server, of a remote governance engine and of traces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from config.egress.errors import UrlRefused
from config.egress.origins import listed
from config.egress.target import Target, parse_target
from config.identity.context_fields import InitiatorId, TokenRef, roles_in
from config.identity.principal import Role
from config.settings.container_engine import engine_of, is_image
from config.settings.limits import AllowedHosts
from config.settings.servers import ServerSettings
from config.settings.sources import ROOT

_DATABASE = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,63})\s*=\s*((?!CALLBOARD_)[A-Za-z_][A-Za-z0-9_]{0,127})")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9\[][A-Za-z0-9.:_\]-]{0,255}(?:/[A-Za-z0-9._~/-]{0,200})?")
"""Without a user's name and a query."""
_HEADER, _HEADER_VALUE = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}"), re.compile(r"[\x20-\x7e]{1,4000}")


class AgentSettings(ServerSettings):
    """Part of ``Settings``; ``trusted_network`` applies to the engine's server, too."""

    agents_dir: str = "config/agents:config/goals:config/workflows"
    """One or more folders of agent definitions, separated by ``:``; the first one that has an id wins."""
    celery_tasks_dir: str = "config/celery_tasks"
    """One or more folders with files of Celery applications whose tasks agents may call, separated by ``:``."""
    mcp_servers_dir: str = "config/mcp_servers"
    """One or more folders with files of MCP servers, separated by ``:``; nothing else starts a server."""
    observers_file: str = "config/observers.yaml"
    """The file with the observers that tail the log."""
    webhooks_dir: str = "config/webhooks"
    """One or more folders with files of webhooks that others send, separated by ``:``; the first of a name counts."""
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
        matches = (_DATABASE.fullmatch(part) for part in listed(self.sql_databases))
        return {match[1]: match[2] for match in matches if match is not None}

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
    def webhooks_folders(self) -> list[Path]:
        """The folders of webhooks' definitions, absolute, in order."""
        return [(ROOT / part).resolve() for part in self.webhooks_dir.split(":") if part]

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

    # --- the MCP server

    mcp_capability_behavior: Literal["await", "start"] = "await"
    """What a call of an MCP client returns: ``await`` its result, ``start`` the run's id at once."""
    mcp_await_s: float = Field(default=45.0, gt=0, le=3600)
    """Seconds that a call waits for its result; then it returns the run's id. Most clients give up after 60."""
    mcp_api_key: SecretStr | None = None
    """The API key as whose principal ``./callboard mcp serve`` acts; None: as the installation's own."""

    mcp_initiator_id: InitiatorId | None = None
    """Whom the runs of ``./callboard mcp serve`` are for, a name for records that gives no right; None: its
    principal."""
    mcp_roles: str | None = None
    """Comma-separated roles that ``./callboard mcp serve`` acts with, of those that its principal has; ``none``: with
    none of them. None: with all."""
    mcp_token_ref: TokenRef | None = None
    """Names the credential behind the client of ``./callboard mcp serve``, never its text; None: that of its key."""
    mcp_status_url: str | None = None
    """How the addresses of runs begin in results of ``./callboard mcp serve``; None: ``public_url``."""

    @field_validator("mcp_api_key", "mcp_initiator_id", "mcp_roles", "mcp_token_ref", "mcp_status_url", mode="before")
    @classmethod
    def _nothing_is_none(cls, value: object) -> object:
        return value or None

    @field_validator("mcp_roles")
    @classmethod
    def _are_roles(cls, value: str | None) -> str | None:
        if value is not None:
            roles_in(value)
        return value

    @field_validator("mcp_status_url")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value is not None and not _ADDRESS.fullmatch(value):
            raise ValueError("it has to be an address without a query, such as https://callboard.example.org")
        return None if value is None else value.rstrip("/")

    @property
    def mcp_role_set(self) -> frozenset[Role] | None:
        """The roles that ``./callboard mcp serve`` acts with at most; None: all of its principal's."""
        return None if self.mcp_roles is None else roles_in(self.mcp_roles)

    # --- a remote governance engine

    governance_url: str | None = None
    """Address of the engine, whose ``/governance/evaluate`` is asked about each call. None: no engine is asked."""
    governance_api_key: SecretStr | None = None
    """What authenticates this deployment to the engine."""
    governance_policy: Literal["by_effect", "fail_open", "fail_closed"] = "by_effect"
    """What becomes of a call when the engine gives no usable answer: with ``by_effect``, calls of models and of pure
    tools are made, and others are not."""
    governance_timeout_s: float = Field(default=2.0, gt=0, le=2)
    """Seconds that one answer of the engine may take."""

    @field_validator("governance_url", "governance_api_key", mode="before")
    @classmethod
    def _no_engine_is_unset(cls, value: object) -> object:
        return value or None

    @model_validator(mode="after")
    def _engine_is_safe(self) -> Self:
        if self.governance_url is None:
            return self
        target = self._safe_target("CALLBOARD_GOVERNANCE_URL", self.governance_url, "calls and the key")
        if "?" in target.path:
            raise ValueError("CALLBOARD_GOVERNANCE_URL has to be an address without a query")
        return self

    def _safe_target(self, variable: str, url: str, what: str) -> Target:
        try:
            target = parse_target(url)
        except UrlRefused as error:
            raise ValueError(f"{variable} is no address: {error}") from error
        is_local = target.host == "localhost" or (target.address is not None and target.address.is_loopback)
        if target.scheme == "http" and not (is_local or self.trusted_network):
            raise ValueError(
                f"{variable} has to be an https:// address: {what} would be sent in plain text; http:// needs "
                "CALLBOARD_TRUSTED_NETWORK=true"
            )
        return target

    # --- the collector of traces

    traces_url: str | None = None
    """Address of the collector that the observer ``traces`` sends the traces of runs to over OTLP/HTTP; without a path
    ``/v1/traces``. None: there is none."""
    traces_headers: SecretStr | None = None
    """Headers of the requests to it, such as the one with its key: ``name=value``, ``,`` between them."""
    traces_content: bool = False
    """Whether traces have arguments, results and messages, and the statements and full addresses of operations."""

    @field_validator("traces_url", "traces_headers", mode="before")
    @classmethod
    def _no_collector_is_unset(cls, value: object) -> object:
        return value or None

    @model_validator(mode="after")
    def _collector_is_safe(self) -> Self:
        if self.traces_url is not None:
            self._safe_target("CALLBOARD_TRACES_URL", self.traces_url, "traces and the key")
        self.traces_header_map  # noqa: B018  # raises where it cannot be read
        return self

    @property
    def traces_address(self) -> str:
        """The address that spans are sent to; empty where there is no collector."""
        parts = urlsplit(self.traces_url or "")
        return (
            parts._replace(path="/v1/traces").geturl() if parts.netloc and parts.path in ("", "/") else parts.geturl()
        )

    @property
    def traces_header_map(self) -> dict[str, str]:
        """The headers of requests to the collector, whose values may have ``%2C`` for a comma."""
        written = self.traces_headers.get_secret_value() if self.traces_headers is not None else ""
        headers: dict[str, str] = {}
        for part in filter(None, (part.strip() for part in written.split(","))):
            name, equals, value = part.partition("=")
            if not equals or not _HEADER.fullmatch(name.strip()) or not _HEADER_VALUE.fullmatch(unquote(value.strip())):
                raise ValueError("CALLBOARD_TRACES_HEADERS has to be name=value, with ',' between several headers")
            headers[name.strip()] = unquote(value.strip())
        return headers
