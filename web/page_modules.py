"""Joins the modules of a page into a few files: together they compress to half of what they take apart.

The first load of a page is one file, all that the page loads later is another. Each module becomes the body of a
function that returns what others import from it, and exists once: these names stand beside the functions in the file,
and the later file takes them from the first one. There is no build step: the server joins modules when
it reads them, and they have one form, with each import and export in a line of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from posixpath import dirname, normpath

IMPORT = re.compile(r'^import \{ ([^}]+) \} from "([^"]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
EXPORTED = re.compile(r'^export \{ ([^}]+) \}(?: from "([^"]+)")?;$', re.MULTILINE)
LATER = re.compile(r'\bimport\("([^"]+)"\)')
STATIC = "/static/"
QUOTED = re.compile(
    r"""(`.*`|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
    r"""|(?:^|(?<=[(\[{,;=:!&|?>])|(?<=[(\[{,;=:!&|?>] )|(?<=return ))/(?:[^/\\\[]|\\.|\[(?:[^\]\\]|\\.)*\])+/)"""
)
"""The strings, templates and patterns of a line; what stands between two templates is taken for a part of them."""
SPACED = re.compile(r" ?([{}()\[\],;:=<>?&|*!]+) ?")
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def load_order(modules: Mapping[str, str], entry: str) -> tuple[list[str], list[str]]:
    """Return the names of the modules that a page loads at first and later, each behind those that it imports.

    The first load is ``entry`` and all that it imports at once.

    Raises:
        ValueError: modules import each other in a circle.
    """
    first: list[str] = []
    late: list[str] = []

    def add(name: str, names: list[str], importers: tuple[str, ...] = ()) -> None:
        if name in importers:
            raise ValueError(f"modules import each other in a circle: {' -> '.join((*importers, name))}")
        if name not in first and name not in late:
            for imported in imports_of(name, modules[name]):
                add(imported, names, (*importers, name))
            names.append(name)

    add(entry, first)
    for name in chain(first, late):  # late modules, too, load others
        for later in (_beside(name, path) for path in LATER.findall(modules[name])):
            if later in modules:
                add(later, late)
    return first, late


def imports_of(name: str, text: str) -> list[str]:
    """Return the names of the modules that a module imports at once."""
    paths = [path for _, path in IMPORT.findall(text)] + [path for _, path in EXPORTED.findall(text) if path]
    return [_beside(name, path) for path in paths]


