"""The test kit: an agent with its tools, run in memory by a scripted model, in milliseconds (docs/testing.md).

``AgentKit`` needs no server, no Redis and no key, and imports no LiteLLM. What runs is the agent itself: the same loop,
journal, tool calls and events as in a worker.
"""

from agents.models.scripted.script import Call, ScriptedModel, Turn
from agents.testing.capability import call_capability
from agents.testing.kit import AgentKit, Played

__all__ = ["AgentKit", "Call", "Played", "ScriptedModel", "Turn", "call_capability"]
