"""The tool that executes a shell command in a container of its own, which is removed afterwards."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from agents.tools.isolation.guarded import ProcessLimits
from agents.tools.runners.container import Container, ContainerRunner
from agents.tools.tool import tool, without_network
from config.errors import ToolFailed
from config.settings import settings
from config.settings.container_engine import engine_of

MAX_COMMAND = 32_000
"""Characters of the longest command."""
LIMITS = ProcessLimits(cpu_s=60, memory_mb=256, files=256, processes=64, file_mb=64, output_kb=128)


@without_network
@tool(effect="pure", timeout_s=60, kind="transformer")
async def shell(
    command: Annotated[str, Field(min_length=1, max_length=MAX_COMMAND)],
    input: Annotated[str, Field(max_length=200_000)] = "",
) -> dict[str, Any]:
    """Execute a shell command in a new container without network; get its exit code, output and errors.

    The container is removed afterwards, so no file stays from one call to the next. Only /tmp can be written to.

    Args:
        command: for /bin/sh, for example: sort | uniq -c
        input: text for the standard input.
    """
    if "\0" in command:
        raise ToolFailed("the command has the character NUL, which no shell reads; leave it out.")
    chosen = settings()
    box = Container(image=chosen.shell_image, command=("/bin/sh", "-c", command), limits=LIMITS)
    engine = engine_of(chosen.containers)
    if engine is not None and not chosen.shell_image:
        raise ToolFailed("no image is set for the tool shell; the operator sets CALLBOARD_SHELL_IMAGE.")
    done = await ContainerRunner(engine=engine, container=box).run(box, input.encode("utf-8", "replace"))
    result = {"exit_code": done.code, "output": done.output.decode("utf-8", "replace"), "errors": done.errors}
    return result | ({"note": "the output was longer; this is its beginning"} if done.is_cut else {})
