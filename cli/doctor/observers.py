"""Checks of the observers that tail the log: each that is declared can be loaded, and none is left behind."""

from __future__ import annotations

from bus.journal.tailing import ObserverState, observer_states
from cli.doctor import Verdicts, fail, ok, warn
from cli.doctor.database import reading_database
from config.database.engine import Database
from config.errors import CallboardError
from config.folders import ROOT
from config.settings import Settings
from observers.tailing.declared import read_observers
from observers.tailing.tailed import tailed_observer


@reading_database
def check_observers(settings: Settings, database: Database) -> Verdicts:
    """Yield the observers that cannot be loaded, and those that a person should look at; the slowest one otherwise."""
    is_broken = False
    for problem in _problems(settings):
        is_broken = True
        yield fail(problem)
    with database.read() as connection:
        states = observer_states(connection)
    late = [state for state in states if state.is_late]
    for state in late:
        yield warn(_sentence(state))
    if states and not late and not is_broken:
        slowest = max(states, key=lambda state: state.behind_s)
        count = "one tails" if len(states) == 1 else f"{len(states)} tail"
        yield ok(f"{count} the log; the slowest is '{slowest.name}', {_behind(slowest)}")


def _problems(settings: Settings) -> list[str]:
    try:
        names = [*read_observers(ROOT / settings.observers_file), *settings.observed]
    except CallboardError as error:
        return [str(error)]
    problems = []
    for name in dict.fromkeys(names):
        try:
            tailed_observer(name, settings)
        except CallboardError as error:
            problems.append(str(error))
    return problems


def _behind(state: ObserverState) -> str:
    return f"{state.behind_s:.0f} s behind" if state.behind_s else "up to date"


def _sentence(state: ObserverState) -> str:
    """Return what is wrong with an observer, and the command that helps."""
    if state.dead:
        text = f"'{state.name}' has {state.dead} dead letters; `./callboard observers letters {state.name}` lists them"
        return f"{text}, and `./callboard observers feed {state.name} --all` delivers them again."
    if state.state == "stopped":
        return f"'{state.name}' is {_behind(state)}, and no process feeds it; start `./callboard observe {state.name}`."
    if state.state == "paused":
        return f"'{state.name}' is paused and {_behind(state)}; `./callboard observers resume {state.name}` continues."
    return (
        f"'{state.name}' is {_behind(state)}; see `./callboard observers {state.name}`, and start a further "
        f"`./callboard observe {state.name}`, or give it more `threads`."
    )
