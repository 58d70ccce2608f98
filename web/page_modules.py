"""Joins the modules of a page's first load into one file: it compresses to half of them, and takes one request.

Each module becomes the body of a function that returns what the module exports. Modules that are loaded later take what
they import from the joined file, so that each module exists once. There is no build step: the server joins them when it
reads them, and the modules have one form, with each import and export in a line of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from posixpath import dirname, normpath

IMPORT = re.compile(r'^import \{ ([^}]+) \} from "([^"]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
EXPORTED = re.compile(r'^export \{ ([^}]+) \}(?: from "([^"]+)")?;$', re.MULTILINE)
INDENT = re.compile(r"^ +", re.MULTILINE)
"""No module has a template over several lines, in which spaces would count."""
LATER = re.compile(r'\bimport\("([^"]+)"\)')
STATIC = "/static/"
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def first_load(modules: Mapping[str, str], entry: str) -> list[str]:
    """Return the names of a module and of all that it imports at once, each behind those that it imports itself.

    Raises:
        ValueError: modules import each other in a circle.
    """
    names: list[str] = []

    def add(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            raise ValueError(f"modules import each other in a circle: {' -> '.join((*importers, name))}")
        if name not in names:
            for imported in imports_of(name, modules[name]):
                add(imported, (*importers, name))
            names.append(name)

    add(entry, ())
    return names


def imports_of(name: str, text: str) -> list[str]:
    """Return the names of the modules that a module imports at once."""
    paths = [path for _, path in IMPORT.findall(text)] + [path for _, path in EXPORTED.findall(text) if path]
    return [_beside(name, path) for path in paths]


def joined(modules: Mapping[str, str], names: Sequence[str]) -> str:
    """Return one module with all of these; it exports each as ``$`` and its number in the list."""
    bodies = (
        f"const ${number} = (() => {{\n{_body(name, modules[name], names)}\n}})();" for number, name in enumerate(names)
    )
    exports = ", ".join(f"${number}" for number in range(len(names)))
    return "\n".join((*bodies, f"export {{ {exports} }};", ""))


def source_map(modules: Mapping[str, str], names: Sequence[str]) -> str:
    """Return the source map (ECMA-426) of ``joined``, by which a browser names lines of the modules in errors."""
    groups: list[str] = []
    last_line = 0
    for number, name in enumerate(names):
        lines = len(modules[name].split("\n"))
        first = _vlq(0) + _vlq(1 if number else 0) + _vlq(-last_line) + _vlq(0)
        groups += ["", first, *([_vlq(0) + _vlq(0) + _vlq(1) + _vlq(0)] * (lines - 1)), "", ""]
        last_line = lines - 1
    sources = [f"{STATIC}{name}" for name in names]
    content = [modules[name] for name in names]
    return json.dumps({"version": 3, "sources": sources, "sourcesContent": content, "mappings": ";".join(groups)})


def taken_from(text: str, name: str, names: Sequence[str], path: str) -> str:
    """Return a module that takes from the joined file at ``path`` what it imports from one of its modules."""

    def instead(match: re.Match[str]) -> str:
        imported = _beside(name, match[2])
        if imported not in names:
            return match[0]
        number = names.index(imported)
        module = f"${number}_{match.start()}"  # a module may import twice from another one
        return f'import {{ ${number} as {module} }} from "{path}"; const {{ {_renamed(match[1])} }} = {module};'

    return IMPORT.sub(instead, text)


def stand_in(text: str, number: int, path: str) -> str:
    """Return what stands for a module of the joined file: what imports it by its own name gets the same objects."""
    exports = ", ".join(_exports(text))
    return f'import {{ ${number} }} from "{path}";\nexport const {{ {exports} }} = ${number};\n'


def _body(name: str, text: str, names: Sequence[str]) -> str:
    """Return a module's lines, and one behind them that returns what it exports."""
    values = {word: word for word in _exports(text)}
    for words, path in EXPORTED.findall(text):
        if path:
            values |= {word.strip(): f"${names.index(_beside(name, path))}.{word.strip()}" for word in words.split(",")}
    results = ", ".join(f"{word}: {value}" for word, value in values.items())
    text = IMPORT.sub(
        lambda match: f"const {{ {_renamed(match[1])} }} = ${names.index(_beside(name, match[2]))};", text
    )
    text = LATER.sub(lambda match: f'import("{STATIC}{_beside(name, match[1])}")', text)
    text = INDENT.sub("", EXPORTED.sub("", EXPORT.sub("", text)))
    return f"{text}\nreturn {{ {results} }};"


def _exports(text: str) -> list[str]:
    """Return the names that a module exports, its own and those of other modules."""
    others = (word.strip() for words, _ in EXPORTED.findall(text) for word in words.split(","))
    return [*EXPORT.findall(text), *others]


def _renamed(words: str) -> str:
    """Return the names of an import as those of a destructured object: ``a as b`` is ``a: b``."""
    return words.replace(" as ", ": ")


def _beside(name: str, path: str) -> str:
    """Return the name of the module that another one has this path for."""
    return path.removeprefix(STATIC) if path.startswith(STATIC) else normpath(f"{dirname(name)}/{path}").lstrip("/")


def _vlq(number: int) -> str:
    """Return a number as source maps write it: base 64, the sign in the lowest bit."""
    rest, text = (-number << 1 | 1) if number < 0 else number << 1, ""
    while True:
        rest, digit = rest >> 5, rest & 31
        text += _BASE64[digit | 32 if rest else digit]
        if not rest:
            return text
