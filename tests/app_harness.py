"""A harness for tests: a model server on a real socket, agents of the test's own, and the runner between them."""

from __future__ import annotations

import textwrap
from pathlib import Path

from agents.handle import RunHandle
from agents.runner import Runner
from bus.payloads import Payload
from config.settings import Settings
from tests.model_server import ModelServer

AGENT = """
name: Tester
model: {provider}/gpt-5-mini
api_base: {url}
system_prompt: You are a test.
{more}
"""


class AppHarness:
    """Writes agents, starts runs, and knows the model server they talk to."""

    def __init__(self, runner: Runner, model: ModelServer, agents: Path, provider: str = "scripted") -> None:
        """``provider``: ``openai`` asks through LiteLLM, ``scripted`` asks the same server without it."""
        self._provider = provider
        self.runner = runner
        self.model = model
        self.settings: Settings = runner.settings
        self._agents = agents

    def agent(self, more: str = "", agent_id: str = "tester") -> str:
        """Write an agent that talks to the model server and return its id."""
        return write_agent(self._agents, self.model, more, agent_id, self._provider)

    def run(self, objective: str = "Hello", agent_id: str = "tester", **options: object) -> RunHandle:
        """Start a run on the synchronous route."""
        return self.runner.run(objective, agent_id, **options)  # type: ignore[arg-type]  # passed on as they are

    def events(self, handle: RunHandle) -> list[Payload]:
        """Return a run's whole log, once it has ended."""
        return list(handle.events())


def write_agent(
    folder: Path, model: ModelServer | str, more: str = "", agent_id: str = "tester", provider: str = "scripted"
) -> str:
    """Write the definition of an agent that talks to ``model``, or to the server at that address."""
    folder.mkdir(parents=True, exist_ok=True)
    url = model if isinstance(model, str) else model.url
    text = AGENT.format(url=url, provider=provider, more=textwrap.dedent(more).strip())
    (folder / f"{agent_id}.yaml").write_text(text.lstrip())
    return agent_id
