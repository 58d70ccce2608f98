"""A server of the SDK whose tools report, ask and sample; its words are ``stdio``, or ``http`` and a port."""

from __future__ import annotations

import asyncio
import sys
import warnings
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from mcp.types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel, Field

warnings.simplefilter("ignore")  # logging and sampling are deprecated, and exist
server = MCPServer("talking")


@server.tool()
async def report(ctx: Context[Any, Any], tag: str, count: int = 3, pause_s: float = 0.0) -> str:
    """Report each step, and log one line of each level."""
    for level in ("debug", "info", "error"):
        await ctx.log(level, f"{tag} {level}", logger_name="books")
    for number in range(count):
        await ctx.report_progress(number + 1, count, f"{tag} {number + 1}")
        await asyncio.sleep(pause_s)
    return tag


class Guests(BaseModel):
    """How many come."""

    guests: int = Field(title="Guests", ge=1, le=12)


def ask_for_guests() -> Elicit[Guests]:
    """Ask."""
    return Elicit("For how many?", Guests)


@server.tool()
async def book(name: str, answer: Annotated[Guests, Resolve(ask_for_guests)]) -> str:
    """Book a table."""
    return f"{name}: {answer.guests}"


def ask_a_model() -> Sample:
    """Ask the client's model."""
    sampling_message = SamplingMessage(role="user", content=TextContent(type="text", text="Name a colour."))
    return Sample([sampling_message], max_tokens=50, system_prompt="Be brief.")


@server.tool()
async def colour(answer: Annotated[CreateMessageResult, Resolve(ask_a_model)]) -> str:
    """Return what a model says."""
    return f"{answer.model}: {answer.content.text}"  # type: ignore[union-attr]  # it was asked for text


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", port=int(sys.argv[2]))
