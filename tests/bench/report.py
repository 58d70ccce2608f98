"""The bench's report: figures with references and bars, as JSON, a terminal table or Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf, isfinite
from typing import Any, Literal

import orjson
from rich.console import Console
from rich.table import Table

Comparison = Literal["ratio", "difference", "figure"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """The limit that a figure has to meet, and how the two are compared."""

    compares: Comparison
    """The ratio to the reference, the difference from it, or the figure by itself."""
    limit: float
    at_least: bool = False
    """Whether more is better."""
    is_stretch: bool = False
    """Whether it is a goal: missing it does not fail the bench."""

    def holds(self, value: float) -> bool:
        """Return whether the bar is met."""
        return value >= self.limit if self.at_least else value <= self.limit

    def text(self, unit: str) -> str:
        """Return the bar as text."""
        sign = "≥" if self.at_least else "≤"
        form = {
            "ratio": f"{sign} {self.limit:g}x",
            "difference": f"{sign} {self.limit:+g} {unit}".rstrip(),
            "figure": f"{sign} {self.limit:g} {unit}".rstrip(),
        }[self.compares]
        return f"{form} (stretch)" if self.is_stretch else form


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One line of the table: a measurement per round, and its reference."""

    name: str
    unit: str
    rounds: Sequence[float]
    """The figure in each round."""
    references: Sequence[float] = ()
    """Its reference, measured in the same rounds; empty where there is none."""
    bar: Bar | None = None
    """None: for information."""
    note: str = ""

    @property
    def value(self) -> float:
        return statistics.median(self.rounds)

    @property
    def reference(self) -> float | None:
        return statistics.median(self.references) if self.references else None

    @property
    def compared(self) -> float:
        """The median of the rounds' ratios (or differences), in which the machine's load during a round cancels out."""
        pairs = list(zip(self.rounds, self.references, strict=False))
        if not pairs or (self.bar is not None and self.bar.compares == "figure"):
            return self.value
        if self.bar is not None and self.bar.compares == "difference":
            return statistics.median(mine - its for mine, its in pairs)
        return self.ratio

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios to their references, of which there have to be some."""
        pairs = zip(self.rounds, self.references, strict=False)
        return statistics.median(mine / its if its else inf for mine, its in pairs)

    @property
    def is_ok(self) -> bool | None:
        """Whether the bar is met; None where there is none."""
        return None if self.bar is None else self.bar.holds(self.compared)

    @property
    def is_missed(self) -> bool:
        """Whether it missed a bar that is not a goal."""
        return self.bar is not None and not self.bar.is_stretch and not self.bar.holds(self.compared)

    def cells(self) -> tuple[str, str, str, str, str, str]:
        """Return the table's line: name, figure, reference, comparison, bar, verdict."""
        verdict = {None: "", True: "ok", False: "missed"}[self.is_ok]
        name = f"{self.name} ({self.note})" if self.note else self.name
        reference = "" if self.reference is None else _shown(self.reference, self.unit)
        return (
            name,
            _shown(self.value, self.unit),
            reference,
            self._compared_text(),
            self.bar.text(self.unit) if self.bar else "",
            verdict,
        )

    def _compared_text(self) -> str:
        if not self.references:
            return ""
        if self.bar is not None and self.bar.compares == "difference":
            return f"{self.compared:+.2f} {self.unit}".rstrip()
        return _times(self.ratio)

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for programs."""
        fields = {"value": self.value, "reference": self.reference, "compared": self.compared, "ok": self.is_ok}
        return {**asdict(self), **fields}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Figure:
        """Return the figure from the result of ``as_dict``."""
        bar = Bar(**data["bar"]) if data.get("bar") else None
        rounds, references = ([inf if x is None else x for x in data[name]] for name in ("rounds", "references"))
        return cls(
            name=data["name"],
            unit=data["unit"],
            rounds=rounds,
            references=references,
            bar=bar,
            note=data["note"],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The figures of one measurement."""

    name: str
    title: str
    figures: Sequence[Figure]
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further facts, for programs."""
    seconds: float = 0.0

    def to_json(self) -> bytes:
        """Return the report as one line."""
        head = {"name": self.name, "title": self.title, "seconds": self.seconds}
        return orjson.dumps(
            {**head, "figures": [figure.as_dict() for figure in self.figures], "details": dict(self.details)},
            option=orjson.OPT_NON_STR_KEYS,
        )

    @classmethod
    def from_json(cls, line: bytes | str) -> Report:
        """Return the report from the result of ``to_json``."""
        data = orjson.loads(line)
        figures = [Figure.from_dict(figure) for figure in data["figures"]]
        head = {key: data[key] for key in ("name", "title", "seconds", "details")}
        return cls(figures=figures, **head)


COLUMNS = ("what", "measured", "beside", "compared", "bar", "")


def print_tables(reports: Iterable[Report], console: Console) -> None:
    """Show each report as a table."""
    for report in reports:
        table = Table(title=f"{report.title}  [dim]({report.seconds:.0f} s)[/dim]", title_justify="left", expand=False)
        for number, column in enumerate(COLUMNS):
            table.add_column(column, justify="left" if number in (0, 4, 5) else "right", overflow="fold")
        for figure in report.figures:
            table.add_row(*figure.cells(), style={True: "green", False: "bold red", None: "dim"}[figure.is_ok])
        console.print(table)


def markdown(reports: Iterable[Report]) -> str:
    """Return the reports as the tables of docs/performance.md."""
    parts = []
    for report in reports:
        rows = [" | ".join(COLUMNS), " | ".join("---" if n in (0, 4, 5) else "---:" for n in range(len(COLUMNS)))]
        rows += [" | ".join(cell.replace("|", "\\|") for cell in figure.cells()) for figure in report.figures]
        parts.append(f"### {report.title}\n\n" + "\n".join(f"| {row} |" for row in rows))
    return "\n\n".join(parts) + "\n"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}x" if isfinite(ratio) else ""


def _shown(value: float, unit: str) -> str:
    if not isfinite(value):
        return "never"
    digits = 0 if value >= 1000 or value == int(value) else 1 if value >= 100 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f} {unit}".rstrip()
