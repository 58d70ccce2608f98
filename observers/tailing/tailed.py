"""What tails the log under a name: a class of an observer, and which events of which runs it gets."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection

from bus.journal.tailing import TailedRow, hand_overs, runs_by_id
from bus.payloads import EVENT_TYPES
from config.definitions.errors import PluginUnknown
from config.folders import ROOT
from config.settings import Settings
from config.text.names import did_you_mean
from observers.base import AgentFacts, AgentObserver, Delivery, LiveObserver, ObserverOptions, RunFacts, facts_of
from observers.discovery import OBSERVERS
from observers.tailing.declared import OBSERVER_NAME, ObserverFields, options_of, read_observers, refusal_of

MAX_RUNS = 5_000
"""Runs whose facts are remembered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventSelection:
    """Which events an observer gets; an empty part selects all."""

    agents: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()

    def takes(self, agent: AgentFacts, run: RunFacts, labels: Collection[str]) -> bool:
        """Return whether a run's events are selected, apart from their types; ``labels`` are those of what it read."""
        return (
            (not self.agents or agent.id in self.agents)
            and (not self.tenants or run.tenant in self.tenants)
            and (not self.labels or not self.labels.isdisjoint(labels))
        )

    def as_json(self) -> str | None:
        """Return what lists show; None where everything is selected."""
        parts = {name: sorted(getattr(self, name)) for name in self.__slots__ if getattr(self, name)}
        return orjson.dumps(parts).decode() if parts else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tailed:
    """An observer that tails the log."""

    name: str
    class_path: str
    """As it was named."""
    kind: type[AgentObserver]
    delivery: Delivery
    threads: int
    start: str
    """Where it starts the first time."""
    selection: EventSelection
    retry_for_s: float
    """Seconds for which a failed delivery is tried again; infinite for a critical one."""
    timeout_s: float
    """Seconds that one call may take."""
    poll_s: float
    """Seconds between two looks for new events."""
    options: ObserverOptions | None = None
    """What its class reads itself."""


def tailed_observers(name: str, settings: Settings, start: str | None = None) -> list[Tailed]:
    """Return the observer of a name, as ``tailed_observer`` does; of a class that takes options all that have them.

    Raises:
        DefinitionInvalid, PluginUnknown: as there, for one of them, or no observer is declared with the class.
    """
    declared = read_observers(ROOT / settings.observers_file)
    if name in declared or _kind(name, name, settings, declared).options_model is None:
        return [tailed_observer(name, settings, start)]
    names = [own_name for own_name, fields in declared.items() if fields.kind == name]
    if not names:
        problem = f"no observer has the class '{name}', which needs options; declare one in {settings.observers_file}."
        raise PluginUnknown(problem, name=name)
    return [tailed_observer(own_name, settings, start) for own_name in names]


def tailed_observer(name: str, settings: Settings, start: str | None = None) -> Tailed:
    """Return the observer that ``config/observers.yaml`` declares under this name, or whose class has it.

    Raises:
        DefinitionInvalid: the file cannot be read; nothing is delivered then.
        PluginUnknown: there is no such class, or it cannot tail the log; the message has the reason.
    """
    path = ROOT / settings.observers_file
    declared = read_observers(path)
    fields = declared.get(name, ObserverFields())
    class_path = fields.kind or name
    kind = _kind(name, class_path, settings, declared)
    if kind.options_model is not None and name not in declared:
        problem = f"observer '{name}' needs options; declare one with `class: {name}` in {settings.observers_file}."
        raise PluginUnknown(problem, name=name)
    own_name = name if OBSERVER_NAME.fullmatch(name) else kind.name or kind.__name__
    delivery = fields.delivery or kind.tailing.delivery
    return Tailed(
        name=own_name,
        class_path=class_path,
        kind=kind,
        delivery=delivery,
        threads=fields.threads or kind.tailing.threads,
        start=start or fields.start,
        selection=_selection(path, name, fields, kind),
        retry_for_s={"critical": float("inf"), "best_effort": 0.0}.get(delivery, kind.tailing.retry_for_s),
        timeout_s=kind.tailing.timeout_s,
        poll_s=kind.tailing.poll_s,
        options=options_of(path, name, fields, kind.options_model),
    )


