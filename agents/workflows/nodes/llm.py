"""LLM: an answer of a model, without tools."""

from __future__ import annotations

from agents.workflows.calls.handler import Handler, rendered
from agents.workflows.calls.model_call import LABELS, asked
from agents.workflows.calls.node_call import NodeCall
from agents.workflows.calls.scope import NodeOutput


class LLMNode(Handler):
    """Asks with a prompt made from a template; the output is the answer's text, or data with ``output_schema``."""

    async def run(self, call: NodeCall) -> NodeOutput | None:
        settings = call.settings
        output = await asked(
            call,
            prompted(call),
            model=settings.model,
            params=settings.params,
            schema=settings.output_schema,
        )
        return NodeOutput(value=output, labels=LABELS)


def prompted(call: NodeCall, **more: object) -> list[dict[str, str]]:
    """Return the messages of a node's templates: ``system``, where it has one, and ``prompt``."""
    texts = {"system": getattr(call.settings, "system", None), "user": call.settings.prompt}
    return [
        {"role": role, "content": _text(rendered(call, source, **more))}
        for role, source in texts.items()
        if source is not None
    ]


def _text(value: object) -> str:
    import orjson

    return value if isinstance(value, str) else orjson.dumps(value).decode()
