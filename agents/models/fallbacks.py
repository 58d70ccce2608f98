"""The models that may answer a run, and which failures of one let the next be asked.

Decision 180 has the rule.
"""

from __future__ import annotations

from agents.models.errors import MODEL_UNKNOWN, ModelFailed, ModelKeyMissing, is_timeout
from config.definitions.agent import AgentDefinition
from config.definitions.model_fields import Fallback
from config.errors import CallboardError

MAX_WAIT_S = 5.0
"""Longest wait before another attempt of a model, where the provider asks for one and another model may be asked."""


class Models:
    """The models that may answer a run: the one that is asked, then the others in their order.

    A run stays with the model that answered it last. The others follow in the order of the definition, and after its
    end come those at its beginning, so that each of them may be asked once in a step.
    """

    def __init__(self, definition: AgentDefinition, accepted: str, newest: str = "") -> None:
        """``accepted``: the model that the run was accepted with; ``newest``: the one that was asked last, if any."""
        own = Fallback(model=accepted, api_base=definition.api_base, api_key_env=definition.api_key_env)
        self._models = [own, *(fallback for fallback in definition.fallbacks if fallback != own)]
        last = next((model for model in self._models if model.model == newest), own)
        self.use(last)

    @property
    def current(self) -> Fallback:
        """The model that is asked."""
        return self._models[0]

    @property
    def others(self) -> list[Fallback]:
        """The models that may be asked in its place, in order."""
        return self._models[1:]

    def use(self, model: Fallback) -> None:
        """Ask this model from now on."""
        position = self._models.index(model)
        self._models = self._models[position:] + self._models[:position]


def may_fall_back(error: CallboardError) -> bool:
    """Return whether another model may answer where one failed with ``error``, after its retries.

    It may not where the request itself is refused, or a guardrail, a policy or a provider's filter keeps the answer
    back: another model must not be a way around these.
    """
    if isinstance(error, (ModelFailed, ModelKeyMissing)) or is_timeout(error) or error.code == MODEL_UNKNOWN.code:
        return True
    return bool(error.facts.get("cannot_serve"))
