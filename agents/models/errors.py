"""Errors of a model call."""

from __future__ import annotations

from typing import Any

from config.errors import CallboardError, Permanent, Retryable, Topic

MODEL_UNKNOWN = Permanent.row(
    "model_unknown",
    "LiteLLM or the provider does not know the model.",
    topic=Topic.CONFIGURATION,
    over_http=False,
    remedy="Write `provider/model`.",
)


class ModelKeyMissing(Permanent):
    """The model's key is not in the worker's environment."""

    code = "model_key_missing"
    topic = Topic.CONFIGURATION
    over_http = False
    remedy = (
        "Set the variable that the sentence names, and start the workers again. Where another worker of the queue has "
        "the key, the run waits for that one (`code_version`)."
    )

    @property
    def variables(self) -> str:
        """The variables, of which each would do: `A or B`."""
        return " or ".join(self.facts["variables"])


class ReleaseRefused(Permanent):
    """A release of LiteLLM that steals keys (1.82.7, 1.82.8) is installed; nothing imports it and no worker starts."""

    code = "release_refused"
    status = 500
    topic = Topic.CONFIGURATION
    remedy = "Change every key that the machine could read, remove `.venv`, run `./callboard` again."


class ModelFailed(Retryable):
    """The provider failed temporarily (429, 5xx, a lost connection), or LiteLLM cannot be imported in the worker.

    ``retry_after_s`` is the wait that the provider asked for.
    """

    code = "model_failed"
    status = 502
    topic = Topic.RUN
    over_http = False
    remedy = (
        "Up to three attempts, then the run fails; start a new one later. Without LiteLLM it fails at once and "
        "names what to install."
    )

    def __init__(self, message: str, *, retry_after_s: float | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.retry_after_s = retry_after_s


MODEL_TIMEOUT = Retryable.row(
    "model_timeout",
    "A timeout of the agent's `timeouts` expired.",
    status=504,
    topic=Topic.RUN,
    over_http=False,
    remedy="Up to three attempts, then the run fails; start a new one later, or allow more time.",
)

MODEL_REFUSED = Permanent.row(
    "model_refused",
    "The provider refuses this request permanently.",
    status=502,
    topic=Topic.RUN,
    over_http=False,
    remedy="The run fails; the sentence has the provider's reason.",
)
"""It answered with a 4xx."""


def is_timeout(error: CallboardError) -> bool:
    """Return whether a timeout of the agent expired."""
    return error.code == MODEL_TIMEOUT.code


def is_temporary(status: int) -> bool:
    """Return whether a request that was answered with this HTTP status may succeed later."""
    return status >= 500 or status in (408, 409, 425, 429)
