"""The shell: off unless containers are on; then each command has a container of its own."""

import asyncio
import dataclasses

import pytest

from agents.tools.call_context import enter_call
from agents.tools.isolation.errors import CONTAINERS_DISABLED, IMAGE_MISSING
from agents.tools.schema import build_tool
from agents.tools.shell import shell
from config.effects import Effect
from config.errors import ToolFailed
from tests.agents.tools.runners.machines import container_engine, containers, import_image
from tests.raising import raises


@pytest.fixture
def run(context, monkeypatch):
    """Execute a command with these settings."""
    enter_call(dataclasses.replace(context, timeout_s=30))

    def run(command, engine="", image="", **arguments):
        monkeypatch.setenv("CALLBOARD_CONTAINERS", engine)
        monkeypatch.setenv("CALLBOARD_SHELL_IMAGE", image)
        from config.settings import Settings

        monkeypatch.setattr("agents.tools.shell.settings", lambda: Settings())
        return asyncio.run(shell(command, **arguments))

    return run


def test_it_says_that_it_changes_nothing_and_reaches_nothing():
    built = build_tool(shell)

    assert (built.name, built.effect, built.hosts) == ("shell", Effect.PURE, ())


def test_without_containers_nothing_is_executed(run):
    with raises(CONTAINERS_DISABLED):
        run("touch /tmp/x")


def test_without_an_image_the_remedy_is_named(run):
    with pytest.raises(ToolFailed, match="CALLBOARD_SHELL_IMAGE"):
        run("true", engine="podman")


def test_the_character_nul_is_refused(run):
    with pytest.raises(ToolFailed, match="NUL"):
        run("echo \0", engine="podman", image="a:1")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shell")
    text = container_engine(folder)
    import_image(text, folder, "shell-test:1")
    return text


@pytest.mark.parity
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("sort | head -1", {"exit_code": 0, "output": "a\n", "errors": ""}),
        ("echo no >&2; exit 3", {"exit_code": 3, "output": "", "errors": "no\n"}),
        ("--help", None),
        ("$(reboot); `halt`; cat /etc/shadow", None),
    ],
)
def test_a_command_has_its_output_and_its_exit_code(run, engine, command, result):
    got = run(command, engine, "shell-test:1", input="c\na\nb\n")

    assert got == result if result else got["exit_code"] != 0
    assert containers(engine) == []


@pytest.mark.parity
@pytest.mark.timeout(120)
def test_too_much_output_is_cut(run, engine):
    got = run("yes", engine, "shell-test:1")

    assert len(got["output"]) == 128 * 1024
    assert "beginning" in got["note"]
    assert containers(engine) == []


@pytest.mark.parity
@pytest.mark.timeout(120)
def test_an_image_that_is_not_there_is_named(run, engine):
    with raises(IMAGE_MISSING):
        run("true", engine, "gone:1")
