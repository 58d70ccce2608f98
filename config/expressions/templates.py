"""Templates: texts of a definition with ``{{ expressions }}``, checked when the file is read, rendered with JSON data.

What is rendered is never a template again: braces in a value stay text. What is no text is written as JSON within one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from minijinja import Environment, TemplateError

from config.expressions.errors import ExpressionFailed, ExpressionRefused
from config.expressions.references import MAX_SHOWN, NAMES, Reference, input_fields_of, nodes_of
from config.expressions.template_data import (
    MAX_CHARS,
    MAX_WORK,
    MISSING,
    NULL,
    TOO_LONG,
    Rendering,
    filters_of,
    is_null,
)
from config.expressions.template_syntax import MAX_BRANCHES, MAX_SOURCE, Segment, checked, optional_keys, segments_of
from config.expressions.work import size_of
from config.text.visible import one_line

FUEL = 5_000_000
"""Of a rendering, as the library counts it: its instructions, and the work of its filters."""
MAX_DATA = 16_000_000
"""Characters of the data that a node makes of what is there, as by naming a result twice."""
MAX_WORK_OF_DATA = 5 * MAX_WORK
"""Characters and values that all templates of a node's data may read: less than a second, in which no run continues."""
MAX_DEPTH = 64
"""Of data whose texts are templates."""
MAX_KEPT = 1_000
"""Characters of a template that is kept compiled; 512 of these take at most some 30 MiB, usually 4."""
Place = tuple[str | int, ...]


