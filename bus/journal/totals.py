"""Totals of a run: steps, tokens by kind, and their price in USD."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, select

from config.database.tables import steps


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Sums over the steps of a run; zero for a new run."""

    steps: int = 0
    usage: Mapping[str, int] = field(default_factory=dict)
    """Tokens by kind, including failed attempts."""
    cost_usd: float | None = None
    """None where no step's price is known, which differs from 0."""

    def plus(self, other: Totals) -> Totals:
        total = {name: self.usage.get(name, 0) + other.usage.get(name, 0) for name in {**self.usage, **other.usage}}
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Totals(steps=self.steps + other.steps, usage=total, cost_usd=sum(costs) if costs else None)


def total_of(rows: Iterable[Any]) -> Totals:
    """Return the sums over rows of steps."""
    total = Totals()
    for row in rows:
        usage = orjson.loads(row.usage_json) if row.usage_json else {}
        total = total.plus(Totals(steps=1, usage=usage, cost_usd=row.cost_usd))
    return total


def read_totals(connection: Connection, run_id: str) -> Totals:
    """Return the run's totals; reads only columns whose format is the same in all releases."""
    return total_of(connection.execute(_TOTALS, {"run_": run_id}))


_TOTALS = (
    select(steps.c.usage_json, steps.c.cost_usd).where(steps.c.run_id == bindparam("run_")).order_by(steps.c.number)
)
