"""JSON data without secrets: each text in it is cleaned, and fields that are named like secrets are replaced."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from config.redaction import REDACTED, Redactor, own_redactor

MAX_DEPTH = 64
"""Levels of data that are looked at; what is deeper is replaced by ``CUT``."""
CUT = "..."
SECRET_NAMES = "(?i)passw|api|access|auth|secret|token|bearer|basic|jwt"
"""What names of fields have for which it is worth to look at name and value together."""
_HAS_MARK = re.compile(SECRET_NAMES)


@dataclass(frozen=True, slots=True)
class Detection:
    """A check that found something."""

    name: str
    action: Literal["redact", "block"]


class TextScan(Protocol):
    """Cleans one text."""

    @property
    def of_secrets(self) -> Detection:
        """What is reported of a secret."""
        ...

    def clean(self, text: str) -> tuple[str, list[Detection]]:
        """Return the text with ``[redacted]`` in place of what was found, and the checks that found it."""
        ...

    def is_marked(self, name: str, text: str) -> bool:
        """Return whether a field's name says that its text is a secret."""
        ...


class SecretScan:
    """Finds secrets and nothing else, as the guardrails do where nothing is configured."""

    of_secrets = Detection("secrets", "redact")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def clean(self, text: str) -> tuple[str, list[Detection]]:
        clean_text = self._redactor.likely(text)
        return clean_text, [] if clean_text == text else [self.of_secrets]

    def is_marked(self, name: str, text: str) -> bool:
        written = f"{name}={text}"
        return self._redactor.whole(written) != written


def without_secrets(data: Any) -> Any:
    """Return JSON data without secrets."""
    return cleaned_data(SecretScan(own_redactor()), data, [])


def cleaned_data(scan: TextScan, value: Any, detections: list[Detection], name: str = "", depth: int = 0) -> Any:
    """Return JSON data with its texts cleaned, and add what was found; ``name`` is the field's.

    A field whose name marks its value as a secret (``password``) is replaced as a whole.
    """
    if isinstance(value, str):
        return _cleaned_text(scan, value, detections, name)
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        text = _cleaned_text(scan, str(value), detections, "") if abs(value) >= 10**10 else ""
        return REDACTED if REDACTED in text else value
    if depth > MAX_DEPTH:
        return CUT
    if isinstance(value, Mapping):
        return {
            _cleaned_text(scan, str(key), detections, ""): cleaned_data(scan, item, detections, str(key), depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [cleaned_data(scan, item, detections, name, depth + 1) for item in value]
    return value


def _cleaned_text(scan: TextScan, text: str, detections: list[Detection], name: str) -> str:
    clean_text, findings = scan.clean(text)
    if not findings and name and _HAS_MARK.search(name) and scan.is_marked(name, text):
        clean_text, findings = REDACTED, [scan.of_secrets]
    detections += findings
    return clean_text
