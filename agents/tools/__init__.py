"""What an agent can do besides talking: plain functions, one file a tool.

The name, the docstring and the type hints of a function become the schema the model is shown.
"""

from agents.tools.tool import Tool, ToolContext, current_call, tool

__all__ = ["Tool", "ToolContext", "current_call", "tool"]
