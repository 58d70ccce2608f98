"""A conversation with the demo model in which tools are really called, without a loop, a bus or LiteLLM."""

import asyncio
import json
from collections.abc import Sequence

from agents.catalogue import find_tool
from agents.models.call import ModelCall
from agents.models.demo.reader import answer
from agents.models.scripted import Turn
from agents.prompt import offered
from agents.tools.call_context import ToolContext
from agents.tools.execution.executor import call_tool
from agents.tools.isolation.call_folder import CallSandbox
from config.errors import ModelVisible
from config.settings import read_settings


class Talk:
    """Keeps the messages; each call made is kept as (name, arguments)."""

    def __init__(self, sandbox, tools: Sequence[str]):
        settings = read_settings()
        self.tools = {name: find_tool(name, settings) for name in tools}
        self.messages: list[dict] = [{"role": "system", "content": "You help."}]
        self.calls: list[tuple[str, dict]] = []
        self.rounds: list[list[str]] = []
        self.reasoning = ""
        self.starters: Sequence[str] = ()
        self.context = ToolContext(
            run_id="r",
            thread_id="t",
            call_id="call_1",
            idempotency_key="k",
            tenant="default",
            principal="local",
            files=CallSandbox(sandbox),
        )

    def say(self, sentence: str) -> str:
        """Return the answer, after all the calls it took."""
        self.calls, self.rounds, self.reasoning = [], [], ""
        self.messages.append({"role": "user", "content": sentence})
        for _ in range(6):
            turn = self._answer()
            if not turn.calls:
                return "".join(turn.text)
            self.rounds.append([call.name for call in turn.calls])
            for call in turn.calls:
                result = self.result(call.name, call.text)
                self.messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        raise AssertionError("the model never stopped calling tools")

    def _answer(self) -> Turn:
        effects = {name: tool.effect for name, tool in self.tools.items()}
        turn = answer(
            ModelCall(
                model="demo/instant",
                messages=self.messages,
                tools=offered(self.tools),
                effects=effects,
                starters=self.starters,
            )
        )
        self.reasoning += "".join(turn.reasoning)
        calls = [{"id": each.id, "function": {"name": each.name, "arguments": each.text}} for each in turn.calls]
        self.messages.append({"role": "assistant", "content": turn.text, "tool_calls": calls or None})
        return turn

    def result(self, name: str, text: str) -> str:
        arguments = json.loads(text)
        self.calls.append((name, arguments))
        try:
            result = asyncio.run(call_tool(self.tools[name], arguments, self.context, 5))
        except ModelVisible as error:
            return f"Error: {error}"
        return result if isinstance(result, str) else json.dumps(result)
