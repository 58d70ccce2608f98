"""What a run continues from: another run's recorded steps, and the outcomes of its calls, which are not made again.

A run that is started again from a step, or retried, has an ``Origin``. Unless its client said ``live``, a call of it
that the origin has recorded, by the tool's name and the digest of its arguments, gets the recorded outcome.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import orjson
from sqlalchemy import Connection, Row, bindparam, select

from bus.journal.records.steps import RESULT_IN, WORKFLOW
from config.database.tables import messages, runs, steps
from config.definitions.workflows.graph import COMPENSATION
from config.effects import Effect

RERUN: Literal["rerun"] = "rerun"
RETRY: Literal["retry"] = "retry"
Mode = Literal["recorded", "live"]
"""What becomes of a call that was recorded: it gets its recorded outcome, or is made again as any other call."""
HARMLESS = (Effect.PURE, Effect.IDEMPOTENT)
"""The effect classes whose calls may be made once more, also under another idempotency key."""
MAY_HAVE_EFFECT = ("done", "failed", "unknown")
"""The ends of calls that were made."""
CALLED = {"done": "it was done", "failed": "it failed", "unknown": "its outcome is unknown"}
LOST = "A run that this one continues from was removed, so it is not known whether this call was made before."
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
    labels: frozenset[str] = frozenset()
    """Of a node's result."""

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

    def key_of(self, *_: str) -> None:
        """Return that the call gets a key of its own: the run is no workflow's."""

    def child_of(self, path: str) -> None:
        """Return that the child run continues from none."""

    def note_gone(self, paths: Iterable[str]) -> None:
        """Do nothing: calls are not looked up by node."""

    def left(self, *_: Any) -> Iterator[RecordedNode]:
        """Yield nothing: calls are not looked up by node."""
        yield from ()

    def why_asked(self, *_: str) -> None:
        """Return that no person is asked."""

    def _next(self, call: Call) -> RecordedOutcome | None:
        recorded, number = self.outcomes.get(call, ()), self.used[call]
        if not recorded or (number >= len(recorded) and recorded[-1].may_be_made_again):
            return None
        self.used[call] += 1
        return recorded[min(number, len(recorded) - 1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedNode:
    """The newest call that a node's earlier runs have made and not undone, which may have changed something."""

    run_id: str
    path: str
    name: str
    digest: str
    effect: str
    status: str
    """done, failed or unknown."""
    result: Any
    key: str
    """Its idempotency key."""
    child_id: str | None
    """The child run that it was."""
    labels: frozenset[str]

    @property
    def may_be_repeated(self) -> bool:
        """Whether the same call under the same key changes nothing more; a child run continues from the earlier one."""
        return self.effect == Effect.KEYED


@dataclass(kw_only=True, slots=True)
class RecordedNodes:
    """What the nodes of a workflow's earlier runs have called; what its owner finds done is not in it."""

    nodes: dict[str, RecordedNode]
    """By path; a batch of a FOR_EACH is there for each of its items, as ``each~17``."""
    copied: Mapping[str, RecordedNode] = field(default_factory=dict)
    """Those that the run has taken as they are."""
    is_whole: bool = True
    """See ``RecordedCalls``."""
    is_live: bool = False
    """Whether calls are made again without a question."""

    def take(self, path: str, name: str, digest: str) -> RecordedOutcome | None:
        """Return the outcome that a node's call gets, which an earlier run has made; None: it is made."""
        node = None if self.is_live else self._same(path, name, digest)
        if node is not None and (node.status == "done" or (node.status == "unknown" and not node.may_be_repeated)):
            fields = {"result": node.result, "effect": node.effect, "labels": node.labels}
            return RecordedOutcome(run_id=node.run_id, outcome=node.status, **fields)
        return None

    def key_of(self, path: str, name: str, digest: str) -> str | None:
        """Return the idempotency key of the same call that has failed, or whose outcome is unknown."""
        node = self._same(path, name, digest)
        return node.key if node is not None and node.status != "done" else None

    def child_of(self, path: str) -> str | None:
        """Return the child run that an earlier run has begun here, which the next one continues from."""
        return self.nodes[path].child_id if path in self.nodes and not self.is_live else None

    def note_gone(self, paths: Iterable[str]) -> None:
        """Note that no node has these paths any more: one that makes the same call may be that node."""
        self.nodes |= {path: self.copied[path] for path in paths if path in self.copied}

    def left(self, reached: Collection[str]) -> Iterator[RecordedNode]:
        """Yield the calls that may have taken effect, of nodes at other paths than these; nothing has undone them."""
        for path, node in self.nodes.items():
            if path not in reached and "~" not in path and node.status in ("done", "unknown"):
                yield node

    def why_asked(self, path: str, name: str, digest: str, effect: Effect) -> str | None:
        """Return why a person has to approve a node's call, as a sentence; None where it repeats nothing."""
        if self.is_live or effect in HARMLESS:
            return None
        node, same = self.nodes.get(path), self._same(path, name, digest)
        if node is None:  # of a node that had another path, or has it still
            node = next((node for node in self.nodes.values() if (node.name, node.digest) == (name, digest)), None)
        if node is None:
            return None if self.is_whole else LOST
        if same is not None and same.may_be_repeated:
            return None
        call = "this call" if node.digest == digest else f"{node.name} with other arguments"
        return f"The run {node.run_id} has made {call} at '{node.path}' ({CALLED[node.status]}); this may do it again."

    def _same(self, path: str, name: str, digest: str) -> RecordedNode | None:
        node = self.nodes.get(path)
        return node if node is not None and (node.name, node.digest) == (name, digest) else None

    def may_lack(self, effect: Effect) -> bool:
        """Return False: a person is asked about such calls."""
        return False


def read_recorded_calls(
    connection: Connection, run_id: str, kind: str, origin_json: str | None
) -> RecordedCalls | RecordedNodes | None:
    """Return the outcomes that a run's calls may get; None of a run whose calls are all made."""
    if origin_json is None:
        return None
    origin = Origin.of(origin_json)
    if kind == WORKFLOW and origin.kind == RETRY:
        return _read_nodes(connection, run_id, origin)
    if origin.mode == "live":
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


def _read_nodes(connection: Connection, run_id: str, origin: Origin) -> RecordedNodes:
    own = set(connection.execute(_PATHS, {"run_": run_id}).scalars())
    nodes: dict[str, RecordedNode] = {}
    undone, source, is_whole = set[str](), origin.run_id, False
    for _ in range(MAX_ORIGINS):
        row = connection.execute(_ORIGIN, {"run_": source}).first()
        if row is None:
            break
        rows = connection.execute(_NODES, {"run_": source}).all()
        undone |= {row.node.removesuffix(COMPENSATION) for row in rows if row.status == "done" and _undoes(row)}
        calls = (node for node in reversed(rows) if not (_undoes(node) and node.status == "done"))
        for node in (node for node in calls if node.effect not in HARMLESS):
            for path in [path for path in _places(node) if path.removesuffix(COMPENSATION) not in undone]:
                newer = nodes.setdefault(path, _node(source, path, node))
                if newer.child_id is None and newer.name == node.name:  # a copy, whose child is the original's
                    nodes[path] = replace(newer, child_id=node.child_id)
        if row.origin_id is None:
            is_whole = True
            break
        source = row.origin_id
    copied = {path: node for path, node in nodes.items() if path in own and "~" not in path}
    left = {path: node for path, node in nodes.items() if path not in copied}
    return RecordedNodes(nodes=left, copied=copied, is_whole=is_whole, is_live=origin.mode == "live")


def _undoes(row: Any) -> bool:
    return bool(row.node.endswith(COMPENSATION))


def _places(row: Row[Any]) -> list[str]:
    """Return the paths of a node's call; a batch has one for each of its items."""
    each, is_batch, _ = row.node.rpartition("~")
    if not is_batch or _undoes(row):
        return [row.node]
    return [f"{each}~{index}" for index in orjson.loads(row.input_json)["indices"]]


def _node(run_id: str, path: str, row: Row[Any]) -> RecordedNode:
    return RecordedNode(
        run_id=run_id,
        path=path,
        name=row.name,
        digest=row.arguments_digest,
        effect=row.effect,
        status=row.status,
        result=orjson.loads(row.result_json) if row.result_json is not None else None,
        key=row.idempotency_key,
        child_id=row.child_id,
        labels=frozenset(orjson.loads(row.labels_json or "[]")),
    )


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
_PATHS = select(steps.c.node).where(
    steps.c.run_id == bindparam("run_"), steps.c.kind == "tool", steps.c.ended_ms.is_not(None)
)
_CHILD = runs.alias("child")
_NODES = (
    select(
        *steps.c["node", "name", "arguments_digest", "effect", "status", "result_json", "idempotency_key"],
        *steps.c["input_json", "labels_json"],
        _CHILD.c.id.label("child_id"),
    )
    .outerjoin_from(steps, _CHILD, (_CHILD.c.parent_step == steps.c.id) & (_CHILD.c.parent_id == steps.c.run_id))
    .where(steps.c.run_id == bindparam("run_"), steps.c.kind == "tool", steps.c.ended_ms.is_not(None))
    .where(steps.c.effect != "", steps.c.status.in_(MAY_HAVE_EFFECT))
    .order_by(steps.c.number)
)
_HOLDERS = select(messages.c.id, messages.c.data_json).where(
    messages.c.run_id == bindparam("run_"), messages.c.id.in_(bindparam("ids_", expanding=True))
)
