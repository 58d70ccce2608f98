"""Reads the settings of this process, and says what is wrong with one that cannot be used."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any

from dotenv import dotenv_values
from pydantic import ValidationError
from pydantic_settings import SettingsError

from config.errors import SettingInvalid
from config.identity.principal import NAME_FORM
from config.redaction import forget, register_secrets, secrets_in_url
from config.redaction.provider_keys import may_adopt
from config.redis.url import each_url
from config.settings.limits import problem_of_section
from config.settings.model import Settings
from config.settings.servers import QUEUE_NAME_FORM
from config.settings.sources import ROOT, reads_files, seed_of
from config.text.names import did_you_mean
from config.text.visible import one_line

SECRETS_OF_TOOLS = "CALLBOARD_SECRET_"
"""How variables begin that are secrets of tools (``config.definitions.secrets``), and no settings."""
OF_CALLS = frozenset(
    f"CALLBOARD_{name}" for name in "RUN_ID THREAD_ID CALL_ID IDEMPOTENCY_KEY CONFIG CORRELATION_ID".split()
)
"""Variables that a capability's program gets, and that the commands which it executes get from it."""
_FORMS = {
    "deployment": "has to be a name: 1 to 40 letters, digits, '_', '-' and '.'",
    "tenant": f"has to be {NAME_FORM}",
    "principal": f"has to be {NAME_FORM}",
    "observe": "has to be observers with commas between them, each a name or a dotted path",
    "queue": f"has to be {QUEUE_NAME_FORM}",
    "queues": f"has to be queues with commas between them, each {QUEUE_NAME_FORM}",
    "envelope_audience": "has to be at most 200 printable ASCII characters without spaces",
    "tool_modules": "has to be names of Python modules with commas between them",
}
"""Setting -> the form of its value, said in place of the regular expression that checks it."""


def adopt_env_file() -> None:
    """Add variables of ``.env`` that are not settings, such as a provider's key, unless the environment has them."""
    file = ROOT / ".env"
    if not reads_files() or not file.is_file():
        return
    for name, value in dotenv_values(file).items():
        if value is not None and not name.startswith("CALLBOARD_") and may_adopt(os.environ, name, value):
            os.environ.setdefault(name, value)
    forget()  # keys among them are secrets


def read_settings(**overrides: object) -> Settings:
    """Return the current settings.

    Raises:
        SettingInvalid: a value does not fit; the message names the variable.
    """
    try:
        new_settings = Settings(**overrides)  # type: ignore[arg-type]  # pydantic checks the values
    except tomllib.TOMLDecodeError as error:
        raise SettingInvalid(f"callboard.toml cannot be read: {error}. Correct the file.") from error
    except SettingsError as error:
        raise SettingInvalid(
            "CALLBOARD_TENANTS is not JSON; write an object of tenants, each with its settings, such as "
            '{"acme": {"tenant_open_runs": 100}}, or sections [tenants.acme] in callboard.toml.'
        ) from error
    except UnicodeEncodeError as error:  # bytes of the environment that are no text
        names = [name for name, value in os.environ.items() if not _is_text(value)]
        raise SettingInvalid(
            f"{one_line(min(names, default='a setting'))} cannot be used: it has to be UTF-8. Correct it in the "
            "environment."
        ) from error
    except ValidationError as error:
        raise SettingInvalid(_problem_of(error, overrides)) from error
    _register_secrets(new_settings)
    return new_settings


def _problem_of(error: ValidationError, overrides: Collection[str]) -> str:
    """Return a sentence about the first value that does not fit, and where to correct it."""
    first = error.errors(include_url=False)[0]
    if (section := problem_of_section(first)) is not None:
        return (
            f"CALLBOARD_TENANTS cannot be used: {section}{'' if section[-1] in '.?' else '.'} Correct the "
            "section in callboard.toml, or the JSON in the environment."
        )
    name = "_".join(str(part) for part in first["loc"])
    problem = _FORMS.get(name) or first["msg"].removeprefix("Value error, ")
    variable = f"CALLBOARD_{name.upper()}"
    if name not in overrides and (seed := seed_of(name, Settings)) is not None:
        variable = f"{seed}, read as {variable},"
    what = f"{variable} cannot be used{_shown(first)}: {problem}" if name else problem
    return f"{what.rstrip('.')}. Correct it in the environment, .env or callboard.toml."


def _register_secrets(chosen: Settings) -> None:
    """Have the secrets among the settings redacted wherever texts are."""
    for urls in filter(None, (chosen.redis_url, chosen.broker_url, chosen.database_url)):
        for url in each_url(urls):
            register_secrets(secrets_in_url(url))
    for secret in filter(None, (chosen.oidc_client_secret, chosen.governance_api_key, chosen.mcp_api_key)):
        register_secrets([secret.get_secret_value()])
    register_secrets(chosen.traces_header_map.values())
    if chosen.traces_url is not None:
        register_secrets(secrets_in_url(chosen.traces_url))
    register_secrets(secret.decode() for secret in chosen.envelope_key_map.values())
    if chosen.seal_keys is not None:
        register_secrets(key.strip() for key in chosen.seal_keys.get_secret_value().split(","))


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(error: Mapping[str, Any]) -> str:
    """Return the invalid value if it is short, and has no secret in it."""
    value = error.get("input")
    name = "".join(map(str, error["loc"]))
    is_secret = any(word in name for word in ("url", "databases", "keys", "token_ref"))  # a URL may hold a password
    return (
        f" ('{one_line(str(value))}')"
        if isinstance(value, str | int | float) and len(str(value)) <= 60 and not is_secret
        else ""
    )


def unknown_settings() -> list[str]:
    """Return a sentence for each name in the environment, ``.env`` and ``callboard.toml`` that no setting reads."""
    sentences = unknown_variables(os.environ)
    if reads_files():
        sentences += unknown_variables(dotenv_values(ROOT / ".env"), " in .env")
        offered = Settings.model_fields.keys() - {"no_auth"}
        sentences += [_unknown(name, " in callboard.toml", offered) for name in _names_in_toml()]
    return sentences


def unknown_variables(variables: Iterable[str], source: str = "") -> list[str]:
    """Return a sentence for each ``CALLBOARD_`` variable that no setting reads; ``source`` says where it stands."""
    names = {f"CALLBOARD_{name.upper()}" for name in Settings.model_fields} | OF_CALLS
    offered = names - OF_CALLS - {"CALLBOARD_NO_AUTH"}  # never suggested: it disables a protection
    return [
        _unknown(name, source, offered, "CALLBOARD_")
        for name in sorted(variables)
        if name.startswith("CALLBOARD_") and name not in names and not name.startswith(SECRETS_OF_TOOLS)
    ]


def _unknown(name: str, source: str, offered: Iterable[str], prefix: str = "") -> str:
    hint = did_you_mean(name, offered, prefix) or " docs/configuration.md lists the settings."
    return f"{name}{source} is not a setting.{hint}"


def _names_in_toml() -> list[str]:
    """Return the names in ``callboard.toml`` that are no settings; ``read_settings`` refuses what is not TOML."""
    try:
        document = tomllib.loads((ROOT / "callboard.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return sorted(document.keys() - Settings.model_fields.keys())


@lru_cache(maxsize=1)
def settings() -> Settings:
    """Return this process's settings, read once, after ``adopt_env_file``."""
    adopt_env_file()
    return read_settings()
