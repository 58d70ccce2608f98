"""The interface of the journal: each name is imported at its first use, and type checkers see the same names."""

from __future__ import annotations

import importlib
import pkgutil
import tomllib

import pytest

import bus.journal
from bus.journal.on_demand import modules_of
from config.folders import ROOT

BY_ACTOR = [f"bus.journal.{name}" for name in ("clients", "owner", "readers", "stores", "tailing")]
INTERFACE = ["bus.journal", *BY_ACTOR, "bus.journal.approvals", "bus.journal.errors"]
NAMES = [
    (module, name, home)
    for module in ("bus.journal", *BY_ACTOR)
    for name, home in modules_of(importlib.import_module(module).__file__ or "").items()
]
MOST_NAMES = 40
"""Of one module of the interface: what a room that plays one part has to know."""


def test_a_name_is_that_of_its_module():
    imported = {module: importlib.import_module(module) for row in NAMES for module in (row[0], row[2])}

    assert [
        (module, name, home)
        for module, name, home in NAMES
        if getattr(imported[module], name) is not getattr(imported[home], name)
    ] == []


def test_each_name_has_one_place_and_no_part_has_many():
    names = [name for _, name, _ in NAMES]

    assert len(names) == len(set(names))
    assert max(sum(module == part for module, _, _ in NAMES) for part in BY_ACTOR) <= MOST_NAMES


def test_what_is_not_the_interface_is_forbidden_to_other_rooms():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [forbidden] = (contract["forbidden_modules"] for contract in contracts if contract["id"] == "journal")
    inside = {module.name for module in pkgutil.iter_modules(bus.journal.__path__, "bus.journal.")}

    assert {".".join(name.split(".")[:3]) for name in forbidden} == inside - set(INTERFACE) | {"bus.journal.tailing"}


def test_a_name_that_is_not_there_is_no_attribute():
    with pytest.raises(ImportError, match="Jurnal"):
        exec("from bus.journal import Jurnal")
