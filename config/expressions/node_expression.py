"""An expression in the file of a workflow, in CEL: a condition, or a value that is computed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any

from config.expressions.cel import Expression, Language, Values
from config.expressions.references import NAMES, NODES, Reference, input_fields_of, nodes_of
from config.expressions.work import Split, split_texts

_REFERENCE = re.compile(
    rf"""(?<![\w)\]'"]\.)\b({"|".join(NAMES)})\b"""
    r"""((?:\s*+\.\s*+[A-Za-z_]\w*+(?!\s*+\()|\s*+\[\s*+(?:[0-9]{1,9}|'')\s*+\])*+)"""
)
"""A name that is no field of something else, with the path behind it, up to a macro such as `nodes.all(...)`."""
_STEP = re.compile(r"""\.\s*+(\w++)|\[\s*+(?:([0-9]++)|'')""")


def _types(kinds: Any) -> Mapping[str, Any]:
    """Return the type of each name, from those of ``cel.Type``."""
    mapping = kinds.Map(kinds.STRING, kinds.DYN)
    return {**dict.fromkeys(NAMES, kinds.DYN), NODES: mapping, "variables": mapping, "index": kinds.INT}


WORKFLOW = Language(_types)
"""The names of a workflow with their types."""


class NodeExpression:
    """A compiled expression over the values of a workflow."""

    def __init__(self, source: str, *, is_boolean: bool = True) -> None:
        """Compile ``source``.

        Raises:
            ExpressionRefused: it does not compile, is no condition, may run long, or has an invalid pattern.
        """
        self._expression = Expression(WORKFLOW, source, is_boolean=is_boolean)
        references = list(_references(split_texts(source)))
        self.source = source
        self.names = frozenset(str(reference.parts[0]) for reference in references)
        """The names to which it refers."""
        self.nodes = nodes_of(references)
        """The ids of the nodes to which it refers; None where a value decides, or all are meant."""
        self.input_fields = input_fields_of(references)
        """The fields of the input to which it refers."""
        self._read = _tree_of(references)

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Return whether it is true of the values of the names.

        Raises:
            ExpressionFailed: it fails for these values, is neither true nor false, or would run long.
        """
        return self._expression.holds(Values(WORKFLOW, _part_of(variables, self._read)))

    def result(self, variables: Mapping[str, Any]) -> Any:
        """Return its value as JSON data.

        Raises:
            ExpressionFailed: it fails for these values, or would run long.
        """
        return self._expression.result(Values(WORKFLOW, _part_of(variables, self._read)))


# --- what it reads


def _references(split: Split) -> Iterator[Reference]:
    for match in _REFERENCE.finditer(split.bare):
        yield Reference((match[1], *_path_of(match, split)), *match.span())


def _path_of(match: re.Match[str], split: Split) -> Iterator[str | int]:
    """Yield the parts that follow a name, as far as they are written out."""
    texts = iter(split.texts[split.bare.count("''", 0, match.start(2)) :])
    for step in _STEP.finditer(match[2]):
        text = "" if step[1] or step[2] else next(texts)
        if "\\" in text or text[:1] * 3 == text[:3] != "":
            return
        yield step[1] or (int(step[2]) if step[2] else text[1:-1])


Tree = dict[str, "Tree | None"]
"""Keys of mappings that are read, each with those below it; None: all that is there."""


def _tree_of(references: Iterable[Reference]) -> Tree:
    """Return what the references read."""
    tree: Tree = {}
    for reference in references:
        below: Tree | None = tree
        keys = [str(part) for part in takewhile(lambda part: isinstance(part, str), reference.parts)]
        for key in keys[:-1]:
            below = below.setdefault(key, {}) if below is not None else None
        if below is not None:
            below[keys[-1]] = None
    return tree


def _part_of(value: Mapping[str, Any], tree: Tree) -> dict[str, Any]:
    """Return a mapping with what is read of it: the library converts all that it gets, for each evaluation."""
    return {
        key: value[key] if below is None or not isinstance(value[key], Mapping) else _part_of(value[key], below)
        for key, below in tree.items()
        if key in value
    }
