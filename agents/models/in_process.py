"""Shipped models (demo, scripted), which answer without LiteLLM."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.models.call import ModelCall
    from agents.models.streams.reader import ChunkReader

PROVIDERS = {
    "demo": "agents.models.demo.reader:open_demo",
    "scripted": "agents.models.scripted.reader:open_script",
}
"""By the word before the slash of ``model:``, the function that opens an answer."""


def is_in_process(model: str) -> bool:
    """Return whether a call of this model is answered in this process."""
    return model.partition("/")[0] in PROVIDERS


async def open_in_process(call: ModelCall) -> ChunkReader:
    """Return the answer to ``call`` of a model that answers in this process."""
    module, _, name = PROVIDERS[call.model.partition("/")[0]].partition(":")
    reader: ChunkReader = await getattr(import_module(module), name)(call)
    return reader
