"""What the tools answered, in sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agents.models.demo.conversation import Done

_NUMBER = re.compile(r"-?[\d.]+(?:e[+-]?\d+)?")
_PREFIX = re.compile(r"^(?:(?:error|failed|refused|[a-z]+_[a-z_]+)\b[:.,]?\s+)+", re.IGNORECASE)
"""What a loop may put before a failure's sentence: a word, or a code."""
_UNITS = {"area_km2": " km²", "people_per_km2": " people per km²", "population": " people", "neighbours": " neighbours"}
_HEADINGS = {"area_km2": "area (km²)", "people_per_km2": "people per km²"}


def tell(done: Sequence[Done]) -> str:
    """Return one text about all results, in order."""
    return "\n\n".join(_tell_one(item) for item in done)


def _tell_one(item: Done) -> str:
    is_told = item.name in _TELLERS and (not item.failed or item.name == "order_supplies")
    sentence = _TELLERS[item.name](item) if is_told else None
    if sentence is not None:
        return sentence
    text = item.result if isinstance(item.result, str) else json.dumps(item.result, ensure_ascii=False)
    if item.failed or item.name in _TELLERS:
        return f"`{item.name}` did not work out: {_plain(item.result) or text}"
    return f"`{item.name}` answered: {text}"


def _plain(result: Any) -> str:
    """Return the words of a failure, however it was packed."""
    for _ in range(3):
        if not isinstance(result, Mapping):
            break
        result = next((result[key] for key in ("message", "error", "reason", "result") if result.get(key)), "")
    return _PREFIX.sub("", str(result).strip())


def _calculator(item: Done) -> str | None:
    if not _NUMBER.fullmatch(str(item.result).strip()):
        return None
    return f"{item.arguments.get('expression', 'That')} = **{_grouped(str(item.result).strip())}**"


def _clock(item: Done) -> str | None:
    if not (isinstance(item.result, Mapping) and "timezone" in item.result):
        return None
    facts = item.result
    place = str(item.arguments.get("timezone") or facts["timezone"]).rsplit("/", 1)[-1].replace("_", " ")
    offset = str(facts.get("utc_offset", ""))
    if facts["timezone"] == "UTC":
        return f"It is **{facts['time']}** UTC on {facts['date']}."
    return f"In {place[:1].upper()}{place[1:]} it is **{facts['time']}** on {facts['date']} (UTC{offset})."


def _list_files(item: Done) -> str | None:
    files = item.result.get("files") if isinstance(item.result, Mapping) else None
    if files is None:
        return None
    if not files:
        return "The sandbox is empty. Say `write hello to notes.txt`, and it will not be."
    lines = [f"- `{file['path']}`, {_counted(file['bytes'], 'byte')}" for file in files]
    return f"There {'is one file' if len(files) == 1 else f'are {len(files)} files'} in the sandbox:\n\n" + "\n".join(
        lines
    )


def _read_file(item: Done) -> str | None:
    path, text = item.arguments.get("path", "the file"), str(item.result)
    if isinstance(item.result, Mapping | list):
        text = json.dumps(item.result, ensure_ascii=False, indent=2)
    if "cannot be used:" in text[:400]:
        return None
    if not text.strip():
        return f"`{path}` is empty."
    shown = text if len(text) <= 2000 else f"{text[:2000]}\n…"
    return f"`{path}` says:\n\n```\n{shown.rstrip().replace('```', '` ` `')}\n```"


def _write_file(item: Done) -> str | None:
    if not (isinstance(item.result, Mapping) and "bytes" in item.result):
        return None
    return f"Done: `{item.result['path']}` now holds {_counted(item.result['bytes'], 'byte')}."


def _order_supplies(item: Done) -> str | None:
    if not (isinstance(item.result, Mapping) and "total_eur" in item.result):
        wanted = f"{item.arguments.get('boxes', 1)} × {item.arguments.get('item', 'supplies')}"
        reason = _plain(item.result).rstrip(".")
        return (
            f"**Nothing was ordered** ({wanted}). An order needs a person's agreement{f': {reason}' if reason else ''}."
        )
    order = item.result
    return (
        f"Ordered: {_counted(order['boxes'], 'box', 'boxes')} of {order['item']} for **€{order['total_eur']:.2f}**. "
        f"The order's number is `{order['order']}`."
    )