@dataclass(frozen=True)
class JoinedModules:
    """The modules of a page by their names, and the files that they are joined into."""

    modules: Mapping[str, str]
    files: Mapping[str, Sequence[str]]
    """The names of each file's modules by the file's name, in the order in which files are loaded."""

    @cached_property
    def version(self) -> str:
        """A name that the first file makes and later ones import, so that files of two versions are never mixed."""
        return f"v{hashlib.sha256(repr((self.modules, self.files)).encode()).hexdigest()[:8]}"

    def texts(self) -> dict[str, str]:
        """Return the files by name, each with its source map."""
        maps = {f"{file}.map": self._source_map(file) for file in self.files}
        return {file: self._text(file) for file in self.files} | maps

    def _text(self, file: str) -> str:
        """Return a file; it exports what later files import, and each module that is loaded later."""
        names = self.files[file]
        lines = list(self._taken(file))
        for name in names:
            head, returned, foot = self._frame(name)
            lines += [head, *(line for _, line in self._body(name)), returned, foot]
        others = [name for name in self._file_of if name not in names]
        words = [word for name in names for word in self._imported(name, others)]
        whole = [f"${self._numbers[name]}" for name in names if name in self._whole]
        own = f"const {self.version}=1;" if file == next(iter(self.files)) else ""
        lines.append(f"{own}export {{{','.join((self.version, *whole, *words))}}};")
        return "\n".join((*lines, f"//# sourceMappingURL={STATIC}{file}.map", ""))

    def _frame(self, name: str) -> tuple[str, str, str]:
        """Return the lines around a module: they give a file the names that modules import, and the whole if needed."""
        words = ",".join(self._imported(name, self._file_of))
        if name in self._whole:
            number = self._numbers[name]
            foot = f"}})();const {{{words}}}=${number};" if words else "})();"
            return f"const ${number}=(()=>{{", self._return(name), foot
        if not words:
            return "(()=>{", "", "})();"
        return f"const {{{words}}}=(()=>{{", f"return {{{words}}};", "})();"

    def _source_map(self, file: str) -> str:
        """Return the source map (ECMA-426) of a file, by which a browser names lines of its modules in errors."""
        groups = [""] * len(list(self._taken(file)))
        last_number = 0
        for index, name in enumerate(self.files[file]):
            groups.append("")
            for position, (number, _) in enumerate(self._body(name)):
                is_next_source = bool(index) and not position
                groups.append("".join(map(_vlq, (0, is_next_source, number - last_number, 0))))
                last_number = number
            groups += ["", ""]
        names = self.files[file]
        sources, content = [f"{STATIC}{name}" for name in names], [self.modules[name] for name in names]
        return json.dumps({"version": 3, "sources": sources, "sourcesContent": content, "mappings": ";".join(groups)})

    @cached_property
    def _file_of(self) -> dict[str, str]:
        return {name: file for file, names in self.files.items() for name in names}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self._file_of)}

    @cached_property
    def _exports(self) -> dict[str, list[str]]:
        """The names that each module exports, its own and those of other modules."""
        exports: dict[str, list[str]] = {}
        for name in self._file_of:
            text = self.modules[name]
            others = (word.strip() for words, _ in EXPORTED.findall(text) for word in words.split(","))
            exports[name] = [*EXPORT.findall(text), *others]
        return exports

    @cached_property
    def _shared(self) -> dict[str, dict[str, list[str]]]:
        """The names that modules import from each module, with the importers: of names that one module alone gives."""
        sources, importers = defaultdict(set), defaultdict(list)
        for importer in self._file_of:
            for words, path in IMPORT.findall(self.modules[importer]):
                for word in words.split(", "):
                    sources[word].add(_beside(importer, path))
                    importers[word].append(importer)
        shared: dict[str, dict[str, list[str]]] = defaultdict(dict)
        for word, names in sources.items():
            if len(names) == 1 and " as " not in word:
                shared[names.pop()][word] = importers[word]
        return shared

    def _imported(self, name: str, importers: Iterable[str]) -> list[str]:
        """Return the names that ``importers`` take from a module, and that stand in their file."""
        return [word for word, names in self._shared[name].items() if not {*names}.isdisjoint(importers)]

    @cached_property
    def _whole(self) -> set[str]:
        """The modules that others need as an object: to load them later, or for names that several modules give."""
        whole: set[str] = set()
        for name in self._file_of:
            text = self.modules[name]
            whole |= {_beside(name, path) for path in LATER.findall(text)}
            whole |= {_beside(name, path) for _, path in EXPORTED.findall(text) if path}
            for words, path in IMPORT.findall(text):
                if not {*words.split(", ")} <= {*self._shared[_beside(name, path)]}:
                    whole.add(_beside(name, path))
        return whole

    def _taken(self, file: str) -> Iterator[str]:
        """Yield the statements by which a file takes names and modules of earlier ones."""
        names = self.files[file]
        needed = {imported for name in names for imported in imports_of(name, self.modules[name])} & self._whole
        for earlier in self.files:
            if earlier == file:
                return
            whole = [f"${self._numbers[name]}" for name in self.files[earlier] if name in needed]
            words = [word for name in self.files[earlier] for word in self._imported(name, names)]
            yield f'import {{{",".join((self.version, *whole, *words))}}} from "{STATIC}{earlier}";'

    def _body(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield a module's lines with their numbers, from 0: without empty ones, spaces, imports and exports."""
        text = IMPORT.sub(lambda match: self._import(name, match[1], match[2]), self.modules[name])
        text = LATER.sub(lambda match: self._later(name, match), EXPORTED.sub("", EXPORT.sub("", text)))
        for number, line in enumerate(text.split("\n")):
            if line and not line.isspace():
                yield number, packed(line)

    def _import(self, name: str, words: str, path: str) -> str:
        """Return the statement for what a module imports and does not stand in its file."""
        imported = _beside(name, path)
        own = [word.replace(" as ", ": ") for word in words.split(", ") if word not in self._shared[imported]]
        return f"const {{ {', '.join(own)} }} = ${self._numbers[imported]};" if own else ""

    def _later(self, name: str, match: re.Match[str]) -> str:
        later = _beside(name, match[1])
        if later not in self._numbers:
            return f'import("{STATIC}{later}")'
        return f'import("{STATIC}{self._file_of[later]}").then((file)=>file.${self._numbers[later]})'

    def _return(self, name: str) -> str:
        """Return the statement behind the lines of a module that is needed whole: all that it exports."""
        values = {word: word for word in self._exports[name]}
        for words, path in EXPORTED.findall(self.modules[name]):
            if path:
                values |= {word: f"${self._numbers[_beside(name, path)]}.{word}" for word in words.split(", ")}
        pairs = (word if word == value else f"{word}: {value}" for word, value in values.items())
        return f"return {{{','.join(pairs)}}};"


def packed(line: str) -> str:
    """Return a line without the spaces around it and beside signs, and without semicolons before a ``}``.

    What is in strings, templates and patterns stays. In a module's own lines no template goes over several of them, and
    no statement before a ``}`` is empty, as in ``{ while (next()); }``; tests parse every packed file.
    """
    parts = enumerate(QUOTED.split(line.strip(" ")))
    return "".join(part if index % 2 else SPACED.sub(r"\1", part).replace(";}", "}") for index, part in parts)


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
