"""Names of the journal's interface, each imported from its module when it is first used.

A web process imports what requests need before it has a ``Journal``, and the terminal what its command needs. A module
of the interface lists its names once, as the imports that type checkers read; at run time the list is read from the
module's source.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


def on_demand(interface: dict[str, Any]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module, given its globals: called where a name was not used before."""

    def get(name: str) -> Any:
        module = modules_of(interface["__file__"]).get(name)
        if module is None:
            raise AttributeError(f"module '{interface['__name__']}' has no attribute '{name}'")
        value = interface[name] = getattr(importlib.import_module(module), name)
        return value

    return get


@cache
def modules_of(file: str) -> dict[str, str]:
    """Return the module of each name that a module of the interface imports for type checkers."""
    [block] = [node for node in ast.parse(Path(file).read_text()).body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom) and node.module is not None]
    return {alias.name: node.module or "" for node in imports for alias in node.names}
