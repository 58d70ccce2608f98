import subprocess
import sys

import pytest

from config.errors import ROOM_TAKEN
from config.folders import ROOT, foreign_packages, require_own_folders
from tests.fleet import bare_environment
from tests.raising import raises


def test_our_own_rooms_pass():
    require_own_folders()


def test_a_room_elsewhere_is_named_with_the_remedy(tmp_path):
    with raises(ROOM_TAKEN, match=r"PYTHONPATH=.*has to come first"):
        require_own_folders(tmp_path)


@pytest.mark.parity
def test_a_stranger_that_wins_is_refused_by_the_terminal(tmp_path):
    stranger = tmp_path / "agents"
    stranger.mkdir()
    (stranger / "__init__.py").write_text("")

    ran = subprocess.run(
        [sys.executable, "-P", "-m", "cli", "agents"],
        env=bare_environment(PYTHONPATH=f"{tmp_path}:{ROOT}"),
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 1
    assert f"`import agents` finds {stranger}/__init__.py" in ran.stderr
    assert ran.stderr.endswith("[room_taken]\n")
    assert "Traceback" not in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1


def test_a_stranger_that_loses_is_still_noticed(tmp_path):
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("")

    assert foreign_packages(str(tmp_path)) == {"agents": str(tmp_path / "agents" / "__init__.py")}
