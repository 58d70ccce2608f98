"""A Celery application of another project (docs/examples/shop): it starts runs, and an agent uses its functions."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.supervisor.child import guarded
from config.folders import ROOT
from config.redis.url import broker_form
from tests.clients.python.served_tools import MODES, connected
from tests.fleet import bare_environment
from tests.journeys.up import Up
from tests.processes import run_python
from tests.venvs import Venv, foreign_environment

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(600)]

SHOP = ROOT / "docs" / "examples" / "shop"
IN_STOCK = "Emma: 3"
ASK = """
import config
from orders.tasks import ask_clerk, fetch_answer, start_clerk

assert config.__file__.endswith("shop/config/__init__.py"), config.__file__
question = "Count stock of Emma"
waited = [ask_clerk.apply_async([question], task_id=name).get(timeout=90) for name in ("first", "first", "second")]
fetched = fetch_answer.delay(start_clerk.delay(question).get(timeout=60)).get(timeout=90)
import json; print(json.dumps([*waited, fetched]))
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The shop's project, in a folder of its own."""
    return shutil.copytree(SHOP, tmp_path / "shop", ignore=shutil.ignore_patterns("__pycache__"))


def with_shop(shop: Path, **more: str) -> dict[str, str]:
    """Return the variables that let Callboard's processes use the shop's functions."""
    return {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{shop}",
        "CALLBOARD_AGENTS_DIR": str(shop / "callboard_agents"),
        "CALLBOARD_NO_CONFIG": "1",
        **more,
    }


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory, client_wheel: Path) -> Venv:
    """The shop's environment."""
    folder = tmp_path_factory.mktemp("environment")
    virtualenv = Venv(folder / "venv")
    needed = folder / "requirements.txt"
    text = (SHOP / "requirements.txt").read_text()
    needed.write_text(text.replace("${CALLBOARD}/clients/python", str(client_wheel)))
    virtualenv.install("-r", str(needed))
    return virtualenv


@contextmanager
def celery_of(shop: Path, venv: Venv, log: Path, **environment: str) -> Iterator[None]:
    """Run the shop's worker, on Celery's default pool."""
    command = (venv.python, "-m", "celery", "-A", "config.celery_app", "worker", "--concurrency", "2")
    with log.open("wb") as out:
        worker = subprocess.Popen(
            guarded(command), cwd=shop, env=foreign_environment(**environment), stdout=out, stderr=out
        )
        try:
            yield
        finally:
            worker.terminate()
            worker.wait(30)


def test_tasks_of_a_celery_application_get_the_answers_of_runs(
    venv: Venv, shop: Path, redis_url: str, tmp_path: Path
) -> None:
    callboard = with_shop(shop, CALLBOARD_TOOL_MODULES=".,orders")
    with Up(tmp_path / "state", "--port", "0", "--workers", "1", **callboard) as up:
        own = {"SHOP_REDIS": broker_form(redis_url), "SHOP_CALLBOARD": up.address}
        with celery_of(shop, venv, tmp_path / "celery.log", **own):
            answers = json.loads(venv.run(ASK, cwd=shop, **own).splitlines()[-1])
        runs: list[dict[str, Any]] = up.get("/v1/runs")["runs"]
        up.stop()

    assert [IN_STOCK in answer for answer in answers] == [True] * 4
    assert [run["agent"] for run in runs] == ["clerk"] * 3, "a task that was delivered twice is one run"


AS_DOTTED_PATH = "tools: ['orders.stock:count_stock']"
WAYS = {
    "a dotted path": (AS_DOTTED_PATH, {"CALLBOARD_TOOL_MODULES": ".,orders"}),
    "a plugin": ("tools: [count_stock]", {"CALLBOARD_PLUGINS": "orders.stock:count_stock"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_uses_a_function_of_the_shop_where_it_is(way: str, shop: Path, tmp_path: Path) -> None:
    tools, settings = WAYS[way]
    definition = shop / "callboard_agents" / "clerk.yaml"
    definition.write_text(definition.read_text().replace(AS_DOTTED_PATH, tools))
    environment = bare_environment(**with_shop(shop, CALLBOARD_STATE_DIR=str(tmp_path / "state"), **settings))

    ran = run_python("-P", "-m", "cli", "run", "clerk", "Count stock of Emma", env=environment)

    assert IN_STOCK in ran.stdout, ran.stderr
    assert "hides" in ran.stderr, "Callboard says that its `config` is imported instead of the shop's"


def test_a_module_that_no_setting_names_is_refused(shop: Path, tmp_path: Path) -> None:
    environment = bare_environment(**with_shop(shop, CALLBOARD_STATE_DIR=str(tmp_path / "state")))

    ran = run_python("-P", "-m", "cli", "run", "clerk", "Count stock of Emma", env=environment)

    assert ran.returncode == 1
    assert "CALLBOARD_TOOL_MODULES=.,orders" in ran.stderr


@pytest.mark.parametrize("mode", MODES)
def test_the_shop_serves_its_functions_from_its_own_environment(
    mode: str, venv: Venv, shop: Path, tmp_path: Path
) -> None:
    command = [venv.python, "-m", "callboard_client.tools", "orders.tools"]
    own = {"SHOP_REDIS": "redis://127.0.0.1:1/0"}

    async def ask() -> list[Any]:
        async with connected(shop, mode, tmp_path / "errors.txt", command, own) as client:
            search_result = await client.call_tool("find_books", {"words": "Emma and Walden", "order": "copies"})
            ordered = await client.call_tool("order_copies", {"title": "Emma", "copies": 2})
            refused = await client.call_tool("order_copies", {"title": "Ulysses", "copies": 2})
            return [search_result.structured_content, ordered.content[0].text, refused.is_error]  # type: ignore[union-attr]

    answers = asyncio.run(ask())

    shelves = [{"title": "Emma", "copies": 3}, {"title": "Walden", "copies": 12}]
    assert answers == [{"result": shelves}, "2 copies of Emma are ordered", True]
    assert "mcp" not in venv.packages(), "the shop's environment has no SDK"
    assert "ordered 2 of Emma for the shop shop" in (tmp_path / "errors.txt").read_text()


def test_an_agent_uses_what_the_shop_serves(venv: Venv, shop: Path, tmp_path: Path) -> None:
    (shop / ".venv").symlink_to(venv.folder)
    own = {
        "CALLBOARD_MCP_SERVERS_DIR": str(shop / "callboard_mcp"),
        "CALLBOARD_AGENTS_DIR": str(shop / "callboard_agents"),
        "SHOP_REDIS": "redis://127.0.0.1:1/0",
    }
    environment = bare_environment(**own, CALLBOARD_STATE_DIR=str(tmp_path / "state"), CALLBOARD_NO_CONFIG="1")

    ran = run_python("-P", "-m", "cli", "run", "buyer", "Find books Emma", env=environment)

    assert "'copies': 3" in ran.stdout, ran.stdout + ran.stderr
    assert "hides" not in ran.stderr, "nothing of the shop is imported"
