from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bus.journal.live.hotlog import MemoryHotLog
from config.definitions.errors import PluginUnknown
from config.settings import Settings, read_settings
from observers.base import AgentObserver
from observers.discovery import OBSERVERS, observers_for, resolve_observers
from observers.logger import SimpleLoggerObserver
from observers.signals import SignalsObserver

PLUGIN = """
from observers.base import AgentObserver

class Counts(AgentObserver):
    name = "counts"

class Nameless(AgentObserver):
    pass

class Waits(AgentObserver):
    async def on_end(self, agent, payload, context): ...

class Breaks(AgentObserver):
    @classmethod
    def from_settings(cls, settings):
        raise KeyError("webhook_url")

def no_observer(): ...
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of another author, installed with an entry point of its own."""
    name = "plugin_for_tests"
    (tmp_path / f"{name}.py").write_text(PLUGIN)
    (tmp_path / "broken_for_tests.py").write_text("raise SystemExit('no licence')")
    facts = tmp_path / "stranger-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        f"[callboard.observers]\nfrom-package = {name}:Counts\nbroken = broken_for_tests:X\nlogger = {name}:Nameless\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_the_shipped_ones_come_in_by_entry_point() -> None:
    assert OBSERVERS.find("logger", read_settings()) is SimpleLoggerObserver
    assert OBSERVERS.find("signals", read_settings()) is SignalsObserver


def test_an_installed_package_adds_observers_and_cannot_take_a_shipped_name(plugin: str) -> None:
    assert OBSERVERS.find("from-package", read_settings()).__name__ == "Counts"
    assert OBSERVERS.find("logger", read_settings()) is SimpleLoggerObserver


def test_one_switch_turns_the_shipped_ones_off(plugin: str) -> None:
    settings = read_settings(builtins=False)

    assert OBSERVERS.names(settings) == ["broken", "from-package", "logger"]
    assert OBSERVERS.find("logger", settings).__name__ == "Nameless"
    with pytest.raises(PluginUnknown, match="CALLBOARD_BUILTINS"):
        observers_for(["signals"], settings)


def test_settings_name_plugins_by_dotted_path(plugin: str) -> None:
    settings = read_settings(plugins=f"{plugin}:Counts, {plugin}:Nameless, {plugin}:no_observer, {plugin}")

    assert sorted(OBSERVERS.listed(settings)) == ["Nameless", "counts"]
    assert OBSERVERS.find("counts", settings) is OBSERVERS.find(f"{plugin}:Counts", settings)


def test_a_definition_may_use_a_dotted_path_and_gets_the_process_s_one_instance(plugin: str) -> None:
    settings = read_settings(plugins=f"{plugin}:Counts")

    first = observers_for([f"{plugin}:Counts", "counts", "logger", "from-package"], settings)
    again = observers_for(["counts"], settings)

    assert [type(observer).__name__ for observer in first] == ["Counts", "SimpleLoggerObserver"]
    assert again[0] is first[0]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("loger", "Did you mean 'logger'"),
        ("nothing like it", "Known observers: "),
        ("no_such_module:X", "ModuleNotFoundError"),
        ("plugin_for_tests:Missing", "there is no 'Missing' in plugin_for_tests"),
        ("plugin_for_tests:no_observer", "derive a class from"),
        ("plugin_for_tests:Waits", "async def on_end"),
        ("plugin_for_tests:Breaks", "webhook_url"),
        ("broken", "no licence"),
        ("", "is not known"),
        (":", "cannot be imported"),
    ],
)
def test_a_name_that_cannot_be_used_gets_a_sentence(plugin: str, name: str, says: str) -> None:
    with pytest.raises(PluginUnknown, match=says) as caught:
        observers_for([name], read_settings())

    assert caught.value.code == "plugin_unknown"
    assert "\n" not in str(caught.value)


def test_a_broken_plugin_takes_no_other_down(plugin: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = read_settings(plugins=f"broken_for_tests:X,{plugin}:Counts")

    assert OBSERVERS.find("counts", settings).name == "counts"
    assert "no licence" in caplog.text
    with pytest.raises(PluginUnknown, match="no licence"):
        observers_for(["broken_for_tests:X"], settings)


@pytest.mark.parity
def test_a_forked_child_makes_its_own_instances(tmp_path: Path) -> None:
    settings: Settings = read_settings(state_dir=tmp_path)
    (parents,) = observers_for(["logger"], settings)

    child = os.fork()
    if child == 0:
        (own,) = observers_for(["logger"], settings)
        os._exit(0 if own is not parents else 1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


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


def test_an_observer_that_reads_the_log_is_none_for_definitions() -> None:
    with pytest.raises(PluginUnknown, match="callboard observe traces"):
        observers_for(["traces"], read_settings(traces_url="http://localhost:4318"))
