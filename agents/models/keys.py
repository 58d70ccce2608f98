"""The keys of models that this process lacks: runs that need one are left to a worker that has it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from agents.models.auto import resolve_model
from agents.models.call import ModelCall, is_in_process
from agents.models.errors import ModelKeyMissing
from bus.journal.clients import NO_MODEL
from config.definitions.agent import AgentDefinition


class ModelKeys:
    """The keys that the models of this process's agents need, and those of the runs that came to it."""

    def __init__(self) -> None:
        self._lacked: dict[tuple[str, str], AgentDefinition] = {}
        """The agents and models of runs that could not be begun: `model: auto` may be another model elsewhere."""

    def require(self, definition: AgentDefinition, model: str) -> None:
        """Return unless a key is known to be missing; to be called with LiteLLM imported where the model needs it.

        Raises:
            ModelKeyMissing: a variable has to be set in this process.
        """
        try:
            _require(definition, model)
        except ModelKeyMissing:
            self._lacked[definition.id, model] = definition
            if not definition.fallbacks:  # else the next model is asked
                raise

    def missing(self, agents: Iterable[AgentDefinition], environment: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the variables that are not set (`A or B` where each would do), with the agents that need them."""
        from agents.models.lite import is_imported  # the web process, which asks no model, has this class alone

        if not is_imported():  # no agent needed it so far
            return {}
        uses = self._lacked | {(agent.id, resolve_model(agent.model, environment)): agent for agent in agents}
        missing = defaultdict[str, set[str]](set)
        for (agent_id, model), definition in uses.items():
            try:
                _require(definition, model)
            except ModelKeyMissing as error:
                missing[error.variables].add(agent_id)
        return {variables: sorted(ids) for variables, ids in sorted(missing.items())}


def _require(definition: AgentDefinition, model: str) -> None:
    if model == NO_MODEL or is_in_process(model):
        return
    from agents.models.failures import require_key

    api_base, api_key_env = definition.api_base, definition.api_key_env
    require_key(ModelCall(model=model, messages=(), api_base=api_base, api_key_env=api_key_env))
