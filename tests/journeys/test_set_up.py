"""`./callboard` makes its environment: with uv and with pip, once, repaired after an interruption."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from config.folders import ROOT

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(300)]

SHOP = ROOT / "docs" / "examples" / "shop"
PROJECT = """
[build-system]
requires = ["setuptools>=80"]
build-backend = "setuptools.build_meta"
[project]
name = "callboard"
version = "0.1.0"
[project.entry-points."callboard.observers"]
probe = "cli:probe"
[tool.setuptools]
packages = []
"""
COMMAND = """
import importlib.metadata as m, os, sys
points = [p.name for p in m.entry_points(group="callboard.observers")]
print("ran", sys.argv[1:], points, os.getcwd(), sys.path[0])
"""


RUN_FIRST_ARGUMENT = "import runpy; sys.argv[0] = sys.argv.pop(1); runpy.run_path(sys.argv[0], run_name='__main__')"


class Clone:
    """A clone of the project with short locks."""

    def __init__(self, root: Path, path: str) -> None:
        self.root = root
        self.path = path
        (root / "cli").mkdir(parents=True)
        (root / "cli" / "__init__.py").touch()
        (root / "cli" / "__main__.py").write_text(COMMAND)
        (root / "pyproject.toml").write_text(PROJECT)
        (root / "requirements.lock").write_text(entry("setuptools") + entry("blinker"))
        (root / "requirements-test.lock").write_text(entry("iniconfig", "requirements-test.lock"))
        shutil.copy2(ROOT / "callboard", root / "callboard")

    def start(self, *arguments: str, cwd: Path | None = None) -> "subprocess.Popen[str]":
        environment = {**os.environ, "PATH": self.path, "PYTHONPATH": ""}  # a developer's has packages of theirs
        command = [sys.executable, str(self.root / "callboard"), *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, cwd=cwd or self.root, stdout=pipe, stderr=pipe, text=True)

    def run(self, *arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
        process = self.start(*arguments, cwd=cwd)
        out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def installed(self) -> set[str]:
        """Return the names of the packages."""
        paths = self.root.glob(".venv/lib/python*/site-packages/*.dist-info")
        return {path.name.partition("-")[0] for path in paths}


def entry(name: str, lock: str = "requirements.lock") -> str:
    """Return one package's lines of the real lock."""
    match = re.search(rf"^{name}==.*(?:\n    .*)*\n", (ROOT / lock).read_text(), re.M)
    assert match
    return match.group()


WITH_UV = os.environ["PATH"]
WITHOUT_UV = "/usr/bin:/bin"
INSTALLERS = {"uv": WITH_UV, "pip": WITHOUT_UV} if shutil.which("uv") else {"pip": WITHOUT_UV}


@pytest.fixture(scope="module", params=INSTALLERS)
def clone(request, tmp_path_factory):
    """A clone on a machine with each installer; tests share it, because making an environment takes many seconds."""
    return Clone(tmp_path_factory.mktemp("machine") / "clone", INSTALLERS[request.param])


@pytest.fixture
def ready_clone(clone):
    """The same, after its set-up."""
    ran = clone.run("agents")
    assert ran.returncode == 0, ran.stderr
    return clone


@pytest.fixture
def made_clone(clone, request):
    """The same with an environment, which need not be as it should be."""
    return clone if clone.installed() else request.getfixturevalue("ready_clone")


def test_two_first_runs_at_once_set_up_once_and_both_run(clone):
    both = [clone.start("agents", "--json"), clone.start("agents", "--json")]

    outputs = [process.communicate() for process in both]

    assert [process.returncode for process in both] == [0, 0], outputs
    assert all(out.startswith("ran ['agents', '--json'] ['probe']") for out, _ in outputs)
    first, second = sorted((err for _, err in outputs), key=lambda err: "setting up .venv" not in err)
    assert "setting up .venv" in first
    assert "ready after" in first
    assert len(first.splitlines()) == 2, "one line before, one line after"
    assert "ready after" not in second


def test_a_later_run_starts_at_once_and_a_changed_lock_keeps_your_packages(ready_clone):
    again = ready_clone.run("agents")
    (ready_clone.root / "requirements.local.txt").write_text("itsdangerous\n")
    (ready_clone.root / "requirements.lock").write_text(entry("setuptools") + entry("blinker") + entry("click"))
    updated = ready_clone.run("agents")

    assert (again.returncode, again.stderr) == (0, "")
    assert updated.returncode == 0, updated.stderr
    assert {"setuptools", "blinker", "click", "itsdangerous"} <= ready_clone.installed()


