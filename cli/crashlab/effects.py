"""The effects of the calls of a thread's runs, counted from the ledger, and the rules they must not break."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from bus.journal.readers import RunRecord
from cli.crashlab.ledger import BEGAN, RETURNED, Entry
from cli.crashlab.person import call_name
from cli.crashlab.trial import AttemptResult
from config.effects import Changes, Effect


class Effects:
    """The ledger of a thread's runs compared with the journal.

    A tool's effect class is its own, or the agent's override where that is riskier; with ``trust_overrides`` it is the
    override.
    """

    def __init__(
        self,
        records: Sequence[RunRecord],
        entries: Sequence[Entry],
        *,
        trust_overrides: bool = False,
        attempt: AttemptResult | None = None,
    ) -> None:
        """``attempt``: the process that resumed the run, which must not repeat calls that were recorded before it."""
        self._entries = entries
        self._attempt = attempt or AttemptResult(records=records)
        self._trust_overrides = trust_overrides
        self._steps = {step["idempotency_key"]: step for record in records for step in record.steps}
        answers = [answer for record in records for answer in record.approvals]
        again = (row["step_id"] for row in answers if row["decision"] == "run_again" and row["used_ms"] is not None)
        self._chosen_again = Counter(again)

    def counted(self) -> Counter[str]:
        """Return how often each call took effect, by ``call_name``.

        A call of an unsafe tool takes effect each time it arrives, one of a pure tool never, others once per key.
        """
        counted: Counter[str] = Counter()
        seen: set[str] = set()
        for entry in self._entries:
            if entry.mark != BEGAN:
                continue
            changes = self._effect(entry).policy.changes
            if changes is Changes.EACH_CALL or (changes is Changes.ONCE_A_KEY and entry.key not in seen):
                counted[call_name(entry.tool, entry.arguments)] += 1
            seen.add(entry.key)
        return counted

    def breaches(self) -> Iterator[str]:
        """Yield each broken rule as a sentence."""
        arrived: Counter[str] = Counter()
        returned: set[str] = set()
        for number, entry in enumerate(self._entries):
            if entry.mark == RETURNED:
                returned.add(entry.key)
            if entry.mark != BEGAN:
                continue
            arrived[entry.key] += 1
            step, policy = self._steps.get(entry.key), self._effect(entry).policy
            if step is None:
                yield f"`{entry.tool}` was called under a key that no recorded step has"
            elif policy.changes is Changes.EACH_CALL and arrived[entry.key] == 2 + self._chosen_again[step["id"]]:
                yield f"`{entry.tool}` took effect twice{self._blame(entry)}"
            if entry.key in returned and policy.needs_check:
                yield f"`{entry.tool}` was called again: its `check` did not know a call that had returned"
            if number >= self._attempt.arrived_before and entry.key in self._attempt.recorded:
                yield f"`{entry.tool}` was called again although its result was recorded"

    def _declared(self, entry: Entry) -> Effect | None:
        """Return the effect class that the run recorded."""
        step = self._steps.get(entry.key)
        return Effect(step["effect"]) if step is not None and step["effect"] else None

    def _effect(self, entry: Entry) -> Effect:
        """Return the riskiest effect class that is known for a call."""
        declared, own = self._declared(entry), Effect(entry.says) if entry.says else None
        if declared is None or own is None:
            return declared or own or Effect.UNSAFE
        return own if own.is_riskier_than(declared) and not self._trust_overrides else declared

    def _blame(self, entry: Entry) -> str:
        declared = self._declared(entry)
        if declared is self._effect(entry):
            return ", and no person decided to run it again"
        return f": it says {entry.says} of itself, and the agent's file says {declared}"
