"""Whether the observers that tail the log are fed in time; the terminal's doctor also loads their classes."""

from __future__ import annotations

from collections.abc import Sequence

from bus.journal.tailing import ObserverState, observer_states
from config.database.engine import Database
from config.settings import Settings
from web.doctor import Verdicts, ok, warn
from web.doctor.database import reading_database


@reading_database
def check_feeding(_: Settings, database: Database) -> Verdicts:
    """Yield the observers that a person should look at; the slowest one otherwise."""
    with database.read() as connection:
        states = observer_states(connection)
    yield from feeding(states)


def feeding(states: Sequence[ObserverState], *, is_broken: bool = False) -> Verdicts:
    """Yield the late ones of these observers; else the slowest one, unless ``is_broken`` says that others fail."""
    late = [state for state in states if state.is_late]
    for state in late:
        yield warn(_sentence(state))
    if states and not late and not is_broken:
        slowest = max(states, key=lambda state: state.behind_s)
        count = "one tails" if len(states) == 1 else f"{len(states)} tail"
        yield ok(f"{count} the log; the slowest is '{slowest.name}', {_behind(slowest)}")


def _behind(state: ObserverState) -> str:
    return f"{state.behind_s:.0f} s behind" if state.behind_s else "up to date"


def _sentence(state: ObserverState) -> str:
    """Return what is wrong with an observer, and the command that helps."""
    if state.dead:
        letters, them = ("1 dead letter", "it") if state.dead == 1 else (f"{state.dead} dead letters", "them")
        text = f"'{state.name}' has {letters}; `./callboard observers letters {state.name}` lists {them}"
        return f"{text}, and `./callboard observers feed {state.name} --all` delivers {them} again."
    if state.state == "stopped":
        return f"'{state.name}' is {_behind(state)}, and no process feeds it; start `./callboard observe {state.name}`."
    if state.state == "paused":
        return f"'{state.name}' is paused and {_behind(state)}; `./callboard observers resume {state.name}` continues."
    return (
        f"'{state.name}' is {_behind(state)}; see `./callboard observers {state.name}`, and start a further "
        f"`./callboard observe {state.name}`, or give it more `threads`."
    )
