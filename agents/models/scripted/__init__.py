"""A model that answers with a test's script: it streams, thinks, calls tools, stalls and fails as ``Turn`` states."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.models.call import ModelCall
    from agents.models.streams.reader import ChunkReader


def open_script(call: ModelCall) -> ChunkReader:
    """Return the answer of this process's script, or with an ``api_base``, of the script served there."""
    if call.api_base is not None:
        from agents.models.scripted.served import ServedReader

        return ServedReader(call)
    from agents.models.scripted.reader import ScriptedReader

    return ScriptedReader(call)
