"""References to secrets: where a value is, which is read when it is used and is kept nowhere."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from config.definitions.errors import SECRET_MISSING
from config.redaction import register_secrets
from config.settings import settings
from config.settings.reading import SECRETS_OF_TOOLS

REFERENCE = re.compile(
    r"secret://[A-Za-z0-9][A-Za-z0-9_.-]{0,63}|env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:/[^\0\n]{1,500}"
)
REFERENCE_FORM = (
    "`secret://` and a name, `env:` and the name of a worker's environment variable, or `file:` and an absolute path"
)
MAX_BYTES = 64 * 1024
"""Largest file of a secret."""


def resolve_secret(reference: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the value that a reference names, without line breaks at its end; None where there is none.

    The value is redacted from now on wherever this process writes, if it has six characters or more.
    """
    kind, _, location = reference.partition(":")
    if kind == "secret":
        value = _of_deployment(location.removeprefix("//"), environment)
    else:
        value = environment.get(location, "") if kind == "env" else _content(Path(location))
    value = value.rstrip("\r\n")
    if not value.strip() or "\0" in value:
        return None
    register_secrets([value])
    return value


def required_secret(name: str, reference: str) -> str:
    """Return the value that the reference of ``name`` leads to.

    Raises:
        SECRET_MISSING: it leads to nothing.
    """
    value = resolve_secret(reference)
    if value is None:
        raise SECRET_MISSING(name=name, reference=reference)
    return value


def _of_deployment(name: str, environment: Mapping[str, str]) -> str:
    """Return the value of the variable for this name, or of the file of this name among the deployment's secrets.

    The variable has the name in capitals, with ``_`` for ``-`` and ``.``.
    """
    variable = SECRETS_OF_TOOLS + name.upper().replace("-", "_").replace(".", "_")
    return environment.get(variable) or _content(Path(settings().secrets_dir) / name)


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
