"""Named places where a process can be made to die; off, they do nothing."""

import subprocess
import sys

import pytest

from config.errors import SettingInvalid
from config.failpoints import PLACES, FailpointHit, failpoint, set_failpoints, watch_failpoints
from config.folders import ROOT
from tests.processes import run_python


@pytest.fixture(autouse=True)
def _none_afterwards():
    yield
    set_failpoints("")


def test_a_place_that_is_not_set_does_nothing():
    set_failpoints("commit=raise")

    failpoint("claim")


def test_it_happens_at_the_passing_that_was_asked_for():
    set_failpoints("commit=raise@2")

    failpoint("commit")
    with pytest.raises(FailpointHit):
        failpoint("commit")
    failpoint("commit")


@pytest.mark.parametrize(
    "text",
    """
    commit commit=explode =kill comit=kill commit=kill@ commit=kill@0 commit=kill@x tool=sleep:long tool=sleep:-1
    tool=sleep:inf
    """.split(),
)
def test_what_cannot_be_read_or_names_no_place_is_refused(text):
    with pytest.raises(SettingInvalid, match="FAILPOINTS"):
        set_failpoints(text)


@pytest.mark.parity
def test_a_program_says_so_in_one_sentence():
    ran = run_python("-c", "import config.failpoints", env={"FAILPOINTS": "comit=kill"})

    assert ran.returncode == 1
    assert ran.stderr.startswith("error: FAILPOINTS: 'comit=kill'")
    assert "Traceback" not in ran.stderr


def test_every_passing_is_seen_in_order():
    seen: list[str] = []
    watch_failpoints(seen.append)

    for location in ("claim", "commit-before", "commit", "commit-before", "commit"):
        failpoint(location)

    assert seen == ["claim", "commit-before", "commit", "commit-before", "commit"]


def test_every_place_of_the_code_can_be_watched():
    rooms = [ROOT / room for room in ("agents", "bus", "handlers")]
    sources = [path.read_text() for room in rooms for path in room.rglob("*.py")]

    assert {location for location in PLACES if any(f'failpoint("{location}")' in source for source in sources)} == set(
        PLACES
    )


@pytest.mark.parity
def test_the_environment_kills_for_real():
    code = "from config.failpoints import failpoint; failpoint('commit'); failpoint('commit'); print('alive')"

    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={"FAILPOINTS": "commit=kill@2"}, capture_output=True, check=False
    )

    assert (ran.returncode, ran.stdout) == (-9, b"")
