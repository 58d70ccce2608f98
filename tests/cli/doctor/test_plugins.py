import pytest

from cli.doctor.settings import check_plugins
from tests.cli.doctor.conftest import only, verdicts

MODULE = '''\
from observers.base import AgentObserver


class Watcher(AgentObserver):
    """Sees runs."""

    name = "watcher"


class NoObserver:
    """Is nothing."""


def add(a: int, b: int) -> int:
    """Return the sum."""
    return a + b


NUMBER = 3
'''


@pytest.fixture
def plugged(settings, monkeypatch, tmp_path, request):
    """Return settings with these plugins, of a module of this test's own."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    name = f"their_plugins_{abs(hash(request.node.name))}"
    (folder / f"{name}.py").write_text(MODULE)
    (folder / f"{name}_ends.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(folder)
    return lambda plugins: settings.model_copy(update={"plugins": plugins.replace("MODULE", name)})


def test_without_plugins_there_is_nothing_to_say(settings):
    assert list(check_plugins(settings)) == []


def test_observers_tools_and_modules_are_fine(plugged):
    finding = only(check_plugins(plugged("MODULE:Watcher, MODULE:add, MODULE")))

    assert finding == ("ok", "3 can be used")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("not_there_at_all:Thing", "'not_there_at_all:Thing' cannot be imported (ModuleNotFoundError"),
        ("not_there_at_all", "cannot be imported"),
        ("MODULE:Watchr", "Did you mean 'Watcher'?"),
        ("MODULE:NoObserver", "derive a class from observers.base.AgentObserver"),
        ("MODULE:NUMBER", "is no function"),
        ("MODULE_ends:Thing", "cannot be imported: the module itself raised SystemExit"),
    ],
)
def test_a_plugin_that_cannot_be_used_fails_with_its_sentence(plugged, path, words):
    verdict, text = only(check_plugins(plugged(path)))

    assert verdict == "fail"
    assert text.startswith("CALLBOARD_PLUGINS: ")
    assert words in text


def test_one_broken_plugin_hides_no_other(plugged):
    assert verdicts(check_plugins(plugged("gone:A, MODULE:add, gone:B"))) == ["fail", "fail"]
