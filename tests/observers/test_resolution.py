"""A run's observers, as far as this process has them."""

from __future__ import annotations

from bus.journal.live.hotlog import MemoryHotLog
from config.settings import Settings
from observers.base import AgentObserver
from observers.discovery import resolve_observers


class Here(AgentObserver):
    """A user's own."""


HERE = f"{__name__}:{Here.__name__}"


def kinds(observers: tuple[AgentObserver, ...]) -> list[str]:
    return [type(observer).__name__ for observer in observers]


def test_all_of_them_are_there(settings: Settings) -> None:
    observers, missing = resolve_observers(("sse", HERE), settings, MemoryHotLog())

    assert (kinds(observers), missing) == (["ServerSideEventAgentObserver", "Here"], None)


def test_an_observer_of_viewers_is_made_with_the_hot_log_and_left_out_without_one(settings: Settings) -> None:
    first, second = MemoryHotLog(), MemoryHotLog()

    [of_first], [same], [other] = (
        resolve_observers(["sse"], settings, hot_log)[0] for hot_log in (first, first, second)
    )

    assert same is of_first
    assert [getattr(observer, "hot_log", None) for observer in (of_first, other)] == [first, second]
    assert resolve_observers(["sse", HERE], settings) == resolve_observers([HERE], settings)


def test_where_one_is_missing_the_others_are_there_in_order(settings: Settings) -> None:
    observers, missing = resolve_observers(("sse", "nowhere:Missing", HERE, "logger"), settings, MemoryHotLog())

    assert kinds(observers) == ["ServerSideEventAgentObserver", "Here", "SimpleLoggerObserver"]
    assert missing is not None
    assert missing.facts["name"] == "nowhere:Missing"


def test_the_shipped_ones_are_not_there_when_they_are_turned_off(settings: Settings) -> None:
    observers, missing = resolve_observers(("sse", HERE), settings.model_copy(update={"builtins": False}))

    assert kinds(observers) == ["Here"]
    assert missing is not None
    assert missing.code == "plugin_unknown"
