"""How large and how knotted the repository is: each count beside its bar. ``python -m tests.house_counts`` prints them.

A count that passes its bar means that a knot came back: cut it, or write in ``docs/decisions/`` why the bar moves.
"""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from config.folders import FOLDERS, ROOT


@dataclass(frozen=True, kw_only=True)
class Count:
    """One count of the repository, the most that it may be, and what it counted (to find what is too much)."""

    name: str
    value: float
    bar: float
    items: tuple[str, ...] = ()


@cache
def modules() -> dict[str, Path]:
    """Return the rooms' modules by name, without the migrations, which are lists by nature."""
    paths = [path for room in FOLDERS for path in sorted((ROOT / room).rglob("*.py")) if "versions" not in path.parts]
    return {module_of(path): path for path in paths}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(*, types: bool) -> frozenset[tuple[str, str]]:
    """Return (importer, imported) of every import between the rooms' modules, those in functions too.

    A literal ``import_module("...")`` is an import. Imports for types alone count where ``types`` is set.
    """
    return frozenset(
        (importer, name)
        for importer, path in modules().items()
        for node in nodes_of(tree_of(path), types=types)
        for name in imported_by(node)
        if name in modules() and name != importer
    )


def nodes_of(tree: ast.AST, *, types: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if types or not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            yield from nodes_of(node, types=types)


def imported_by(node: ast.AST) -> list[str]:
    """Return the modules that this node imports, the rooms' and others."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), names=names):
            whole = [f"{module}.{alias.name}" for alias in names]
            return [name if name in modules() else module for name in whole]
        case ast.Call(func=func, args=[ast.Constant(value=str(module)), *_]) if name_of(func) == "import_module":
            return [module]
        case _:
            return []


def name_of(node: ast.expr) -> str:
    """Return the last part of a dotted name, or nothing."""
    return getattr(node, "attr", getattr(node, "id", ""))


def circles() -> list[str]:
    """Return the children of every package that import each other in a circle, each circle as one line."""
    packages = {module for module, path in modules().items() if path.name == "__init__.py"}
    packages |= {module_of(path.parent / "__init__.py") for path in modules().values()}
    return [f"{package}: {' '.join(circle)}" for package in sorted(packages) for circle in circles_in(package)]


def circles_in(package: str) -> list[list[str]]:
    graph: dict[str, set[str]] = {}
    for importer, imported in imports(types=False):
        if (child := child_of(package, importer)) and (other := child_of(package, imported)) and child != other:
            graph.setdefault(child, set()).add(other)
    reach = {child: reached(graph, child) for child in graph}
    rings = {frozenset(other for other in reach[child] if child in reach.get(other, ())) for child in graph}
    return sorted(sorted(ring) for ring in rings if len(ring) > 1)


def child_of(package: str, module: str) -> str:
    """Return which direct child of the package a module is or lies in; nothing for one outside."""
    return module.removeprefix(f"{package}.").partition(".")[0] if module.startswith(f"{package}.") else ""


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    nodes, seen = [start], set[str]()
    while nodes:
        for node in graph.get(nodes.pop(), set()) - seen:
            seen.add(node)
            nodes.append(node)
    return seen


def rooms_without_contract() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    covered = {room for contract in contracts if contract.get("exhaustive") for room in contract["containers"]}
    return sorted(set(FOLDERS) - covered)


def importers() -> dict[str, list[str]]:
    """Return the modules of the rooms that import each module, for types or to use it."""
    names: dict[str, list[str]] = {}
    for importer, imported in imports(types=True):
        names.setdefault(imported, []).append(importer)
    return names


def modules_with_one_importer() -> list[str]:
    return sorted(
        f"{module} <- {names[0]}"
        for module, names in importers().items()
        if len(names) == 1 and modules()[module].name != "__init__.py"
    )


def small_files_of_a_neighbour() -> list[str]:
    """Return the files of at most 90 lines whose one importer lies in the same folder."""
    return sorted(
        f"{module} <- {names[0]}"
        for module, names in importers().items()
        if len(names) == 1
        and modules()[module].name != "__init__.py"
        and lines_of(modules()[module]) <= 90
        and modules()[names[0]].parent == modules()[module].parent
    )


@cache
def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


def large_folders() -> list[str]:
    """Return the folders with more than 15 modules; the commands of the terminal are one kind, a file each."""
    sizes = Counter(path.parent for path in modules().values() if path.name != "__init__.py")
    return sorted(f"{name_in_root(path)}: {size}" for path, size in sizes.items() if size > 15 and path not in LISTS)


LISTS = {ROOT / "cli" / "commands"}


def name_in_root(path: Path) -> str:
    return str(path.relative_to(ROOT))


def error_classes() -> list[str]:
    """Return the classes that derive from ``CallboardError``, over any number of bases."""
    bases = {
        node.name: [name_of(base) for base in node.bases]
        for path in modules().values()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    }
    return sorted(name for name in bases if name != "CallboardError" and "CallboardError" in ancestors(bases, name))


def ancestors(bases: dict[str, list[str]], name: str) -> set[str]:
    return reached({key: set(names) for key, names in bases.items()}, name)


def long_files() -> list[str]:
    return [f"{name_in_root(path)}: {lines_of(path)}" for path in modules().values() if lines_of(path) > 400]


def long_functions() -> list[str]:
    return [
        f"{name_in_root(path)}:{node.lineno} {node.name}: {length}"
        for path in modules().values()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > 40
    ]


def names_of_the_journal() -> list[str]:
    """Return the names at the largest interface of the journal: clients, owner, readers, stores or the door itself."""
    return max((imported_names(modules()[interface]) for interface in JOURNAL), key=len)


def imported_names(path: Path) -> list[str]:
    return [alias.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ImportFrom) for alias in node.names]


JOURNAL = ["bus.journal", *(f"bus.journal.{part}" for part in ("clients", "owner", "readers", "stores"))]


def first_settings() -> list[str]:
    """Return the settings of the first table in docs/configuration.md."""
    _, _, sections = (ROOT / "docs/configuration.md").read_text().partition("\n## ")
    return re.findall(r"^\| `(CALLBOARD_\w+)`", sections.partition("\n## ")[0], re.MULTILINE)


def attributes_of(module: str, *classes: str) -> list[str]:
    """Return the names of what these classes of one module keep: annotated fields, and what is set on ``self``."""
    names = {
        name
        for node in ast.walk(tree_of(modules()[module]))
        if isinstance(node, ast.ClassDef) and node.name in classes
        for name in fields_of(node)
    }
    return sorted(names)


def fields_of(tree: ast.ClassDef) -> Iterator[str]:
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and name_of(node.value) == "self":
            yield node.attr


@cache
def tracked(pattern: str) -> tuple[Path, ...]:
    """Return the repository's files that match; a copy without a repository has every file of that pattern."""
    listed = subprocess.run(["git", "ls-files", "-z", pattern], cwd=ROOT, capture_output=True, text=True, check=False)
    names = [name for name in listed.stdout.split("\0") if name]
    paths = [ROOT / name for name in names] or [path for path in ROOT.rglob(pattern) if ".venv" not in path.parts]
    return tuple(path for path in paths if path.exists())


def lines_outside_tests() -> int:
    return sum(lines_of(path) for path in tracked("*.py") if not is_test(path))


def lines_of_tests() -> int:
    return sum(lines_of(path) for path in tracked("*.py") if is_test(path))


def is_test(path: Path) -> bool:
    return path.is_relative_to(ROOT / "tests")


def files_outside_tests() -> list[str]:
    return [name_in_root(path) for path in tracked("*.py") if not is_test(path)]


def counts() -> Iterable[Count]:
    """Return every count of the repository with its bar.

    A bar of a size is what the repository has, with a little room: it follows the count down, and goes up only with a
    reason in ``docs/decisions/``.
    """
    lists = {
        "circles of packages inside a room": (circles(), 0),
        "rooms without a contract of layers": (rooms_without_contract(), 0),
        "names at the journal's largest interface": (names_of_the_journal(), 40),
        "attributes of Journal": (attributes_of("bus.journal.journal", "Journal"), 8),
        "attributes of RunContext": (attributes_of("agents.context", "RunContext"), 20),
        "files of at most 90 lines with one importer, beside it": (small_files_of_a_neighbour(), 11),
        "folders over 15 files": (large_folders(), 0),
        "error classes": (error_classes(), 60),
        "files over 400 lines": (long_files(), 0),
        "functions over 40 lines": (long_functions(), 5),
        "settings that the documentation shows first": (first_settings(), 25),
    }
    yield from (Count(name=name, value=len(items), items=tuple(items), bar=bar) for name, (items, bar) in lists.items())
    files, lines = len(files_outside_tests()), lines_outside_tests()
    yield Count(name="files to a thousand lines of Python", value=1000 * files / lines, bar=8.1)
    one_importer = modules_with_one_importer()
    share = len(one_importer) / len(modules())
    yield Count(name="modules with one importer, of all", value=share, bar=0.206, items=tuple(one_importer))
    yield Count(name="lines of tests to a line of code", value=lines_of_tests() / lines_outside_tests(), bar=1.37)
    yield Count(name="lines of the README", value=lines_of(ROOT / "README.md"), bar=75)


if __name__ == "__main__":
    for count in counts():
        print(f"{count.name:58} {count.value:>9.6g}  bar {count.bar:g}")