class Template:
    """A template that can be used."""

    def __init__(self, source: str, names: Sequence[str] = NAMES) -> None:
        """Check and compile ``source``, which may refer to ``names``.

        Raises:
            ExpressionRefused: it is too long, is not closed, or has what no template may have; the text says what.
        """
        if len(source) > MAX_SOURCE:
            raise ExpressionRefused(f"has {len(source):,} characters and the limit is {MAX_SOURCE:,}; make it shorter.")
        self.source = source
        self._segments = tuple(segments_of(source))
        if sum(not segment.is_expression for segment in self._segments) > MAX_BRANCHES:
            raise ExpressionRefused(f"has more than {MAX_BRANCHES} branches; split it.")
        self._references = tuple(reference for segment in self._segments for reference in checked(segment, names))
        self.names = frozenset(str(reference.parts[0]) for reference in self._references)
        """The names to which it refers."""
        self.nodes = nodes_of(self._references)
        """The ids of the nodes to which it refers; None where a value decides, or all are meant."""
        self.input_fields = input_fields_of(self._references)
        """The fields of the input to which it refers."""
        self._optional = _optional_keys(self._segments)
        self._is_value = _is_one_expression(source, self._segments)
        self._reference = _only_reference(self._segments, self._references) if self._is_value else None
        self.is_text = not self._segments and "{#" not in source
        """Whether it has neither expressions nor comments: its value is the source."""
        if not self.is_text:
            _compile(source)

    @property
    def makes(self) -> bool:
        """Whether rendering makes a value, and does not return one that is there."""
        return not self.is_text and self._reference is None

    def value(self, variables: Mapping[str, Any]) -> Any:
        """Return the expression's own data where the template is exactly one, and a text where it is more.

        ``variables``: JSON data by name; what is not there is a missing value.

        Raises:
            ExpressionFailed: a value is missing, does not fit, or is too large; the text has no values.
        """
        return self.value_within(variables, MAX_WORK)[0]

    def value_within(self, variables: Mapping[str, Any], unread: int) -> tuple[Any, int]:
        """Return the value, and what is left of the characters and values that may be read; see ``value``."""
        if self._reference is not None:
            return self._reference.read(variables), unread
        if self.is_text:
            return self.source, unread
        rendering = Rendering(self._optional, unread)
        values: list[Any] = []
        emit = partial(_keep, rendering, values) if self._is_value else partial(_write, rendering)
        problem, text = self._rendered(rendering, variables, emit)
        if rendering.problem:
            problem = self._with_reference(rendering.problem, variables)
        if problem:
            raise ExpressionFailed(problem)
        return (values[0] if self._is_value else text), rendering.unread

    def _rendered(
        self, rendering: Rendering, variables: Mapping[str, Any], emit: Callable[[Any], str]
    ) -> tuple[str, str]:
        """Return what is wrong, and the text; the library's errors, which have values, end here."""
        try:
            environment = _environment(finalizer=emit)
            for name, function in filters_of(rendering).items():
                environment.add_filter(name, function)
            environment.add_test("none", partial(is_null, rendering))
            context = {name: rendering.view(variables[name]) for name in self.names if name in variables}
            rendering.add(len(self.source) - sum(segment.end - segment.start for segment in self._segments))
            return "", environment.render_str(self.source, **context, null=NULL)
        except ExpressionFailed as error:
            return str(error), ""
        except TemplateError as error:
            return self._sentence(error, variables), ""
        except Exception:  # a filter gets other arguments than it takes
            return "a filter has other arguments than it takes", ""

    # --- sentences

    def _sentence(self, error: TemplateError, variables: Mapping[str, Any]) -> str:
        """Return what is wrong, by the part of the source that the library names."""
        start, end = (len(self.source.encode()[:byte].decode(errors="ignore")) for byte in error.range or (0, 0))
        if error.kind == "UndefinedError":
            near = (reference for reference in self._references if reference.start < end and reference.end > start)
            return _missing(near, variables, None) or f"{self._excerpt(start)} has no value"
        if error.kind == "OutOfFuel":
            return f"it would run long: it takes more than {FUEL:,} steps"
        excerpt = self._excerpt(start)
        return f"{excerpt} cannot be computed: its values do not fit the operator or filter, or it divides by zero"

    def _excerpt(self, at: int) -> str:
        """Return the expression at a place in the source."""
        segment = next((segment for segment in self._segments if segment.start <= at < segment.end), None)
        return f"`{one_line(self.source[segment.start : segment.end])[:MAX_SHOWN]}`" if segment else "an expression"

    def _with_reference(self, problem: str, variables: Mapping[str, Any]) -> str:
        """Return a problem of the data with the first reference that has it, where one has."""
        if problem == MISSING:
            open_paths = [reference.start for reference in self._references if not reference.is_whole]
            excerpt = self._excerpt(open_paths[0] if open_paths else self._segments[0].start)
            return _missing(self._references, variables, self._optional) or f"{excerpt} has no value"
        rendering = Rendering()
        for reference in self._references if problem != TOO_LONG else ():
            if reference.missing(variables) is None:
                try:
                    rendering.plain(rendering.view(reference.read(variables)))
                except ExpressionFailed as failure:
                    return f"`{reference}`: {problem}" if str(failure) == problem else problem
        return problem


def template_of(source: str, names: Sequence[str] = NAMES) -> Template:
    """Return the template of a source; short ones are kept, since a node renders the same ones again and again.

    Raises:
        ExpressionRefused: see ``Template``.
    """
    return _kept(source, tuple(names)) if len(source) <= MAX_KEPT else Template(source, names)


@lru_cache(maxsize=512)
def _kept(source: str, names: Sequence[str]) -> Template:
    return Template(source, names)


def _missing(
    references: Iterable[Reference], variables: Mapping[str, Any], optional: frozenset[str | int] | None
) -> str:
    """Return what the first of the references misses, one that is not optional; nothing where none misses anything."""
    for reference in references:
        part = reference.missing(variables)
        if part is not None and part not in (optional or ()):
            try:
                reference.read(variables)
            except ExpressionFailed as failure:
                return str(failure)
    return ""


def _optional_keys(segments: Iterable[Segment]) -> frozenset[str | int] | None:
    keys: set[str | int] = set()
    for segment in segments:
        optional = optional_keys(segment.tokens)
        if optional is None:
            return None
        keys |= optional
    return frozenset(keys)


