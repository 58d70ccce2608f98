"""What ships is there without an installation of Callboard itself."""

import subprocess
import sys
import tomllib
from pathlib import Path
from sysconfig import get_path

import pytest

from config.folders import ROOT
from config.settings.project import installed_entries, own_version, project, shipped_entries
from tests.fleet import bare_environment

CODE = """
from agents.catalogue import TOOLS, find_tool
from config.settings import read_settings
from config.settings.project import own_version
from bus.journal.live.hotlog import MemoryHotLog
from observers.discovery import observers_for
settings = read_settings()
print(*TOOLS.names(settings))
found = observers_for(["sse", "logger"], settings, MemoryHotLog())
print(find_tool("clock", settings).name, *(observer.name for observer in found))
print(own_version())
"""


@pytest.fixture
def packages_alone(tmp_path: Path) -> Path:
    """A folder with everything that is installed here but Callboard."""
    for path in Path(get_path("purelib")).iterdir():
        if "callboard" not in path.name and path.suffix != ".pth":
            (tmp_path / path.name).symlink_to(path)
    return tmp_path


@pytest.mark.parity
def test_built_ins_need_no_installed_distribution(packages_alone: Path) -> None:
    environment = bare_environment(PYTHONPATH=f"{ROOT}:{packages_alone}")

    ran = subprocess.run(
        [sys.executable, "-S", "-c", CODE], env=environment, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr
    tools, built, version = ran.stdout.splitlines()
    assert tools.split() == sorted(shipped_entries("callboard.tools"))
    assert built == "clock sse logger"
    assert version == own_version() != "unknown"


def test_the_file_is_the_truth_and_an_installation_of_ours_is_not_asked(tmp_path, monkeypatch) -> None:
    for name, entries in (("callboard", "clock = old:clock"), ("stranger", "abacus = stranger:count")):
        facts = tmp_path / f"{name}-0.0.1.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.1\n")
        (facts / "entry_points.txt").write_text(f"[callboard.tools]\n{entries}\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert shipped_entries("callboard.tools")["clock"].value == "agents.tools.clock:clock"
    by_name = installed_entries("callboard.tools")
    assert by_name["abacus"].value == "stranger:count"
    assert "clock" not in by_name


def test_the_table_is_pyprojects_own() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project() == table
    shipped = {"sse", "logger", "signals", "email", "metrics", "traces", "webhooks"}
    assert set(shipped_entries("callboard.observers")) == shipped
    assert shipped_entries("no.such.group") == {}
