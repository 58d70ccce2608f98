"""CHOICE_LLM: a model chooses the branch, from the choices of the file alone."""

from __future__ import annotations

from typing import Any

from agents.errors import OutputInvalid
from agents.workflows.calls.handler import Handler, chosen
from agents.workflows.calls.model_call import LABELS, asked
from agents.workflows.calls.node_call import NodeCall
from agents.workflows.calls.scope import NodeOutput
from agents.workflows.nodes.llm import prompted
from config.definitions.workflows.graph import BRANCH, DEFAULT
from config.definitions.workflows.node_configs import Option

ASK = "Choose the one of these that fits best, by its name: {choices}. Answer `none` where none fits."
NONE = "none"


class ChoiceLLMNode(Handler):
    """An answer that is none of the choices takes ``default``, and is recorded so."""

    async def run(self, call: NodeCall) -> NodeOutput | None:
        options = call.settings.choices
        names = [option.name for option in options]
        schema = {
            "type": "object",
            "properties": {"choice": {"type": "string", "enum": [*names, NONE]}},
            "required": ["choice"],
        }
        *system, prompt = prompted(call)
        listed = "; ".join(_listed(option) for option in options)
        messages = [*system, {**prompt, "content": f"{prompt['content']}\n\n{ASK.format(choices=listed)}"}]
        try:
            answer = await asked(call, messages, model=call.settings.model, params=call.settings.params, schema=schema)
        except OutputInvalid as error:
            call.change = call.computed()
            return self._chosen(call, names, str(error.facts.get("answer", "")))
        return self._chosen(call, names, str(answer["choice"]))

    def _chosen(self, call: NodeCall, names: list[str], answer: str) -> NodeOutput:
        number = next((n for n, name in enumerate(names) if name.casefold() == answer.strip().casefold()), None)
        branch, choice = (DEFAULT, None) if number is None else (f"{BRANCH}{number}", names[number])
        output = chosen(call, branch, choice=choice)
        return NodeOutput(value=output.value, branch=branch, labels=LABELS)

    def read(self, call: NodeCall, result: Any) -> NodeOutput:
        return NodeOutput(value=result, branch=result["branch"])


def _listed(option: Option) -> str:
    return f"{option.name} ({option.description})" if option.description else option.name