def _kind(name: str, class_path: str, settings: Settings, declared: Collection[str]) -> type[AgentObserver]:
    try:
        kind = OBSERVERS.find(class_path, settings)
    except PluginUnknown as error:
        near = did_you_mean(name, declared) if name not in declared else ""
        raise PluginUnknown(f"{error}{near}", name=name) from error
    if issubclass(kind, LiveObserver):
        raise PluginUnknown(f"observer '{name}' carries live events to viewers and cannot tail the log.", name=name)
    return kind


def _selection(path: Path, name: str, fields: ObserverFields, kind: type[AgentObserver]) -> EventSelection:
    names = kind.tailing.types or tuple(EVENT_TYPES)
    for type_ in fields.types or ():
        if type_ not in names:
            of_class = "its class gets no" if type_ in EVENT_TYPES else "there is no"
            problem = f"{of_class} type of events '{type_[:80]}'; known types: {', '.join(names)}."
            raise refusal_of(path, name, "types", problem)
    if kind.tailing.is_per_tenant and not fields.tenants:
        problem = "is missing: it sends events out of the deployment, so name whose, for example `tenants: [default]`."
        raise refusal_of(path, name, "tenants", problem)
    parts = {part: frozenset(getattr(fields, part) or ()) for part in EventSelection.__slots__}
    return EventSelection(**{**parts, "types": parts["types"] or frozenset(kind.tailing.types)})


# --- the frozen facts that it gets with events


class Facts(NamedTuple):
    """What an observer gets with an event."""

    agent: AgentFacts
    run: RunFacts
    labels: frozenset[str]
    """Of what the run has read so far."""


class FactsOfRuns:
    """The facts of the runs whose events a thread delivers."""

    def __init__(self, *, are_labels_wanted: bool) -> None:
        """``are_labels_wanted``: labels are read for each batch, since a run's labels grow."""
        self._are_labels_wanted = are_labels_wanted
        self._by_run: OrderedDict[str, Facts] = OrderedDict()

    def read(self, connection: Connection, rows: Sequence[TailedRow]) -> dict[int, Facts]:
        """Return the facts for each row by its position; rows of removed runs are left out."""
        if self._are_labels_wanted:
            self._by_run.clear()
        missing = {row.run_id for row in rows} - self._by_run.keys()
        handed = {}
        for run_id, run in runs_by_id(connection, missing).items():
            if run.handed_from_json is None:
                self._remember(run_id, _facts(run))
            else:
                handed[run_id] = run, hand_overs(connection, run_id)
        facts: dict[int, Facts] = {}
        for row in rows:
            if row.run_id in handed:
                facts[row.position] = _facts_at(*handed[row.run_id], row.payload.seq)
            elif row.run_id in self._by_run:
                facts[row.position] = self._by_run[row.run_id]
        for row in rows:
            if row.payload.event_type in ("handover", "end"):
                self._by_run.pop(row.run_id, None)
        return facts

    def _remember(self, run_id: str, facts: Facts) -> None:
        self._by_run[run_id] = facts
        if len(self._by_run) > MAX_RUNS:
            self._by_run.popitem(last=False)


def _facts(row: Any) -> Facts:
    agent, run = facts_of(row, row.id, orjson.loads(row.metadata_json or "{}"))
    return Facts(agent, run, frozenset(orjson.loads(row.labels_json or "[]")))


def _facts_at(row: Any, hand_over_seqs: list[int], seq: int) -> Facts:
    """Return the facts of a run that was handed over, with the agent that had it at this event."""
    facts = _facts(row)
    agents = [*orjson.loads(row.handed_from_json), row.agent_id]
    later = sum(1 for hand_over in hand_over_seqs if hand_over >= seq)
    agent_id = agents[max(0, len(agents) - 1 - later)]
    if agent_id == row.agent_id:
        return facts
    return facts._replace(agent=AgentFacts(id=agent_id, name=agent_id, model=row.model))
