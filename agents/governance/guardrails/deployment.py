"""The deployment's own guardrails, a YAML file that a setting names, and those of a run: the file's and its agent's."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from agents.governance.guardrails.guardrails import PLAIN, Guardrails
from config.definitions.errors import DefinitionInvalid, DefinitionUnreadable
from config.definitions.guardrails.checks import GuardrailFields
from config.definitions.yaml_lines import dotted, read_yaml
from config.errors import SettingInvalid
from config.settings import ROOT, Settings
from config.watched_files import FileStamp, stamp_of


def guardrails_of(settings: Settings, agent: GuardrailFields = PLAIN) -> GuardrailFields:
    """Return the guardrails of an agent's runs: the stricter of the deployment's and the agent's, check by check.

    Raises:
        SettingInvalid: the deployment's file cannot be used.
        DefinitionUnreadable: the system does not let this process read it now.
    """
    if not settings.guardrails_file:
        return agent
    path = (ROOT / settings.guardrails_file).resolve()
    try:
        stamp = stamp_of(path)
    except FileNotFoundError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from error
    except OSError as error:
        raise DefinitionUnreadable.of(path, error) from error
    return _joined(_read(path, stamp), agent)


def guard_of(settings: Settings) -> Guardrails:
    """Return what checks a person's answers: the guardrails of the deployment, as they are now.

    Raises:
        SettingInvalid, DefinitionUnreadable: as ``guardrails_of``.
    """
    return Guardrails(guardrails_of(settings))


@lru_cache(maxsize=256)
def _joined(deployment: GuardrailFields, agent: GuardrailFields) -> GuardrailFields:
    return deployment.stricter(agent)


@lru_cache(maxsize=4)
def _read(path: Path, stamp: FileStamp) -> GuardrailFields:
    """Return the file's checks; ``stamp`` makes an edited file be read again."""
    del stamp
    try:
        return GuardrailFields.model_validate(read_yaml(path, "`input: ...` or `output: ...`").data)
    except DefinitionUnreadable:
        raise
    except DefinitionInvalid as error:
        raise _unusable(path, str(error)) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _unusable(path, f"{dotted(first['loc'])}: {first['msg']}") from error


def _unusable(path: Path, problem: str) -> SettingInvalid:
    return SettingInvalid(f"the file of CALLBOARD_GUARDRAILS_FILE, {path}, cannot be used: {problem}.")
