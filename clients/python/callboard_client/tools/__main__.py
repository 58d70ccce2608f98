"""``python -m callboard_client.tools MODULE [MODULE ...]``: serves the tools of these modules on stdin and stdout."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from callboard_client.tools.described import Tool
from callboard_client.tools.loading import load_tools
from callboard_client.tools.marks import ToolUnusable
from callboard_client.tools.protocol import INVALID_REQUEST, Refused, Service
from callboard_client.tools.stdio import MAX_LINE, Wire, end, end_on_signals


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until the client closes stdin; with ``--list`` print the tools and return."""
    parser = argparse.ArgumentParser(
        prog="python -m callboard_client.tools",
        description="Serves the functions with @tool of these modules as an MCP server on stdin and stdout.",
        epilog="An MCP client starts this, in the folder of your project and with the Python of its environment.",
    )
    parser.add_argument("modules", nargs="+", metavar="MODULE", help="such as shop.tools")
    parser.add_argument("--list", action="store_true", help="print the tools and end")
    options = parser.parse_args(arguments)
    sys.path.insert(0, os.getcwd())
    try:
        wire = None if options.list else Wire.claim()  # before the import, which may print
    except OSError:
        print("error: stdin or stdout is closed; let an MCP client start this, or add --list.", file=sys.stderr)
        return 1
    try:
        tools = load_tools(options.modules)
    except ToolUnusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if wire is None:
        print("\n".join(map(_line, tools)))
        return 0
    serve(wire, tools, " ".join(options.modules))


def serve(wire: Wire, tools: Sequence[Tool], name: str) -> NoReturn:
    """Answer the client until it closes its end; then the process ends."""
    service = Service(tools, name, wire.send)
    long = Refused(INVALID_REQUEST, f"a message has more than {MAX_LINE:,} bytes; send less.")
    end_on_signals()
    wire.serve(service.take, lambda: service.refuse(None, long))
    end(0)


def _line(tool: Tool) -> str:
    limit = "" if tool.timeout_s is None else f", {tool.timeout_s:g} s"
    return f"{tool.name} ({tool.effect}{limit}): {tool.description.partition(chr(10))[0]}"


if __name__ == "__main__":
    raise SystemExit(main())
