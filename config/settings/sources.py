"""Where settings come from: ``CALLBOARD_…`` variables of the environment, ``.env`` and ``callboard.toml``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from config.redaction import Redactor

ROOT = Path(__file__).resolve().parents[2]
"""The checkout's folder, from which Callboard runs."""
SEED_NAMES = {
    "AGENT_GOAL": "default_agent",
    "TEMPORAL_NAMESPACE": "deployment",
    "TEMPORAL_TASK_QUEUE": "queue",
    "TEMPORAL_UI_URL": "mcp_status_url",
    "ENABLE_DAGGER_E2E": "containers",
    "OPENBOX_URL": "governance_url",
    "OPENBOX_API_KEY": "governance_api_key",
    "OPENBOX_GOVERNANCE_POLICY": "governance_policy",
    "MCP_CAPABILITY_BEHAVIOR": "mcp_capability_behavior",
    "MCP_APP_ID": "app_id",
    "MCP_ENVIRONMENT": "environment",
    "MCP_COST_CENTER": "cost_center",
    "MCP_DATA_CLASSIFICATION": "data_classification",
    "MCP_INITIATOR_ID": "mcp_initiator_id",
    "MCP_ROLES": "mcp_roles",
    "MCP_TOKEN_REF": "mcp_token_ref",
    "MCP_ENVELOPE_HMAC_SECRET": "envelope_keys",
    "MCP_REQUIRE_ENVELOPE": "require_envelope",
    "DATABASE_POOL_SIZE": "database_pool_size",
    "DATABASE_MAX_OVERFLOW": "database_max_overflow",
}
"""Variables of Callboard's predecessors -> the setting that each one sets."""
SEED_NAMES_UNREAD = {
    "TEMPORAL_ADDRESS": "Callboard has no Temporal server; CALLBOARD_DATABASE_URL and CALLBOARD_REDIS_URL name its own",
}
"""Variables of Callboard's predecessors that set nothing -> why."""

_ON = ("1", "true", "yes", "on")
_PLAIN = Redactor({})
"""Replaces secrets of known forms, such as a password in a URL."""


class Part(BaseSettings):
    """A group of fields of ``Settings``. A field's variable is ``CALLBOARD_`` and its name in capitals."""

    model_config = SettingsConfigDict(
        env_prefix="CALLBOARD_",
        env_file=ROOT / ".env",
        toml_file=ROOT / "callboard.toml",
        extra="ignore",
        frozen=True,
        defer_build=True,
    )

    no_config: bool = False
    """Ignore ``.env`` and ``callboard.toml``; can be set in the environment only."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the fields of ``repr``, which a traceback with local variables has, without the passwords of URLs."""
        for name, value in super().__repr_args__():
            yield name, _PLAIN(value) if isinstance(value, str) else value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        seeds = {name: _seed_value(seed) for seed, name in SEED_NAMES.items() if os.environ.get(seed)}
        if not reads_files():
            seeds["no_config"] = "true"
            no_file = TomlConfigSettingsSource(settings_cls, toml_file=None)
            files: tuple[PydanticBaseSettingsSource, ...] = (no_file,)
        else:
            files = dotenv_settings, TomlConfigSettingsSource(settings_cls)
        from_environment = (env_settings,) if _has_variables() else ()
        return init_settings, *from_environment, *files, InitSettingsSource(settings_cls, seeds)


def seed_of(setting: str, settings_cls: type[Part]) -> str | None:
    """Return the predecessor's variable that a setting is read from; None if another source has the setting."""
    files = (DotEnvSettingsSource(settings_cls), TomlConfigSettingsSource(settings_cls)) if reads_files() else ()
    if any(setting in source() for source in (EnvSettingsSource(settings_cls), *files)):
        return None
    return next((seed for seed, name in SEED_NAMES.items() if name == setting and os.environ.get(seed)), None)


def _seed_value(seed: str) -> str:
    """Return what a variable of a predecessor sets; ``ENABLE_DAGGER_E2E`` is a switch, and here an engine is named."""
    value = os.environ[seed]
    if seed != "ENABLE_DAGGER_E2E":
        return value
    is_docker = shutil.which("podman") is None and shutil.which("docker") is not None
    return ("docker" if is_docker else "podman") if value.lower() in _ON else ""


def _has_variables() -> bool:
    """Return whether the environment has another setting than ``no_config``: looking for each of a hundred takes
    milliseconds."""
    names = {name.upper() for name in os.environ} - {"CALLBOARD_NO_CONFIG"}
    return any(name.startswith("CALLBOARD_") for name in names)


def reads_files() -> bool:
    """Return whether ``.env`` and ``callboard.toml`` are read; ``CALLBOARD_NO_CONFIG=1`` disables both."""
    return os.environ.get("CALLBOARD_NO_CONFIG", "").lower() not in _ON
