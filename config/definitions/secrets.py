"""Secrets of a definition: references to where they are, and no credentials in ``params``.

A reference is read when the value is used, and the value is kept nowhere. An agent's file is version-controlled and
stored with runs, so it may not have a credential itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from config.definitions.errors import SECRET_MISSING
from config.redaction import redact, register_secrets
from config.settings import settings
from config.settings.loader import SECRETS_OF_TOOLS

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


_HEADERS = re.compile(r"headers$", re.IGNORECASE)
"""LiteLLM's and the providers' parameters for headers: ``headers``, ``extra_headers``, ``default_headers``."""
_NAME = re.compile(
    r"api[-_]?key$|access[-_]?key(?:[-_]id)?$|secret[-_]?key$|private[-_]?key$|subscription[-_]?key$"
    r"|(?:access|auth|ad|bearer|id|refresh|session|security)[-_]?token$"
    r"|secret$|password$|passwd$|passphrase$|authorization$|credentials?$|^cookie$|^token$",
    re.IGNORECASE,
)
_HEADER_NAME = re.compile(
    r"auth(?!or(?!i))|token|secret|passw|cookie|credential|signature|api-?key|(?:^|[-_])key$", re.IGNORECASE
)
_HARMLESS_HEADERS = re.compile(r"(?:idempotency|cache)-key$|^x-amz-signature-version$", re.IGNORECASE)
_EXAMINED_CHARS = 8192
"""Characters of a value that are examined."""
_RANDOM = re.compile(r"[A-Za-z0-9+/=]{24,}")
"""An unbroken sequence that, if it mixes letters and digits, is no word, version or date."""


def require_no_credentials(params: Mapping[str, Any]) -> None:
    """Return if ``params`` have no credential at any depth.

    Raises:
        ValueError: names the parameter or header and the remedy, never the value.
    """
    for name, value, in_headers in _items(params, in_headers=False):
        if in_headers and not isinstance(value, str):
            raise ValueError(f"the header `{name}` has to be text")
        if isinstance(value, str) and value and _is_credential(name, value, in_headers):
            what = "header" if in_headers else "parameter"
            raise ValueError(f"the {what} `{name}` carries a credential; name its variable as `api_key_env:`")


def _items(value: Any, *, in_headers: bool) -> Iterator[tuple[str, Any, bool]]:
    """Yield each name with its value, and whether it is a header."""
    if isinstance(value, list):
        for item in value:
            yield from _items(item, in_headers=False)
    if not isinstance(value, Mapping):
        return
    for name, item in value.items():
        yield name.strip(), item, in_headers
        are_headers = not in_headers and _HEADERS.search(name) is not None
        if are_headers and not isinstance(item, Mapping):
            raise ValueError(f"`{name}` has to be a mapping of text to text")
        yield from _items(item, in_headers=are_headers)


def _is_credential(name: str, value: str, in_headers: bool) -> bool:
    if value.startswith("os.environ/"):  # names a variable
        return False
    if not in_headers and value.startswith(("/", "./", "~/")):  # a file; no header is read from one
        return False
    value = value[:_EXAMINED_CHARS]
    if not in_headers:
        return _NAME.search(name) is not None or redact(value) != value
    if _HEADER_NAME.search(name) and not _HARMLESS_HEADERS.search(name):
        return True
    return redact(value) != value or any(_is_mixed(run) for run in _RANDOM.findall(value))


def _is_mixed(run: str) -> bool:
    return any(char.isdigit() for char in run) and any(char.isalpha() for char in run)
