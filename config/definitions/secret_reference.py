"""References to secrets: where a value is, which is read when it is used and is kept nowhere."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from config.redaction import register_secrets

REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:/[^\0\n]{1,500}")
REFERENCE_FORM = "`env:` and the name of a worker's environment variable, or `file:` and an absolute path"
MAX_BYTES = 64 * 1024
"""Largest file of a secret."""


def resolve_secret(reference: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the value that a reference names, without line breaks at its end; None where there is none.

    The value is redacted from now on wherever this process writes.
    """
    kind, _, place = reference.partition(":")
    value = environment.get(place, "") if kind == "env" else _content(Path(place))
    value = value.rstrip("\r\n")
    if not value.strip() or "\0" in value:
        return None
    register_secrets([value])
    return value


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
