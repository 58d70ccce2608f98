"""The choice of the places where a run is killed, from the command's flags."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from cli.crashlab.places import Place


class Choice(NamedTuple):
    """Which places a run is killed at."""

    at: Sequence[str]
    """By name, such as commit@3; empty: all, or a sample."""
    sample: int | None
    seed: int

    def of(self, places: Sequence[Place]) -> Sequence[Place]:
        if self.at:
            if unknown := set(self.at) - {str(place) for place in places}:
                known = ", ".join(map(str, places))
                raise click.UsageError(f"the run does not pass {', '.join(sorted(unknown))}; it passes {known}.")
            return [place for place in places if str(place) in self.at]
        if self.sample is None or self.sample >= len(places):
            return places
        picked = random.Random(self.seed).sample(range(len(places)), self.sample)  # no secret
        return [places[number] for number in sorted(picked)]

    def summary(self, places: Sequence[Place]) -> str:
        chosen = len(self.of(places))
        seed = f", --seed {self.seed}" if self.sample is not None and not self.at else ""
        return f"{len(places)} places" if chosen == len(places) else f"{chosen} of {len(places)} places{seed}"
