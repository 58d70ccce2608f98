import subprocess
import sys

import pytest

from config.errors import RoomTaken
from config.rooms import ROOT, require_own_rooms, strangers
from tests.fleet import bare_environment


def test_our_own_rooms_pass():
    require_own_rooms()


def test_a_room_elsewhere_is_named_with_the_remedy(tmp_path):
    with pytest.raises(RoomTaken, match=r"PYTHONPATH=.*has to come first"):
        require_own_rooms(tmp_path)


def test_a_stranger_that_wins_is_refused_by_the_terminal(tmp_path):
    stranger = tmp_path / "agents"
    stranger.mkdir()
    (stranger / "__init__.py").write_text("")

    ran = subprocess.run(
        [sys.executable, "-P", "-m", "web.terminal", "agents"],
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

    assert strangers(str(tmp_path)) == {"agents": str(tmp_path / "agents" / "__init__.py")}
