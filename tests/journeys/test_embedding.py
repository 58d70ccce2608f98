"""A Celery application of another project (docs/examples/shop): it starts runs, and an agent uses its functions."""

from __future__ import annotations

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
from tests.fleet import bare_environment
from tests.journeys.up import Up
from tests.processes import run_python
from tests.venvs import Venv, build_client, foreign_environment

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


@pytest.fixture
def venv(tmp_path: Path, shop: Path) -> Venv:
    """The shop's environment."""
    made = Venv(tmp_path / "venv")
    wheel = build_client(tmp_path)
    needed = shop / "requirements.txt"
    needed.write_text(needed.read_text().replace("/srv/callboard/clients/python", str(wheel)))
    made.install("-r", str(needed))
    return made


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
