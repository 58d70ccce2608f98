"""What a run continues from: another run's recorded steps, and the outcomes of its calls, which are not made again.

A run that is started again from a step, or retried, has an ``Origin``. Unless its client said ``live``, a call of it
that the origin has recorded, by the tool's name and the digest of its arguments, gets the recorded outcome.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import orjson
from sqlalchemy import Connection, Row, bindparam, select

from bus.journal.records.steps import RESULT_IN
from config.database.tables import messages, runs, steps
from config.effects import Effect

RERUN: Literal["rerun"] = "rerun"
RETRY: Literal["retry"] = "retry"
Mode = Literal["recorded", "live"]
"""What becomes of a call that was recorded: it gets its recorded outcome, or is made again as any other call."""
HARMLESS = (Effect.PURE, Effect.IDEMPOTENT)
"""The effect classes whose calls may be made once more, also under another idempotency key."""
MAX_ORIGINS = 64
"""How many runs back outcomes are looked up; of a call that an older one made it is not known whether it was made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Which run another one continues from, and how."""

    run_id: str
    kind: Literal["rerun", "retry"]
    """A rerun has a fork of the thread from before the run; a retry is the next run of the same thread."""
    from_step: int | None = None
    """The first step that is made anew; None: the first one that has no usable result."""
    mode: Mode = "recorded"
    items_only: bool = False
    """Of a workflow: whether a retry makes the failed items of FOR_EACH again, and nothing else that has failed."""

    def to_json(self) -> str:
        return orjson.dumps({name: value for name, value in asdict(self).items() if value is not None}).decode()

    @classmethod
    def of(cls, origin_json: str) -> Origin:
        return cls(**orjson.loads(origin_json))


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedOutcome:
    """How a call ended in an earlier run."""

    run_id: str
    """The run that has recorded it."""
    outcome: str
    """done, failed or unknown."""
    result: Any
    effect: str
    edited: Mapping[str, Any] | None = None
    """The arguments as a person changed them before the call."""

    @property
    def may_be_made_again(self) -> bool:
        """Whether the same call, once more, changes nothing."""
        return self.effect in HARMLESS


Call = tuple[str, str]
"""The tool's name, and the digest of the arguments."""


@dataclass(kw_only=True, slots=True)
class RecordedCalls:
    """The outcomes that the calls of one run may get, as its owner uses them up."""

    outcomes: Mapping[Call, Sequence[RecordedOutcome]]
    """In the order in which the calls were recorded."""
    used: Counter[Call] = field(default_factory=Counter)
    """How many of them the run has got."""
    is_whole: bool = True
    """False where a run that it continues from was removed, or is too many runs back."""
    _by_call_id: dict[str, RecordedOutcome | None] = field(default_factory=dict)

    def take(self, call_id: str, name: str, digest: str) -> RecordedOutcome | None:
        """Return the outcome that this call gets, the same each time it is asked for; None: it is made.

        The second equal call gets the second recorded outcome, and one beyond them the last: what has an effect is not
        made again because a model asks for it once more often.
        """
        if call_id not in self._by_call_id:
            self._by_call_id[call_id] = self._next((name, digest))
        return self._by_call_id[call_id]

    def may_lack(self, effect: Effect) -> bool:
        """Return whether a call of this class without an outcome may have been made all the same."""
        return not self.is_whole and effect not in HARMLESS

    def _next(self, call: Call) -> RecordedOutcome | None:
        recorded, number = self.outcomes.get(call, ()), self.used[call]
        if not recorded or (number >= len(recorded) and recorded[-1].may_be_made_again):
            return None
        self.used[call] += 1
        return recorded[min(number, len(recorded) - 1)]


def read_recorded_calls(connection: Connection, run_id: str, origin_json: str | None) -> RecordedCalls | None:
    """Return the outcomes that a run's calls may get; None of a run whose calls are all made."""
    if origin_json is None or (origin := Origin.of(origin_json)).mode == "live":
        return None
    outcomes: dict[Call, list[RecordedOutcome]] = defaultdict(list)
    source: str | None = origin.run_id
    for _ in range(MAX_ORIGINS):
        if source is None:
            break
        row = connection.execute(_ORIGIN, {"run_": source}).first()
        if row is None:
            return RecordedCalls(outcomes=outcomes, used=_ended(connection, run_id), is_whole=False)
        for call, recorded in _recorded(connection, source).items():
            outcomes[call] += recorded[len(outcomes[call]) :]  # an earlier run may have come further
        source = row.origin_id
    return RecordedCalls(outcomes=outcomes, used=_ended(connection, run_id), is_whole=source is None)


def _recorded(connection: Connection, run_id: str) -> Mapping[Call, list[RecordedOutcome]]:
    rows = connection.execute(_CALLS, {"run_": run_id}).all()
    held = _held(connection, run_id, (row.result_json for row in rows))
    outcomes: dict[Call, list[RecordedOutcome]] = defaultdict(list)
    for row in rows:
        if not _counts(row):
            continue
        result = orjson.loads(row.result_json) if row.result_json is not None else None
        if isinstance(result, dict) and RESULT_IN in result:
            result = held.get(result[RESULT_IN])
        outcome = RecordedOutcome(run_id=run_id, outcome=row.status, result=result, effect=row.effect)
        outcomes[row.name, row.arguments_digest].append(outcome)
    return outcomes


def _counts(row: Row[Any]) -> bool:
    """Return whether a call may have taken effect, or returned what its repetition would return."""
    if not row.effect:  # it was never made
        return False
    return row.status == "done" or (row.status in ("failed", "unknown") and row.effect not in HARMLESS)


def _held(connection: Connection, run_id: str, results: Iterable[str | None]) -> dict[str, Any]:
    """Return the long results that messages of the run hold, by the ids of these."""
    ids = [orjson.loads(text)[RESULT_IN] for text in results if text is not None and text.startswith(_REFERENCE)]
    rows = connection.execute(_HOLDERS, {"run_": run_id, "ids_": ids}).all() if ids else ()
    return {row.id: orjson.loads(row.data_json).get("result") for row in rows}


def _ended(connection: Connection, run_id: str) -> Counter[Call]:
    """Return how many calls of each kind a run has ended itself, those that were copied into it among them."""
    rows = connection.execute(_CALLS, {"run_": run_id}).all()
    return Counter((row.name, row.arguments_digest) for row in rows if _counts(row))


_REFERENCE = f'{{"{RESULT_IN}":'
_ORIGIN = select(runs.c.origin_id).where(runs.c.id == bindparam("run_"))
_CALLS = (
    select(*steps.c["name", "arguments_digest", "effect", "status", "result_json"])
    .where(steps.c.run_id == bindparam("run_"), steps.c.kind == "tool", steps.c.ended_ms.is_not(None))
    .order_by(steps.c.number)
)
_HOLDERS = select(messages.c.id, messages.c.data_json).where(
    messages.c.run_id == bindparam("run_"), messages.c.id.in_(bindparam("ids_", expanding=True))
)
