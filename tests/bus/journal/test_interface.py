"""The interface of the journal: each name is imported at its first use, and type checkers see the same names."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import bus.journal

IMPORTS = {
    alias.name: node.module
    for node in ast.walk(ast.parse(Path(bus.journal.__file__).read_text()))
    if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("bus.journal.")
    for alias in node.names
}
"""What type checkers read: names, each with its module."""


def test_programs_and_type_checkers_get_the_same_names():
    assert bus.journal.MODULES == IMPORTS


@pytest.mark.parametrize(("name", "module"), IMPORTS.items())
def test_a_name_is_that_of_its_module(name: str, module: str):
    assert getattr(bus.journal, name) is getattr(importlib.import_module(module), name)


def test_a_name_that_is_not_there_is_no_attribute():
    with pytest.raises(ImportError, match="Jurnal"):
        exec("from bus.journal import Jurnal")
