"""The Python client as others get it: a wheel in an environment of their own, also beside openai-agents."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.folders import FOLDERS
from tests.journeys.up import Up
from tests.processes import run_python
from tests.venvs import Venv, foreign_environment

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(600)]

NEEDED = {"anyio", "certifi", "h11", "httpcore", "httpx", "httpx-sse", "idna", "typing_extensions"}
USE = """
from callboard_client import Callboard

with Callboard({address!r}) as callboard:
    handle = callboard.run("sums", "What is 17 * 23?")
    print(len(list(handle.events())), handle.result().output)
"""
BESIDE_AGENTS = """
from agents import Agent, Runner
import agents

assert "site-packages" in agents.__file__
print(Agent(name="Assistant").name)
"""
CHECKED = """
from callboard_client import AsyncCallboard, Callboard, EndEvent

def output(callboard: Callboard) -> object:
    end: EndEvent = callboard.run("sums", "Hello").result(timeout_s=1.5)
    return end.output

async def wrong(callboard: AsyncCallboard) -> int:
    return await callboard.run("sums", "Hello")
"""


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory, client_wheel: Path) -> Venv:
    """An environment with the client."""
    virtualenv = Venv(tmp_path_factory.mktemp("client") / "venv")
    virtualenv.install(str(client_wheel))
    return virtualenv


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """An installation with one agent."""
    folder = tmp_path_factory.mktemp("up")
    (folder / "agents").mkdir()
    agent = "name: Sums\nmodel: demo/instant\ntools: [calculator]\nsystem_prompt: You answer.\n"
    (folder / "agents" / "sums.yaml").write_text(agent)
    chosen = {"CALLBOARD_NO_CONFIG": "1", "CALLBOARD_AGENTS_DIR": str(folder / "agents")}
    with Up(folder / "state", "--port", "0", "--workers", "1", **chosen) as started:
        yield started
        started.stop()


def test_the_wheel_has_the_client_its_license_and_its_types(client_wheel: Path) -> None:
    names = zipfile.ZipFile(client_wheel).namelist()

    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"callboard_client"}
    assert "callboard_client/py.typed" in names
    assert "callboard_client/synchronous/callboard.py" in names
    assert [name for name in names if name.endswith("licenses/LICENSE")]


def test_it_brings_httpx_and_httpx_sse_and_works(venv: Venv, up: Up, tmp_path: Path) -> None:
    brought = venv.packages() - {"pip", "setuptools"}

    printed = venv.run(USE.format(address=up.address), cwd=tmp_path)

    assert brought - {"sniffio"} == NEEDED | {"callboard-client"}
    assert "391" in printed


def test_it_works_beside_openai_agents_and_in_a_folder_of_our_names(venv: Venv, up: Up, tmp_path: Path) -> None:
    for name in set(FOLDERS) - {"agents"}:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('{name} was imported')")
    venv.install("openai-agents")

    printed = venv.run(BESIDE_AGENTS + USE.format(address=up.address), cwd=tmp_path)

    assert "openai-agents" in venv.packages()
    assert printed.startswith("Assistant\n")
    assert "391" in printed


def test_its_types_reach_the_users_checker(venv: Venv, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(CHECKED)
    options = ("--strict", "--cache-dir", os.devnull, "--config-file", os.devnull, "--python-executable", venv.python)

    ran = run_python("-m", "mypy", *options, "shop.py", env=foreign_environment(), cwd=tmp_path)

    assert [line.partition(": ")[0] for line in ran.stdout.splitlines() if ": error: " in line] == ["shop.py:9"]
    assert '(got "AsyncRunHandle", expected "int")' in ran.stdout