def test_a_package_of_your_own_is_installed_without_the_environment_again(ready_clone):
    log = ready_clone.root / ".venv" / "callboard.log"
    log.unlink()
    (ready_clone.root / "requirements.local.txt").write_text("itsdangerous\nzipp\n")

    ran = ready_clone.run("agents")

    assert (ran.returncode, "installing what requirements.local.txt names" in ran.stderr) == (0, True), ran.stderr
    assert {"blinker", "zipp"} <= ready_clone.installed()
    assert [line.count("requirements.local.txt") for line in log.read_text().splitlines() if line[:1] == "$"] == [1]
    assert ready_clone.run("agents").stderr == ""


def test_only_a_developers_commands_install_what_the_tests_need(ready_clone):
    ready_clone.run("docs", "--help")
    production = ready_clone.installed()
    checked = ready_clone.run("check", "--static")
    again = [ready_clone.run(command) for command in ("agents", "test", "bench", "soak")]

    assert "iniconfig" not in production
    assert checked.returncode == 0, checked.stderr
    assert "updating .venv" in checked.stderr
    assert {"iniconfig", "blinker"} <= ready_clone.installed()
    assert [ran.stderr for ran in again] == [""] * 4


def test_an_interrupted_set_up_is_done_again(ready_clone):
    (ready_clone.root / ".venv" / "callboard.digest").unlink()
    for package in ready_clone.root.glob(".venv/lib/python*/site-packages/blinker*"):
        shutil.rmtree(package)

    repaired = ready_clone.run("agents")

    assert repaired.returncode == 0, repaired.stderr
    assert list(ready_clone.root.glob(".venv/lib/python*/site-packages/blinker"))


def test_a_callers_folder_full_of_our_names_changes_nothing(ready_clone, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "cli").mkdir(parents=True)
    (elsewhere / "cli" / "__init__.py").write_text("raise SystemExit('a stranger was imported')")

    ran = ready_clone.run("agents", cwd=elsewhere)

    assert ran.returncode == 0, ran.stderr
    assert str(elsewhere) in ran.stdout, "the command runs where the caller stands"


def test_a_failure_shows_the_installers_words_and_a_remedy(ready_clone):
    lock = ready_clone.root / "requirements.lock"
    good = lock.read_text()
    lock.write_text(good + re.sub(r"sha256:\w+", f"sha256:{'1' * 64}", entry("markupsafe")))

    failed = ready_clone.run("agents")
    lock.write_text(good)

    assert failed.returncode == 1
    assert "could not install requirements.lock" in failed.stderr
    assert "  | " in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not (ready_clone.root / ".venv" / "callboard.digest").exists()


def test_a_python_that_is_gone_is_replaced(made_clone):
    for name in made_clone.root.glob(".venv/bin/python*"):
        name.unlink()

    assert made_clone.run("agents").stdout.startswith("ran")


def test_a_project_of_yours_is_installed_from_requirements_local(ready_clone, tmp_path):
    shop = shutil.copytree(SHOP, tmp_path / "shop", ignore=shutil.ignore_patterns("__pycache__"))
    (ready_clone.root / "requirements.local.txt").write_text(f"{shop}\n")

    ran = ready_clone.run("agents")

    assert ran.returncode == 0, ran.stderr
    [site] = ready_clone.root.glob(".venv/lib/python*/site-packages")
    assert (site / "orders" / "stock.py").is_file()
    assert not (site / "config").exists(), "its name is Callboard's"


def test_a_python_without_venv_gets_a_sentence(tmp_path):
    clone = Clone(tmp_path / "clone", "/usr/bin:/bin")
    code = f"import sys; sys.modules['ensurepip'] = None; {RUN_FIRST_ARGUMENT}"
    command = [sys.executable, "-c", code, str(clone.root / "callboard"), "agents"]

    ran = subprocess.run(command, env={"PATH": clone.path}, capture_output=True, text=True, check=False)

    assert ran.returncode == 1
    assert "apt install python3-venv" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_old_python_can_read_the_file_as_far_as_its_sentence():
    ast.parse((ROOT / "callboard").read_text(), feature_version=(3, 4))


def test_an_old_python_is_refused_with_what_is_needed(tmp_path):
    code = f"import sys; sys.version_info = (3, 9, 18); {RUN_FIRST_ARGUMENT}"
    command = [sys.executable, "-c", code, str(ROOT / "callboard"), "up"]

    ran = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)

    assert ran.returncode == 1
    assert "Python 3.11 or later is needed" in ran.stderr
