"""What a run has used so far: tokens, cost and steps."""

from __future__ import annotations

from collections.abc import Callable

from bus.journal.owner import Totals


class Spending:
    """What one run has used so far."""

    def __init__(self, ended: Totals | None = None) -> None:
        """``ended``: what earlier owners used."""
        self._ended = ended or Totals()
        self._open: Callable[[], Totals] = Totals

    @property
    def total(self) -> Totals:
        """What it has used, including the step that is open."""
        return self._ended.plus(self._open())

    def add(self, spent: Totals) -> None:
        """Count what was used beside the open step."""
        self._ended = self._ended.plus(spent)

    def begin(self, steps: int, so_far: Callable[[], Totals] = Totals) -> None:
        """Count the start of steps, and what the open one was before; ``so_far`` returns what they have used."""
        self._ended, self._open = self.total.plus(Totals(steps=steps)), so_far

    def resume(self, so_far: Callable[[], Totals]) -> None:
        """Count what a step uses that an earlier owner began."""
        self._open = so_far
