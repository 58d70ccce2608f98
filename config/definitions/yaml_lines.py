"""YAML as plain JSON data, with the line of every key; and the first mistake of a file, named by file, line and field.

Stricter than YAML: duplicate keys, merge keys, values that JSON or a database cannot hold, and alias bombs are refused
with their line.
"""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from config.definitions.errors import DefinitionInvalid, DefinitionUnreadable
from config.text.names import did_you_mean

MAX_BYTES = 256 * 1024
"""Largest accepted file; libyaml holds the interpreter lock for 0.17 ms per KiB."""
MAX_DEPTH = 64
"""Deepest accepted nesting; libyaml recurses and would exhaust the stack."""
MAX_NODES = 50_000
"""Most values of a file with its aliases expanded."""

YAML_SUFFIXES = (".yaml", ".yml")

Place = tuple[str | int, ...]
"""Where in the data: keys and list positions from the root."""


def yaml_files(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the YAML files of the folders, by folder and name; a folder that is not there has none.

    Raises:
        DefinitionUnreadable: a folder is there and cannot be listed.
    """
    for folder in folders:
        try:
            entries = sorted(folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise DefinitionUnreadable.of(folder, error) from error
        yield from (path for path in entries if path.suffix in YAML_SUFFIXES and not path.name.startswith("."))


@dataclass(frozen=True, kw_only=True, slots=True)
class LinedYaml:
    """A file's data, and the line of each key."""

    data: dict[str, Any]
    lines: dict[Place, int]

    def line_of(self, location: Place) -> int:
        """Return the line of the deepest key of ``place`` that is in the file."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)


class _Loader(yaml.CSafeLoader):
    """Safe YAML whose dates stay text, as JSON has none."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


_PLAIN = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq"))


def read_yaml(path: Path, beginning: str) -> LinedYaml:
    """Return the mapping in ``path`` with the line of each key.

    ``beginning`` is what a file of this kind begins with, for one that has no fields.

    Raises:
        DefinitionInvalid: too large, not YAML, or not plain data; names the line.
        DefinitionUnreadable: the system does not let this process read it now.
    """
    text = _text_of(path)
    try:
        _check_depth(text, path)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            lines = dict(_lines_of(node, path)) if node is not None else {}
            data = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise _not_yaml(path, text, error) from error
    except ValueError as error:  # an integer of thousands of digits
        raise _refused(path, "holds a number of thousands of digits.") from error
    if not isinstance(data, dict):
        raise _refused(path, f"has no fields; begin with {beginning}.", 1)
    _check_values(data, (), path, lines)
    return LinedYaml(data=data, lines=lines)


def _text_of(path: Path) -> str:
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise _refused(path, "is not a regular file.")
        if facts.st_size > MAX_BYTES:
            raise _refused(path, f"has {facts.st_size:,} bytes and the limit is {MAX_BYTES:,}; make it shorter.")
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DefinitionUnreadable.of(path, error) from error
    except UnicodeDecodeError as error:
        raise _refused(path, "is not UTF-8 text; save it as UTF-8.") from error


def _check_depth(text: str, path: Path) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else None
                raise _refused(path, f"is nested more than {MAX_DEPTH} levels deep.", line)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _lines_of(root: yaml.Node, path: Path) -> Iterator[tuple[Place, int]]:
    """Yield each place and its line; refuse values that JSON does not have."""
    waiting: list[tuple[Place, yaml.Node]] = [((), root)]
    seen = 0
    while waiting:
        location, node = waiting.pop()
        seen += 1
        line = node.start_mark.line + 1
        if seen > MAX_NODES or len(location) > MAX_DEPTH:
            raise _refused(path, "its aliases unfold into far too many values.", line)
        if node.tag not in _PLAIN:
            problem = f"the tag {node.tag} is not plain data; write text, numbers, lists and mappings."
            raise _refused(path, problem, line, location)
        if isinstance(node, yaml.MappingNode):
            for key, value in _pairs(node, location, path):
                key_place = (*location, key.value)
                yield key_place, key.start_mark.line + 1
                waiting.append((key_place, value))
        elif isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                yield (*location, position), item.start_mark.line + 1
                waiting.append(((*location, position), item))


def _pairs(node: yaml.MappingNode, location: Place, path: Path) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    keys: set[str] = set()
    for key, value in node.value:
        line = key.start_mark.line + 1
        if key.tag == "tag:yaml.org,2002:merge":
            raise _refused(path, "merge keys (<<) are not supported; write the fields out.", line, location)
        if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
            name = repr(str(key.value)[:40]) if isinstance(key, yaml.ScalarNode) else "a list or mapping"
            raise _refused(path, f"{name} as a key has to be text; put it in quotes.", line, location)
        if key.value in keys:
            problem = "is written twice; keep one of them, the other is lost."
            raise _refused(path, problem, line, (*location, key.value))
        keys.add(key.value)
        yield key, value


def _check_values(value: Any, location: Place, path: Path, lines: dict[Place, int]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _check_values(key, (*location, key), path, lines)
            _check_values(item, (*location, key), path, lines)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _check_values(item, (*location, position), path, lines)
    elif isinstance(value, str) and "\0" in value:
        problem = "the text has the character NUL, which a database cannot keep; leave it out."
        raise _refused(path, problem, lines.get(location), location)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _refused(path, f"{value} is not a number JSON can hold.", lines.get(location), location)
    elif isinstance(value, int) and value.bit_length() > 64:
        raise _refused(path, "the number is too large.", lines.get(location), location)


def _refused(path: Path, problem: str, line: int | None = None, location: Place = ()) -> DefinitionInvalid:
    field = (dotted(location) or "").replace("\0", "\\0")
    return DefinitionInvalid(str(path), line, field or None, problem)


def _not_yaml(path: Path, text: str, error: yaml.YAMLError) -> DefinitionInvalid:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        line = mark.line + 1
        problem = re.sub(r"\s+", " ", str(getattr(error, "problem", None) or "it cannot be parsed"))
    else:
        line = text.count("\n", 0, getattr(error, "position", 0) or 0) + 1
        problem = str(getattr(error, "reason", None) or "it cannot be parsed")
    hint = " Indent with blanks instead of tabs." if "\t" in text and ("token" in problem or "tab" in problem) else ""
    return _refused(path, f"is not YAML: {problem}.{hint}", line)


def dotted(location: Place) -> str | None:
    """Return ``timeouts.tool_s``, ``tools[2]`` or None for the root."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".") or None


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistake:
    """One of pydantic's errors, without the value, which may be a secret."""

    place: Place
    """Where it is in the file."""
    problem: str
    """What is wrong with the field, as a sentence without its beginning."""

    def refusal(self, file: str, written: LinedYaml | None) -> DefinitionInvalid:
        """Return the error that names the file, the line and the field."""
        line = None if written is None else written.line_of(self.place)
        return DefinitionInvalid(file, line, dotted(self.place), self.problem)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistakes:
    """What is said of the mistakes in one kind of file."""

    section_of: Callable[[Place], type[BaseModel]]
    """Returns the section that has the field at one of pydantic's places."""
    sentences: Mapping[str, str] = field(default_factory=dict)
    """The remedy by pydantic's name of an error, or by that and the field's name or the first one of its place."""
    as_written: Callable[[Place], Place] = lambda path: path
    """Returns the place in the file of one of pydantic's places."""

    def first(self, validation: ValidationError, written: LinedYaml | None = None) -> Mistake:
        """Return the mistake to mend first; ``written`` lets one of a whole section be shown at the field it names."""
        errors = validation.errors(include_url=False, include_input=False)
        # An unknown field explains a missing one (`sytem_prompt`), so it is reported first.
        error = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
        path = self.as_written(tuple(error["loc"]))
        named = re.search(r"`(\w+)`", error["msg"]) if error["type"] == "value_error" else None
        if named and written is not None and (*path, named[1]) in written.lines:
            path = (*path, named[1])
        return Mistake(place=path, problem=self._problem(error, path))

    def _problem(self, error: Any, path: Place) -> str:
        kind, names = error["type"], [part for part in path if isinstance(part, str)] or [""]
        if kind == "extra_forbidden":
            fields = self.section_of(tuple(error["loc"])).model_fields
            field_names = [info.alias or name for name, info in fields.items()]
            hint = did_you_mean(names[-1], field_names)
            return f"there is no such field.{hint} Known fields: {', '.join(field_names)}."
        keys = (f"{kind} {names[-1]}", f"{kind} {names[0]}", kind)
        sentence = next((self.sentences[key] for key in keys if key in self.sentences), None)
        if sentence is not None:
            return sentence.format(name=names[-1], **error.get("ctx", {}))
        text = str(error["msg"]).removeprefix("Value error, ")
        return f"{text[0].lower()}{text[1:].rstrip('.')}{'' if text.endswith('?') else '.'}"