def _query_countries(item: Done) -> str | None:
    if not (isinstance(item.result, Mapping) and "columns" in item.result):
        return None
    columns, rows = [str(name) for name in item.result["columns"]], item.result["rows"]
    if not rows:
        return "The data set has nothing that fits. Its countries have English short names, like `South Korea`."
    if len(rows) == 1:
        return _one_row(columns, rows[0])
    table = _table(columns, rows[:50])
    note = f"\n\n({item.result['note']})" if "note" in item.result else ""
    return f"{_lead(columns, rows)}\n\n{table}{note}".lstrip()


def _one_row(columns: list[str], row: list[Any]) -> str:
    if len(row) == 1:
        number = isinstance(row[0], int | float)
        return f"**{_cell(row[0])}**{' ' + columns[0].replace('_', ' ') if number else ''}."
    if columns[:2] == ["name", "capital"] and len(row) == 2:
        return f"The capital of {row[0]} is **{row[1]}**."
    if columns[:2] == ["capital", "name"] and len(row) == 2:
        return f"**{row[0]}** is the capital of {row[1]}."
    if len(row) == 2 and isinstance(row[1], int | float):
        return f"**{row[0]}**, with {_cell(row[1])}{_UNITS.get(columns[1], '')}."
    pairs = list(zip(columns, row, strict=False))[1:]
    facts = (
        f"{_heading(name).split(' (')[0].replace('people per km²', 'people per km²:')} {_cell(value)}{_unit(name)}"
        for name, value in pairs
    )
    return f"**{row[0]}**: {', '.join(facts)}."


def _lead(columns: list[str], rows: list[list[Any]]) -> str:
    first = rows[0]
    if len(first) == 2 and columns[0] == "name" and isinstance(first[1], int | float):
        return f"**{first[0]}** comes first, with {_cell(first[1])}{_UNITS.get(columns[1], '')}:"
    return "" if len(rows) < 4 else f"There are {len(rows)}:"


def _unit(name: str) -> str:
    return _UNITS[name] if name == "area_km2" else ""


def _table(columns: list[str], rows: list[list[Any]]) -> str:
    cells = [[_cell(value) for value in row] for row in rows]
    heads = [_heading(name) for name in columns]
    numbers = [all(isinstance(row[at], int | float) for row in rows) for at in range(len(columns))]
    widths = [max(3, len(heads[at]), *(len(row[at]) for row in cells)) for at in range(len(columns))]
    ruler = ["-" * (width - 1) + ":" if right else "-" * width for width, right in zip(widths, numbers, strict=True)]

    def line(parts: Sequence[str]) -> str:
        padded = (
            part.rjust(width) if right else part.ljust(width)
            for part, width, right in zip(parts, widths, numbers, strict=True)
        )
        return f"| {' | '.join(padded)} |"

    return "\n".join([line(heads), line(ruler), *(line(row) for row in cells)])


def _heading(name: str) -> str:
    return _HEADINGS.get(name, name.replace("_", " "))


def _cell(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _grouped(str(value), 4)
    return "" if value is None else str(value).replace("|", "\\|")


def _grouped(number: str, from_digits: int = 5) -> str:
    whole, dot, rest = number.partition(".")
    if re.fullmatch(r"-?\d+", whole) and from_digits <= len(whole.lstrip("-")) < 40:
        return f"{int(whole):,}{dot}{rest}"
    return number


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


_TELLERS: Mapping[str, Callable[[Done], str | None]] = {
    "calculator": _calculator,
    "clock": _clock,
    "list_files": _list_files,
    "read_file": _read_file,
    "write_file": _write_file,
    "order_supplies": _order_supplies,
    "query_countries": _query_countries,
}
