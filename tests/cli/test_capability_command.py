"""`./callboard capability`: a new one works at once, with its test; lists and checks name what is wrong."""

import json
import shutil
import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner

from agents import catalogue
from agents.testing import call_capability
from cli.capability_files import KINDS, files_of
from cli.main import cli
from config.folders import ROOT
from config.settings import Settings
from tests.fleet import bare_environment

TAKEN = ("json", "import", "agents", "calculator")
"""A module of Python, a keyword, a folder of ours, and a tool that ships."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    capabilities = tmp_path / "config" / "capabilities"
    monkeypatch.setenv("CALLBOARD_CAPABILITIES_DIR", str(capabilities))
    monkeypatch.setattr("cli.commands.capability.ROOT", tmp_path)
    catalogue.forget()
    yield capabilities
    catalogue.forget()


def run(*words):
    catalogue.forget()
    return CliRunner().invoke(cli, ["capability", *words], standalone_mode=False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_capability_is_valid(folder, kind):
    result = run("new", "count_words", "--runner", kind)
    listed = json.loads(run("list", "--json").output)

    assert result.exit_code == 0, result.output
    assert [(capability["id"], capability["runner"], capability["version"]) for capability in listed] == [
        ("count_words", kind, "0.1.0")
    ]


@pytest.mark.parity
@pytest.mark.timeout(120)
def test_the_test_of_a_new_capability_passes_at_once(tmp_path):
    """In a folder as a checkout is: its own ``config/`` beside its tests; one pytest for a capability of each kind."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for room in ("agents", "bus", "cli", "config", "observers", "pyproject.toml"):
        (checkout / room).symlink_to(ROOT / room)
    definitions = tmp_path / "definitions"
    for kind in KINDS:
        files = files_of(kind, f"count_by_{kind}", definitions, checkout, "docker.io/library/busybox:stable")
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "tests"]
    environment = bare_environment(CALLBOARD_CAPABILITIES_DIR=str(definitions), PYTHONPATH=str(checkout))
    tested = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False, env=environment)

    assert tested.returncode == 0, tested.stdout + tested.stderr
    for kind in KINDS:
        report = "SKIPPED [1]" if kind == "container" else "PASSED"
        assert f"{report} tests/test_count_by_{kind}.py" in tested.stdout
    assert f"{len(KINDS) - 1} passed, 1 skipped" in tested.stdout


@pytest.mark.parametrize("name", ["", "count words", "../evil", "--help-me", "1x", "a" * 65, "/etc/x", "ü", *TAKEN])
def test_a_name_that_is_none_writes_nothing(folder, name):
    result = run("new", "--", name)

    assert result.exit_code != 0
    assert not folder.exists()


def test_nothing_is_overwritten(folder):
    run("new", "count_words")
    (folder / "count_words.yaml").write_text("mine: true\n")

    again = run("new", "count_words")

    assert again.exit_code != 0
    assert (folder / "count_words.yaml").read_text() == "mine: true\n"


@pytest.mark.parity
def test_the_check_names_what_is_missing(folder, monkeypatch):
    run("new", "count_words")
    run("new", "in_box", "--runner", "container")
    run("new", "lost")
    (folder / "lost.py").unlink()
    run("new", "wrong")
    (folder / "wrong.yaml").write_text("version: one\n")
    needs = yaml.safe_load((folder / "count_words.yaml").read_text()) | {"secrets": {"TOKEN": "env:NOT_SET_ANYWHERE"}}
    (folder / "needy.yaml").write_text(yaml.safe_dump(needs))
    needs["runner"]["command"] = ["a-program-that-is-not-here"]
    (folder / "empty.yaml").write_text(yaml.safe_dump(needs | {"secrets": {}}))

    checked = run("check", "--json")
    problems = {row["id"]: " ".join(row["problems"]) for row in json.loads(checked.output)}

    assert checked.return_value == 1
    assert "CALLBOARD_CONTAINERS" in problems["in_box"]
    assert "./lost.py" in problems["lost"]
    assert "wrong.yaml" in problems["wrong"]
    assert "env:NOT_SET_ANYWHERE" in problems["needy"]
    assert "a-program-that-is-not-here" in problems["empty"]


@pytest.mark.parametrize(("hosts", "warnings"), [(["*"], 1), ([], 0), (None, 0)])
def test_the_check_warns_of_a_container_with_a_network(folder, hosts, warnings):
    run("new", "in_box", "--runner", "container")
    path = folder / "in_box.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | ({"hosts": hosts} if hosts is not None else {})))

    (row,) = json.loads(run("check", "--json").output)

    assert len(row["warnings"]) == warnings
    assert all("metadata service" in warning for warning in row["warnings"])
    assert ("firewall" in run("check").output) is bool(warnings)


@pytest.mark.parity
def test_what_can_be_called_passes_the_check(folder, tmp_path):
    run("new", "count_words")

    assert run("check", "count_words").output.startswith("ok")
    assert call_capability("count_words", {"text": "a b"}, settings=settings_of(folder, tmp_path)) == {"words": 2}
    assert run("check", "gone").exit_code != 0


def settings_of(folder, tmp_path):
    return Settings(state_dir=tmp_path / "state", capabilities_dir=str(folder))


def test_the_example_of_the_page_is_a_capability(folder, tmp_path):
    """docs/capabilities.md's own example."""
    page = (ROOT / "docs" / "capabilities.md").read_text()
    folder.mkdir(parents=True)
    definition = page.split("```yaml capability\n")[1].split("```")[0]
    (folder / "count_words.yaml").write_text(definition)
    (folder / "count_words.py").write_text(page.split("```python\n")[1].split("```")[0])

    assert run("list").output.startswith("count_words")
    assert yaml.safe_load(definition)["runner"]["command"] == ["python3", "./count_words.py"]


@pytest.mark.parity
@pytest.mark.skipif(shutil.which("python3") is None, reason="the example names python3")
def test_the_example_of_the_page_counts_words(folder, tmp_path):
    test_the_example_of_the_page_is_a_capability(folder, tmp_path)

    assert call_capability("count_words", {"text": "a b c"}, settings=settings_of(folder, tmp_path)) == {"words": 3}