def _is_one_expression(source: str, segments: Sequence[Segment]) -> bool:
    """Return whether a template is one expression, with blanks around it."""
    if len(segments) != 1 or not segments[0].is_expression:
        return False
    return not source[: segments[0].start].strip() and not source[segments[0].end :].strip()


def _only_reference(segments: Sequence[Segment], references: Sequence[Reference]) -> Reference | None:
    """Return what an expression is no more than a reference to; its value is the data itself."""
    tokens = segments[0].tokens
    if len(references) != 1 or not references[0].is_whole:
        return None
    ends = (tokens[0].start, tokens[-1].start + len(tokens[-1].source))
    return references[0] if ends == (references[0].start, references[0].end) else None


def _environment(**more: Any) -> Environment:
    """Return an environment of one rendering: it has a lock that a thread of a forked parent might hold."""
    return Environment(
        fuel=FUEL, undefined_behavior="strict", debug=False, pycompat=False, keep_trailing_newline=True, **more
    )


def _compile(source: str) -> None:
    """Return if the library reads a template.

    Raises:
        ExpressionRefused: it does not.
    """
    try:
        problem = ""
        _environment().add_template("template", source)
    except TemplateError as error:
        problem = one_line((error.detail or error.message).removeprefix("syntax error: "))[:200]
    except UnicodeEncodeError:
        problem = "it has half a character (a lone surrogate)"
    if problem:
        raise ExpressionRefused(f"is no template: {problem}.")


def _keep(rendering: Rendering, values: list[Any], value: Any) -> str:
    """Keep the value of the one expression; it leaves no text."""
    data = rendering.plain(value)
    rendering.limit(size_of({"": data})[1])
    values.append(data)
    return ""


def _write(rendering: Rendering, value: Any) -> str:
    text = rendering.text(value)
    rendering.add(len(text))
    return text


# --- data whose texts are templates


def templates_in(data: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield the texts within JSON data, each with its place; keys are no templates.

    Raises:
        ExpressionRefused: the data is nested too deep.
    """
    if len(place) > MAX_DEPTH:
        raise ExpressionRefused(f"is nested more than {MAX_DEPTH} levels deep.")
    if isinstance(data, str):
        yield place, data
    elif isinstance(data, Mapping):
        for key, item in data.items():
            yield from templates_in(item, (*place, key))
    elif isinstance(data, list | tuple):
        for index, item in enumerate(data):
            yield from templates_in(item, (*place, index))


def render_data(data: Any, variables: Mapping[str, Any], names: Sequence[str] = NAMES) -> Any:
    """Return JSON data with the value of each text that is a template; keys stay as they are.

    ``names``: to what the templates may refer.

    Raises:
        ExpressionRefused: a text is a template that cannot be used.
        ExpressionFailed: one has no value, or what they make is too large all together.
    """
    values: dict[Place, Any] = {}
    new_chars = old_chars = 0
    sources, unread = list(templates_in(data)), MAX_WORK_OF_DATA
    for place, source in sources:
        template, may_read = template_of(source, names), min(MAX_WORK, unread)
        values[place], left = template.value_within(variables, may_read)
        unread -= may_read - left
        if template.makes:
            new_chars += size_of({"": values[place]})[1]
        elif len(sources) > 1:  # one alone gives what is there already
            old_chars += size_of({"": values[place]})[1]
        if new_chars > MAX_CHARS:
            raise ExpressionFailed(f"the templates make more than {MAX_CHARS:,} characters; take less of the data")
        require_size(old_chars)
    return _with_values(data, values, ())


def require_size(chars: int) -> None:
    """Return where a node may make so many characters of data.

    Raises:
        ExpressionFailed: it may not.
    """
    if chars > MAX_DATA:
        raise ExpressionFailed(f"it makes more than {MAX_DATA:,} characters of data; take less, or keep it in a file")


def _with_values(data: Any, values: Mapping[Place, Any], place: Place) -> Any:
    if isinstance(data, str):
        return values[place]
    if isinstance(data, Mapping):
        return {key: _with_values(item, values, (*place, key)) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [_with_values(item, values, (*place, index)) for index, item in enumerate(data)]
    return data
