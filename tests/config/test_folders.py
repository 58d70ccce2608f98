"""Callboard imported by another project's program: it works, or one sentence says what is in the way."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from config.folders import FOLDERS, NEEDED, ROOT
from tests.fleet import bare_environment

pytestmark = pytest.mark.parity

OURS = "import agents, bus, config, handlers, observers; print('imported', config.__file__)"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Another project, with a `config` of its own as many have."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "__init__.py").write_text("")
    (tmp_path / "config" / "settings.py").write_text("DEBUG = True\n")
    return tmp_path


def run(program: str, *path: Path, flags: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    """Run a program with these folders on ``PYTHONPATH``, from a folder that is none of them."""
    environment = bare_environment(PYTHONPATH=":".join(map(str, path)))
    command = [sys.executable, "-P", *flags, "-c", program]
    return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)


def last_line(ran: "subprocess.CompletedProcess[str]") -> str:
    """Return the sentence a program ended with."""
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder not in ("cli", "web")])
def test_without_the_packages_the_python_that_has_them_is_named(folder: str) -> None:
    sentence = last_line(run(f"import {folder}", ROOT, flags=("-S",)))

    assert sentence.startswith("ImportError: Callboard needs the package '")
    assert f"is not installed in {sys.executable}" in sentence
    assert f"{ROOT}/.venv/bin/python" in sentence


def test_the_packages_looked_for_are_those_of_the_project() -> None:
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    expected = {re.split(r"[^\w-]", line)[0] for line in lines if "sys_platform" not in line}
    brought = packages_distributions()

    assert {re.sub(r"[-_.]+", "-", name.lower()) for module in NEEDED for name in brought[module]} >= expected
    assert len(NEEDED) == len(expected)


def test_a_config_that_comes_before_ours_is_refused_with_its_file(project: Path) -> None:
    sentence = last_line(run(OURS, project, ROOT))

    assert sentence.startswith(f"config.folders.FolderTaken: `import config` finds {project}/config/__init__.py")
    assert f"PYTHONPATH={ROOT}" in sentence
    assert "over HTTP" in sentence


def test_a_config_that_is_imported_already_is_refused_too(project: Path) -> None:
    program = f"import sys; sys.path.append({str(project)!r}); import config; sys.path.insert(0, {str(ROOT)!r}); {OURS}"

    sentence = last_line(run(program))

    assert f"`import config` finds {project}/config/__init__.py" in sentence


def test_a_config_that_ours_hides_is_named_in_a_warning(project: Path) -> None:
    ran = run(OURS, ROOT, project)

    assert ran.stdout == f"imported {ROOT}/config/__init__.py\n"
    assert (
        f"RuntimeWarning: `import config` finds Callboard's folder and hides {project}/config/__init__.py" in ran.stderr
    )
    assert ran.stderr.startswith("<string>:1: "), "at the line that imported Callboard"
    assert ran.stderr.count("Warning") == 1


def test_what_is_no_python_package_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "app.yaml").write_text("a: 1\n")
    (tmp_path / "web").mkdir()

    for path in ((ROOT, tmp_path), (tmp_path, ROOT)):
        ran = run(OURS, *path)

        assert (ran.returncode, ran.stderr) == (0, "")


def test_packages_that_are_imported_already_need_not_be_found() -> None:
    assert run(f"import celery, kombu; {OURS}", ROOT).returncode == 0, "kombu leaves itself without a spec"


def test_an_old_python_is_refused_with_a_sentence() -> None:
    sentence = last_line(run("import sys; sys.version_info = (3, 9, 1); import agents", ROOT))

    assert "Callboard needs Python 3.11 or later" in sentence


def test_our_folder_may_leave_the_path_after_the_first_import_as_celery_has_it() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import bus.celery_app; sys.path.pop(0)\n"
        "from config.folders import require_own_folders; require_own_folders()\n"
        "import handlers; print(handlers.__file__)"
    )

    assert run(program).stdout == f"{ROOT}/handlers/__init__.py\n"
