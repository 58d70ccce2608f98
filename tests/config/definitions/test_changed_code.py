"""Code that was changed after a process had loaded it."""

import os
import sys
from pathlib import Path

import pytest

from agents.catalogue import find_tool
from config.definitions.celery_tasks import CeleryApplication
from config.definitions.errors import DefinitionInvalid, ToolUnknown
from config.settings import read_settings


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module in the working folder."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("config.definitions.plugins.process_began_s", 1_000_000.0)
    monkeypatch.setattr("config.definitions.plugins.get_path", lambda _: str(tmp_path / "packages"))
    monkeypatch.setattr("config.definitions.plugins.ROOT", tmp_path)
    monkeypatch.delitem(sys.modules, "my_edited_tools", raising=False)
    file = tmp_path / "my_edited_tools.py"
    file.write_text("def look() -> str:\n    'Look.'\n    return ''\n")
    os.utime(file, (999_999, 999_999))
    find_tool("my_edited_tools:look", read_settings())
    return file


def sentence_about(name: str) -> str:
    with pytest.raises(ToolUnknown) as refused:
        find_tool(name, read_settings())
    return str(refused.value)


def test_a_tool_that_was_added_to_a_loaded_module_asks_for_a_restart(module: Path) -> None:
    before = sentence_about("my_edited_tools:find")
    module.touch()

    assert "Restart" not in before
    remedy = "Restart the workers: they started before my_edited_tools.py changed."
    assert sentence_about("my_edited_tools:find").endswith(remedy)


def test_a_package_that_was_installed_later_asks_for_a_restart(module: Path) -> None:
    before = sentence_about("not_registered")
    (module.parent / "packages").mkdir()

    assert "Restart" not in before
    assert "Restart the workers: they started before the installed packages changed." in sentence_about(
        "not_registered"
    )


def test_a_variable_that_was_set_later_asks_for_a_restart(module: Path) -> None:
    shop = CeleryApplication(id="shop", file="shop.yaml", broker_env="SHOP_URL_NOT_SET", tasks={})
    problems = []
    for _ in range(2):
        with pytest.raises(DefinitionInvalid) as refused:
            shop.url("broker")
        problems.append(str(refused.value))
        (module.parent / ".env").touch()

    assert "Restart" not in problems[0]
    assert "SHOP_URL_NOT_SET is not set. Restart the workers: they started before .env changed." in problems[1]


def test_a_module_that_cannot_be_imported_is_tried_again_by_itself(module: Path) -> None:
    (module.parent / "my_broken_tools.py").write_text("import not_there_at_all\n")

    assert "Restart" not in sentence_about("my_broken_tools:look")
