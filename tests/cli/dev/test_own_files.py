"""What checks and tests run on: the files that git tracks, with the definitions of `config/` as they are staged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.dev.own_files import copied, own_files, temporary_folder
from config.folders import ROOT
from tests.journeys.neighbour import until

pytestmark = pytest.mark.parity

SHIPPED = {
    ".gitignore": ".callboard/\n.env\n",
    "callboard": "#!/usr/bin/env python3\n",
    "config/__init__.py": "",
    "config/agents/assistant.yaml": "shipped",
    "config/agents/office.yaml": "shipped",
    "config/database/__init__.py": "",
    "config/database/template.mako": "shipped",
    "config/policy.yaml": "shipped",
    "tests/test_ours.py": "shipped",
}
USED = {
    ".callboard/key": "theirs",
    ".env": "theirs",
    "config/agents/aardvark.yaml": "theirs",
    "config/capabilities/count.py": "theirs",
    "config/policy.yaml": "theirs",
    "my_tools.py": "theirs",
    "tests/test_theirs.py": "theirs",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "callboard"
    write(root, SHIPPED)
    for words in (("init", "--quiet"), ("add", "--all")):
        subprocess.run(("git", *words), cwd=root, check=True)
    return root


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def texts_of(root: Path) -> dict[str, str]:
    """Return the copy that checks and tests of this checkout run in."""
    with copied(own_files(root), root=root) as copy:
        files = [path for path in copy.rglob("*") if path.is_file()]
        return {str(path.relative_to(copy)): path.read_text() for path in files}


def test_the_users_files_edits_and_removals_are_not_in_the_copy(checkout: Path) -> None:
    write(checkout, USED)
    (checkout / "config" / "agents" / "office.yaml").unlink()

    assert texts_of(checkout) == SHIPPED
    assert own_files(checkout).others == [
        "config/agents/aardvark.yaml",
        "config/agents/office.yaml",
        "config/capabilities/count.py",
        "config/policy.yaml",
        "tests/test_theirs.py",
    ]


def test_what_is_compiled_in_one_copy_is_there_in_the_next(checkout: Path) -> None:
    with copied(own_files(checkout), root=checkout) as copy:
        for room in ("config", "tests"):
            (copy / room / "__pycache__" / "ours.pyc").touch()

    with copied(own_files(checkout), root=checkout) as copy:
        compiled = {str(path.relative_to(copy)) for path in copy.glob("*/__pycache__/*")}
        assert compiled == {"config/__pycache__/ours.pyc", "tests/__pycache__/ours.pyc"}


def test_a_developers_edits_of_the_code_and_what_is_staged_count(checkout: Path) -> None:
    edits = dict.fromkeys(("config/database/template.mako", "tests/test_ours.py"), "edited")
    staged = {"config/agents/office.yaml": "edited", "config/agents/newer.yaml": "added"}
    write(checkout, edits | staged)
    subprocess.run(("git", "add", *staged), cwd=checkout, check=True)

    assert texts_of(checkout) == SHIPPED | edits | staged
    assert own_files(checkout).others == []


@pytest.mark.parametrize("is_in_another", [False, True])
def test_without_its_own_repository_all_that_is_not_ignored_is_copied(is_in_another: bool, tmp_path: Path) -> None:
    root = tmp_path / "callboard"
    write(root, SHIPPED | USED)
    if is_in_another:
        subprocess.run(("git", "init", "--quiet"), cwd=tmp_path, check=True)

    assert not own_files(root).is_tracked
    assert texts_of(root) == SHIPPED | {name: text for name, text in USED.items() if not name.startswith((".c", ".e"))}


def test_a_folder_whose_process_was_killed_with_its_remover_is_removed_by_the_next(tmp_path: Path) -> None:
    abandoned, young, foreign = (tmp_path / name for name in ("cb-abandoned", "cb-young", "cbforeign"))
    with temporary_folder(tmp_path) as name:
        used = Path(name)
        for folder in (abandoned, young, foreign, used):
            (folder / "more").mkdir(parents=True)
        for folder in (abandoned, foreign, used):
            os.utime(folder, (1, 1))

        with temporary_folder(tmp_path) as other:
            assert {*tmp_path.iterdir()} == {young, foreign, used, Path(other)}
            assert (used / "more").is_dir()

    assert {*tmp_path.iterdir()} == {young, foreign}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_folder_of_a_process_that_is_stopped_is_removed(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import signal, sys, pathlib\n"
        "from cli.dev.own_files import temporary_folder\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "with temporary_folder(pathlib.Path(sys.argv[1])) as name:\n"
        "    pathlib.Path(name, 'file').touch()\n"
        "    print('ready', flush=True)\n"
        "    signal.pause()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-c", code, str(tmp_path))
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert [*tmp_path.iterdir()]
        process.send_signal(number)

    until(lambda: not [*tmp_path.iterdir()], 30, "the folder is removed")
