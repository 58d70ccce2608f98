"""What the calls of a run did to the world, counted from the ledger, and what is not allowed to be there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from web.terminal.crashlab.found import Found
from web.terminal.crashlab.ledger import BEGAN, RETURNED, Entry
from web.terminal.crashlab.lives import Lived, call_name

STRICTEST = ("pure", "idempotent", "keyed", "checkable", "unsafe")


class Effects:
    """A run's ledger beside its journal.

    A tool is taken as what it says of itself, or as what the agent's file says where that is stricter; with
    ``trust_overrides`` as what the file says.
    """

    def __init__(
        self, found: Found | None, entries: Sequence[Entry], *, trust_overrides: bool, lived: Lived | None = None
    ) -> None:
        """``lived``: the life that went on, which must not do again what was recorded before it."""
        self._entries = entries
        self._lived = lived
        self._trust_overrides = trust_overrides
        self._steps = {step["idempotency_key"]: step for step in found.steps} if found is not None else {}
        answers = found.answers if found is not None else ()
        self._chosen_again = Counter(step_id for step_id, decision in answers if decision == "run_again")

    def counted(self) -> Counter[str]:
        """Return how often each call took effect, by ``call_name``.

        One of an unsafe tool takes effect each time it arrives, one of a pure tool never, others once a key.
        """
        counted: Counter[str] = Counter()
        seen: set[str] = set()
        for entry in self._arrivals():
            effect = self._effect(entry)
            if effect == "unsafe" or (effect != "pure" and entry.key not in seen):
                counted[call_name(entry.tool, entry.arguments)] += 1
            seen.add(entry.key)
        return counted

    def breaches(self) -> Iterator[str]:
        """Yield what must not be, a sentence each."""
        arrived: Counter[str] = Counter()
        for entry in self._arrivals():
            arrived[entry.key] += 1
            step = self._steps.get(entry.key)
            if step is None:
                yield f"`{entry.tool}` was called under a key that no recorded step has"
            elif self._effect(entry) == "unsafe" and arrived[entry.key] == 2 + self._chosen_again[step["id"]]:
                yield f"`{entry.tool}` took effect twice{self._blame(entry)}"
        yield from self._not_recognized()
        yield from self._recomputed()

    def _recomputed(self) -> Iterator[str]:
        if self._lived is not None:
            for entry in self._entries[self._lived.arrived_before :]:
                if entry.mark == BEGAN and entry.key in self._lived.recorded:
                    yield f"`{entry.tool}` was called again although its result was recorded"

    def _not_recognized(self) -> Iterator[str]:
        returned: set[str] = set()
        for entry in self._entries:
            if entry.mark == BEGAN and entry.key in returned and self._effect(entry) == "checkable":
                yield f"`{entry.tool}` was called again: its `check` did not know a call that had returned"
            if entry.mark == RETURNED:
                returned.add(entry.key)

    def _arrivals(self) -> Iterator[Entry]:
        return (entry for entry in self._entries if entry.mark == BEGAN)

    def _declared(self, entry: Entry) -> str | None:
        """Return the effect the run went by."""
        step = self._steps.get(entry.key)
        return step["effect"] if step is not None else None

    def _effect(self, entry: Entry) -> str:
        declared = self._declared(entry)
        believed = None if self._trust_overrides and declared is not None else entry.says
        said = [effect for effect in (declared, believed) if effect is not None]
        return max(said, key=STRICTEST.index, default="unsafe")

    def _blame(self, entry: Entry) -> str:
        declared = self._declared(entry)
        if declared == "unsafe":
            return ", and nobody chose to run it again"
        return f": it says unsafe of itself, and the agent's file says {declared}"
