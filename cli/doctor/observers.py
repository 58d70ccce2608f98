"""Checks of the observers that tail the log: each can be loaded, none is left behind, and traces have a collector."""

from __future__ import annotations

from contextlib import closing, suppress

from agents.registry import AgentRegistry
from bus.journal.tailing import observer_states
from config.database.engine import Database
from config.errors import CallboardError
from config.folders import ROOT
from config.settings import Settings
from config.text.names import did_you_mean
from config.text.visible import visible
from observers.tailing.declared import read_observers
from observers.tailing.tailed import tailed_observers
from observers.traces.otlp import TraceCollector
from web.doctor import Verdicts, fail, ok, warn
from web.doctor.database import reading_database
from web.doctor.observers import feeding


@reading_database
def check_observers(settings: Settings, database: Database) -> Verdicts:
    """Yield the observers that cannot be loaded, and those that a person should look at; the slowest one otherwise."""
    is_broken = False
    for problem in _problems(settings):
        is_broken = True
        yield fail(problem)
    with database.read() as connection:
        states = observer_states(connection)
    for name in sorted(_loadable(settings) - {state.name for state in states}):
        yield warn(f"'{name}' is declared, and no process has ever fed it; start `./callboard observe {name}`.")
    for problem in _unmatched(settings):
        yield warn(problem)
    yield from feeding(states, is_broken=is_broken)


def _loadable(settings: Settings) -> set[str]:
    """Return the declared observers whose class can be loaded; the others are problems of their own."""
    names = set[str]()
    with suppress(CallboardError):
        for name in read_observers(ROOT / settings.observers_file):
            with suppress(CallboardError):
                names |= {tailed.name for tailed in tailed_observers(name, settings)}
    return names


def _unmatched(settings: Settings) -> list[str]:
    """Return what the declared observers select and no agent has."""
    ids, problems = AgentRegistry(settings.agent_folders).ids(), list[str]()
    with suppress(CallboardError):
        for name, fields in read_observers(ROOT / settings.observers_file).items():
            for agent in sorted({*(fields.agents or ())} - {*ids}):
                problems.append(
                    f"'{name}' selects runs of '{visible(agent)}', which is no agent.{did_you_mean(agent, ids)}"
                )
    return problems


def check_traces(settings: Settings) -> Verdicts:
    """Yield whether the collector of traces takes a request without spans, where there is one."""
    if settings.traces_url is None:
        return
    with closing(TraceCollector(settings)) as collector:
        try:
            collector.probe()
        except CallboardError as error:
            yield fail(f"{str(error).rstrip('.')}. {error.remedy}".rstrip())
        else:
            yield ok(f"the collector at {settings.traces_address} takes spans")


def _problems(settings: Settings) -> list[str]:
    try:
        names = [*read_observers(ROOT / settings.observers_file), *settings.observed]
    except CallboardError as error:
        return [str(error)]
    problems = []
    for name in dict.fromkeys(names):
        try:
            observers = tailed_observers(name, settings)
        except CallboardError as error:
            problems.append(str(error))
            continue
        for tailed in observers:
            problem = tailed.options.problem() if tailed.options is not None else None
            if problem is not None:
                problems.append(f"observer '{tailed.name}': {problem}")
    return list(dict.fromkeys(problems))
