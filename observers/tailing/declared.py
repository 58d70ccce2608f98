"""The observers that tail the log, as ``config/observers.yaml`` declares them: one mapping each, under its name."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from config.clock import epoch_ms, ms_of
from config.definitions.errors import DefinitionInvalid
from config.definitions.runner_spec import Strict
from config.definitions.yaml_lines import LinedYaml, Mistake, Mistakes, dotted, read_yaml
from config.effects import LABEL
from config.identity import principal
from observers.base import Delivery, ObserverOptions

OBSERVER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_START = re.compile(r"now|beginning|\d{1,18}|(?P<time>\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z)?)")
START_FORM = "now, beginning, a position, or a past time of UTC such as 2026-11-01 or 2026-11-01T09:30:00Z"
MAX_THREADS = 32
BEGINNING = "`ledger: {class: my_package.ledger:Ledger}`"
"""What the file begins with."""

_Names = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=128)], ...], Field(min_length=1, max_length=200)]


def is_start(text: str) -> bool:
    """Return whether an observer may start there: see ``START_FORM``."""
    match = _START.fullmatch(text)
    if match is None or match["time"] is None:
        return match is not None
    with suppress(ValueError):  # of a day that no month has
        return ms_of(match["time"]) <= epoch_ms()
    return False


class ObserverFields(Strict):
    """An observer that tails the log, with what it takes of it."""

    kind: Annotated[str, Field(min_length=1, max_length=200)] = Field(default="", alias="class")
    """Its class: an entry point's name or ``package.module:ClassName``; its own name by default."""
    delivery: Delivery | None = None
    """What becomes of an event that it does not take; what its class says by default."""
    threads: Annotated[int, Field(strict=True, ge=1, le=MAX_THREADS)] | None = None
    """Threads of a process that feed it, each other runs; what its class says by default."""
    start: str = "now"
    """Where it starts the first time; afterwards its cursor counts."""
    agents: _Names | None = None
    """The agents whose runs it gets; all by default."""
    tenants: (
        Annotated[tuple[Annotated[str, Field(pattern=rf"^{principal.NAME}$")], ...], Field(min_length=1)] | None
    ) = None
    """The tenants whose runs it gets; all by default."""
    types: _Names | None = None
    """The types of events that it gets; all by default."""
    labels: Annotated[tuple[Annotated[str, Field(pattern=rf"^{LABEL}$")], ...], Field(min_length=1)] | None = None
    """It gets runs that have read something with one of these labels, from then on; all runs by default."""
    options: dict[str, Any] | None = None
    """What its class reads itself; ``options_of`` checks it."""

    @field_validator("start", mode="before")
    @classmethod
    def _is_a_place(cls, value: Any) -> str:
        if isinstance(value, bool) or not is_start(str(value)):
            raise ValueError(f"has to be {START_FORM}")
        return str(value)


def read_observers(path: Path) -> dict[str, ObserverFields]:
    """Return the observers that a file declares, by name; none where there is no file.

    Raises:
        DefinitionInvalid: the message names the file, the line, the field and what to write instead.
    """
    if not path.exists():
        return {}
    written = read_yaml(path, BEGINNING)
    observers: dict[str, ObserverFields] = {}
    for name, fields in written.data.items():
        if not OBSERVER_NAME.fullmatch(name):
            problem = "an observer's name has letters, digits, '_', '-' and '.', at most 64, the first a letter."
            raise DefinitionInvalid(str(path), written.line_of((name,)), name, problem)
        try:
            observers[name] = ObserverFields.model_validate(fields if fields is not None else {})
        except ValidationError as error:
            raise _refusal(path, written, (name,), _MISTAKES.first(error)) from error
    return observers


def options_of(
    path: Path, name: str, fields: ObserverFields, model: type[ObserverOptions] | None
) -> ObserverOptions | None:
    """Return the options that a file declares for an observer whose class has this model of them.

    Raises:
        DefinitionInvalid: the class takes none, or others.
    """
    if model is None and fields.options is None:
        return None
    if model is None:
        raise refusal_of(path, name, "options", "its class takes no options; leave them out.")
    written = read_yaml(path, BEGINNING)
    try:
        return model.model_validate(fields.options or {})
    except ValidationError as error:
        mistake = Mistakes(section_of=lambda _: model, sentences=_SENTENCES).first(error)
        raise _refusal(path, written, (name, "options"), mistake) from error


def refusal_of(path: Path, name: str, field: str, problem: str) -> DefinitionInvalid:
    """Return what refuses a field of a declared observer."""
    line = read_yaml(path, BEGINNING).line_of((name, field))
    return DefinitionInvalid(str(path), line, f"{name}.{field}", problem)


def _refusal(path: Path, written: LinedYaml, section: tuple[str, ...], mistake: Mistake) -> DefinitionInvalid:
    place = (*section, *mistake.place)
    return DefinitionInvalid(str(path), written.line_of(place), dotted(place), mistake.problem)


_SENTENCES = {
    "missing": "is missing; add it, for example `{name}: ...`.",
    "dict_type": "has to be a mapping of fields to values.",
    "bool_type": "has to be `true` or `false`.",
    "tuple_type": "has to be a list, for example `{name}: [one, two]`.",
    "too_short": "selects nothing; name at least one, or leave it out for all.",
    "string_type": "has to be text; put it in quotes.",
    "model_type": "has to be a mapping of fields to values.",
    "string_pattern_mismatch tenants": f"has to be {principal.NAME_FORM}.",
    "literal_error": "has to be {expected}.",
}
_MISTAKES = Mistakes(section_of=lambda _: ObserverFields, sentences=_SENTENCES)
