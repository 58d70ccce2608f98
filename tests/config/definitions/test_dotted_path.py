"""Which modules a definition may name, decided before any is imported; and what importing one may do."""

import importlib
import sys
import threading

import pytest

from config.definitions import dotted_path
from config.definitions.dotted_path import NotImportable, import_path, require_allowed
from config.settings import read_settings


@pytest.fixture
def settings():
    return read_settings()


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """Write a module into the working folder."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        importlib.invalidate_caches()

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]
    dotted_path.forget()


@pytest.mark.parametrize(
    "path",
    """
    pip:main pip._internal.cli.main:main os:system subprocess:run builtins:exec shutil:rmtree posix:system
    runpy:run_path antigravity:x litellm:completion yaml:load sys:exit
    config.settings:adopt_env_file bus.journal.retention.removal:remove_threads cli.main:main
    agents.tools.isolation.sql_process:ask agents.tools.execution.executor:call_tool observers.base:AgentObserver
    agents.tools.countries:ask agents.tools.countries observers.sse:encode observers.logger:log.info
    """.split(),
)
def test_a_module_that_is_not_allowed_is_refused_and_not_imported(settings, monkeypatch, path):
    imported: list[str] = []
    monkeypatch.setattr("importlib.import_module", imported.append)

    with pytest.raises(NotImportable, match=r"is not allowed: .* CALLBOARD_TOOL_MODULES=\.,\w+\."):
        import_path(path, settings)

    assert imported == []


def test_a_file_is_found_in_folders_without_an_init_and_nothing_is_imported(beside, tmp_path):
    beside("my_space/inner/deep/tools.py", "raise RuntimeError")

    assert dotted_path.file_of("my_space.inner.deep.tools:X") == tmp_path / "my_space/inner/deep/tools.py"
    assert dotted_path.file_of("my_space.inner.elsewhere.tools:X") is None
    assert "my_space" not in sys.modules


def test_modules_of_the_working_folder_are_allowed(settings, beside):
    beside("my_one.py", "X = 1")
    beside("my_package/inner/deep.py", "X = 2")

    assert import_path("my_one:X", settings) == 1
    assert import_path("my_package.inner.deep:X", settings) == 2


@pytest.mark.parametrize("name", ["shutil.rmtree", "os.path.exists", "inner.subprocess.run"])
def test_a_module_that_an_allowed_one_has_imported_is_not_allowed_with_it(settings, beside, name):
    beside("my_two.py", "import os, shutil, my_inner as inner")
    beside("my_inner.py", "import subprocess\nX = 1")

    assert import_path("my_two:inner.X", settings) == 1
    with pytest.raises(NotImportable, match="is not allowed"):
        import_path(f"my_two:{name}", settings)


def test_the_program_itself_may_not_be_named(settings, monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)

    with pytest.raises(NotImportable, match="is not allowed"):
        import_path("__main__:main", settings)


@pytest.mark.parametrize("name", ["__loader__.get_data", "look.__init__"])
def test_names_of_python_itself_are_no_tools(settings, beside, name):
    beside("my_look.py", "def look(): pass")

    with pytest.raises(NotImportable, match="is Python's own"):
        import_path(f"my_look:{name}", settings)


def test_of_a_module_that_ships_only_the_registered_names_may_be_used(settings):
    with pytest.raises(NotImportable, match=r"of 'agents\.tools\.files' only 'list_files' and 'read_file' and 'write_"):
        require_allowed("agents.tools.files:Sandbox", settings)

    require_allowed(" agents.tools.files : read_file ", settings)


def test_an_environment_beneath_the_working_folder_is_not_the_working_folder(settings, beside, tmp_path, monkeypatch):
    beside(".venv/lib/site-packages/stranger/__init__.py", "X = 1")
    monkeypatch.syspath_prepend(tmp_path / ".venv/lib/site-packages")

    with pytest.raises(NotImportable, match="'stranger' is neither"):
        import_path("stranger:X", settings)


def test_a_package_that_spreads_over_other_folders_is_not_of_the_working_folder(
    settings, beside, tmp_path, monkeypatch
):
    beside("spread/mine.py", "X = 1")
    beside("lib/spread/theirs.py", "X = 1")
    monkeypatch.syspath_prepend(tmp_path / "lib")

    with pytest.raises(NotImportable, match="is not allowed"):
        import_path("spread.theirs:X", settings)


def test_the_setting_allows_a_package_and_what_is_in_it():
    settings = read_settings(tool_modules="json.tool, email, cal")

    require_allowed("json.tool", settings)
    require_allowed("email.mime.text", settings)
    with pytest.raises(NotImportable, match=r"CALLBOARD_TOOL_MODULES=json\.tool,email,cal,json\."):
        require_allowed("json", settings)
    with pytest.raises(NotImportable):
        require_allowed("calendar", settings)
    with pytest.raises(NotImportable, match="'tests' is neither"):
        require_allowed("tests.agents.sample_tools", settings)


def test_a_plugin_of_the_settings_allows_its_package():
    settings = read_settings(plugins="json.tool:main")

    require_allowed("json.decoder", settings)


def test_an_installed_plugin_allows_its_package(settings, beside, tmp_path, monkeypatch):
    folder = tmp_path / "elsewhere"
    beside("elsewhere/shop_tools/orders.py", "X = 1")
    beside("elsewhere/shop-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    beside("elsewhere/shop-1.0.dist-info/entry_points.txt", "[callboard.tools]\nlook = shop_tools.orders:look\n")
    monkeypatch.syspath_prepend(folder)
    dotted_path.forget()

    assert import_path("shop_tools.orders:X", settings) == 1


@pytest.mark.parametrize("path", ["agents.tools.clock:clock", "observers.logger:SimpleLoggerObserver"])
def test_what_ships_is_allowed_by_the_path_it_is_registered_under(settings, path):
    require_allowed(path, settings)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise SystemExit('no licence')", "SystemExit: no licence"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("class Own(BaseException): pass\nraise Own('odd')", "Own: odd"),
        ("import asyncio\nraise asyncio.CancelledError", "CancelledError"),
        ("def f(): f()\nf()", "RecursionError"),
        ("class W(Exception):\n def __str__(self): raise ValueError\nraise W", "cannot be read"),
        ("import sys\nsys.modules.pop(__name__)", "cannot be imported"),
        ("this is no Python", "SyntaxError"),
        ("def __getattr__(name): raise RuntimeError('lazy')", "cannot be read"),
    ],
)
def test_whatever_a_module_raises_is_a_sentence(settings, beside, text, words):
    beside("my_broken.py", text)

    with pytest.raises(NotImportable, match=words):
        import_path("my_broken:thing", settings)


def test_a_module_that_raises_is_named_with_the_line_and_one_that_is_missing_with_the_remedy(settings, beside):
    beside("my_broken.py", "X = 1\nraise RuntimeError('no database today')")

    with pytest.raises(NotImportable, match=r"raised RuntimeError: no database today at .*my_broken\.py:2\.$"):
        import_path("my_broken:X", settings)
    with pytest.raises(NotImportable, match="put it into the working folder"):
        import_path("my_missing:X", settings)


def test_a_module_that_hangs_costs_one_thread_and_later_works(settings, beside, monkeypatch):
    monkeypatch.setattr(dotted_path, "IMPORT_S", 0.2)
    gate = threading.Event()
    monkeypatch.setattr(dotted_path, "gate", gate, raising=False)
    beside("my_slow.py", "from config.definitions import dotted_path\ndotted_path.gate.wait()\nX = 1")

    for _ in range(3):
        with pytest.raises(NotImportable, match="did not finish within"):
            import_path("my_slow:X", settings)
    at_work = [thread for thread in threading.enumerate() if thread.name == "import my_slow"]
    gate.set()
    at_work[0].join(10)

    assert len(at_work) == 1
    assert import_path("my_slow:X", settings) == 1
