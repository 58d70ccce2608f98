"""Refuse credentials in an agent's ``params``, since the file is version-controlled and stored with runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from config.redaction import redact

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
