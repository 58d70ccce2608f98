"""The client's source: one of both clients is generated, and neither needs anything of the server."""

from __future__ import annotations

import ast
import sys
from importlib import util
from types import ModuleType

import pytest

from config.folders import ROOT

FOLDER = ROOT / "clients" / "python"
SOURCES = sorted((FOLDER / "callboard_client").rglob("*.py"))


def generator() -> ModuleType:
    """Return the script that writes the client for plain code."""
    spec = util.spec_from_file_location("generate_client", FOLDER / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parity
@pytest.mark.parametrize("module", generator().MODULES)
def test_the_client_for_plain_code_is_the_one_for_event_loops(module: str) -> None:
    written = (FOLDER / "callboard_client" / "synchronous" / f"{module}.py").read_text()

    assert written == generator().synchronous(module), "run .venv/bin/python clients/python/generate.py"


def test_the_client_imports_its_two_dependencies_and_nothing_of_the_server() -> None:
    imported = {
        name.partition(".")[0]
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        for name in names_of(node)
    }

    assert imported - sys.stdlib_module_names == {"callboard_client", "httpx", "httpx_sse"}


def names_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
