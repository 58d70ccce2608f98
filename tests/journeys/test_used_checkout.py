"""A developer's checkout: its agents, tools, plugins and settings fail neither the checks nor the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from config.folders import ROOT
from tests.test_docs import examples

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(600)]

UNTIDY = "import os\ndef ugly( a,b ):\n  return a\n"
OBSERVER = "from observers.base import AgentObserver\nclass Ledger(AgentObserver):\n    name = 'ledger'\n"
TOOL = "from agents.tools import tool\n@tool(effect='pure')\ndef abacus(a: int) -> int:\n    'Count.'\n    return a\n"
SETTINGS = """
deployment = "mine"
queue = "mine"
agents_dir = "/nowhere:config/agents"
log_format = "json"
plugins = "my_ledger:Ledger"
"""
ENVIRONMENT = {
    "CALLBOARD_DEPLOYMENT": "theirs",
    "TEMPORAL_NAMESPACE": "theirs",
    "TEMPORAL_TASK_QUEUE": "theirs",
    "DATABASE_POOL_SIZE": "3",
    "ANTHROPIC_API_KEY": "sk-ant-mine-0123456789",
    "CELERY_WORKER_POOL": "gevent",
}
TOUCHED = """
    tests/config/database/test_shared_secret.py tests/config/definitions/test_agent.py
    tests/config/definitions/test_capability.py tests/config/definitions/test_credentials.py
    tests/config/definitions/test_dotted_path.py tests/config/definitions/test_secret_reference.py
    tests/config/egress/test_policy.py tests/config/guardrails/test_deployment.py
    tests/config/guardrails/test_sealing.py tests/config/identity/audit/test_anchors.py
    tests/config/identity/test_folders.py tests/config/policy/test_policy_page.py tests/config/test_failpoints.py
    tests/config/test_folders.py tests/config/test_logs.py tests/config/test_own_folders.py
    tests/config/test_private_files.py tests/config/test_project.py tests/config/test_provider_keys.py
    tests/config/test_secret_places.py tests/config/test_settings.py tests/config/test_tls.py
    tests/agents/test_shipped_agents.py tests/agents/test_checkup.py tests/agents/tools/test_catalogue.py
    tests/bus/test_celery_rules.py tests/bus/test_celery_config.py tests/bus/test_shared_broker.py
    tests/observers/test_discovery.py tests/cli/doctor tests/cli/test_main.py
    tests/cli/test_runs_on_the_terminal.py tests/test_house.py
""".split()
"""Where such things were met: tests of settings, plugins and files beside the folders. The others know none of them."""


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, used as the README says, by an untidy developer."""
    copy = tmp_path_factory.mktemp("used") / "callboard"
    left_out = (".venv", ".git", ".callboard", ".env", "callboard.toml", "requirements.local.txt")
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*left_out))
    readme = (ROOT / "README.md").read_text()
    (copy / "config" / "agents" / "librarian.yaml").write_text(examples(readme, "yaml")[0])
    (copy / "my_tools.py").write_text(examples(readme, "python")[0] + UNTIDY)
    (copy / "my_ledger.py").write_text(OBSERVER)
    (copy / "callboard.toml").write_text(SETTINGS)
    (copy / ".env").write_text("CALLBOARD_SLOTS=3\nOPENAI_API_KEY=sk-mine-0123456789\n")
    return copy


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install` leaves behind: a package with an observer and a tool, and a `config` of another project."""
    site = tmp_path_factory.mktemp("site")
    facts = site / "ledger-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: ledger\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[callboard.observers]\ninstalled = ledger:Ledger\n[callboard.tools]\nabacus = abacus:abacus\n"
    )
    (site / "ledger.py").write_text(OBSERVER)
    (site / "abacus.py").write_text(TOOL)
    (site / "config").mkdir()
    (site / "config" / "__init__.py").write_text("")
    return site


def callboard(used: Path, installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the copy, with the environment of this Python."""
    return python(used, installed, "-P", "-m", "cli", *words)


def python(used: Path, installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the copy, as the developer does."""
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": f"{used}{os.pathsep}{installed}"}
    environment.pop("CALLBOARD_NO_CONFIG")
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=used, env=environment, capture_output=True, text=True, check=False)


def test_the_copy_is_really_used(used: Path, installed: Path) -> None:
    said = callboard(used, installed, "agents", "librarian")
    deployment = python(
        used, installed, "-P", "-c", "from config.settings import settings; print(settings().deployment)"
    )

    assert said.returncode == 0, said.stdout + said.stderr
    assert "✓ librarian" in said.stdout
    assert said.stderr.startswith("warning: `import config` finds Callboard's folder and hides "), said.stderr
    assert deployment.stdout == "theirs\n", "the files and the environment count for the user"


def test_format_lint_imports_and_types_look_at_our_own_files_only(used: Path, installed: Path) -> None:
    ran = callboard(used, installed, "check", "--static")

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_tests_do_not_meet_the_users_things(used: Path, installed: Path) -> None:
    assert [place for place in TOUCHED if not (used / place).exists()] == []

    ran = callboard(used, installed, "test", "--only", "unit", "--", "-n", "0", *TOUCHED)  # few; a process costs 2 s

    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
