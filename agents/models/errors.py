"""Errors of a model call."""

from __future__ import annotations

from typing import Any

from config.errors import Permanent, Retryable


class ModelUnknown(Permanent):
    code = "model_unknown"


class ModelKeyMissing(Permanent):
    code = "model_key_missing"


class ReleaseRefused(Permanent):
    """The installed release of a library is known to be malicious, so it is not imported."""

    code = "release_refused"
    status = 500


class ModelFailed(Retryable):
    """The provider failed temporarily; ``retry_after_s`` is the wait that it asked for."""

    code = "model_failed"
    status = 502

    def __init__(self, message: str, *, retry_after_s: float | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.retry_after_s = retry_after_s


class ModelTimeout(Retryable):
    code = "model_timeout"
    status = 504


class ModelRefused(Permanent):
    """The provider refused the request (4xx); a retry would fail too."""

    code = "model_refused"
    status = 502


def is_temporary(status: int) -> bool:
    """Return whether a request that was answered with this HTTP status may succeed later."""
    return status >= 500 or status in (408, 409, 425, 429)
