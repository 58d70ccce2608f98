"""The first mistake in a file of YAML, as ``file:line: field: sentence``: what is wrong and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError

from config.definitions.errors import DefinitionInvalid
from config.definitions.yaml_lines import LinedYaml, Place, dotted
from config.text.names import did_you_mean


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
        return f"{text[0].lower()}{text[1:]}."
