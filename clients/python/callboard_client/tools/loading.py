"""Finds the tools of the user's modules."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from callboard_client.tools.described import Tool, describe
from callboard_client.tools.marks import MARK, ToolUnusable

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_DOTTED = re.compile(r"\w+(\.\w+)*")


def load_tools(modules: Iterable[str]) -> list[Tool]:
    """Return the tools of these modules, in the order in which their names were given.

    Raises:
        ToolUnusable: a module cannot be imported or has no tools, a function cannot be one, or two have one name.
    """
    functions = [function for name in modules for function in _functions(_module(name))]
    tools = [describe(function) for function in dict.fromkeys(functions)]
    named: dict[str, Tool] = {}
    for tool in tools:
        other = named.setdefault(tool.name, tool)
        if other is not tool:
            raise ToolUnusable(
                f"two tools are called '{tool.name}': {other.where} and {tool.where}; "
                "give one of them another name: @tool(name=...)."
            )
    return tools


def _functions(module: ModuleType) -> Iterator[Any]:
    functions = [value for value in vars(module).values() if callable(value) and hasattr(value, MARK)]
    if not functions:
        raise ToolUnusable(
            f"{module.__name__} has no tools; write `from callboard_client.tools import tool`, and @tool above "
            "each function that agents may call."
        )
    for function in functions:
        if isinstance(function, type) or not hasattr(function, "__name__"):
            raise ToolUnusable(f"{module.__name__}: @tool is above {function!r:.80}, and has to be above a function.")
        yield function


def _module(name: str) -> ModuleType:
    if not _DOTTED.fullmatch(name):
        raise ToolUnusable(f"{name!r} is not the name of a module; write it with dots, such as shop.tools.")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise ToolUnusable(
                f"there is no module '{missing}' in {os.getcwd()} or on Python's path; start this in the folder that "
                f"has '{name.partition('.')[0]}', or set PYTHONPATH."
            ) from error
        raise ToolUnusable(
            f"{name} imports '{missing}', which is not there; install it for {sys.executable}, or start this with "
            f"the Python of your project's environment{_place(error)}."
        ) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the module's own code, which may raise anything and also exit
        text = f": {error}" if str(error) else ""
        raise ToolUnusable(f"{name} cannot be imported: {type(error).__name__}{text}{_place(error)}.") from error


def _place(error: BaseException) -> str:
    """Return where the user's code raised."""
    if isinstance(error, SyntaxError):  # its text names the place
        return ""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    own = [frame for frame in frames if "importlib" not in frame.filename and not frame.filename.startswith(_HERE)]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
