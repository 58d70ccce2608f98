"""Tools: plain functions, one file each.

A function's name, docstring and type hints become the tool's schema for the model.
"""

from agents.tools.call_context import ToolContext, current_call
from agents.tools.tool import Tool, tool

__all__ = ["Tool", "ToolContext", "current_call", "tool"]
