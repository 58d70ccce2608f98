"""`./callboard up` whose stderr cannot be written: the fleet is looked after all the same."""

import subprocess

import psutil
import pytest

from tests.journeys.up import Up

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]


@pytest.fixture
def full_stderr(monkeypatch):
    """What ``Up`` starts has a stderr on a full disk."""
    start = subprocess.Popen
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(subprocess, "Popen", lambda *args, **more: start(*args, **{**more, "stderr": full}))
        yield


@pytest.mark.usefixtures("full_stderr")
def test_a_killed_worker_is_replaced_while_stderr_cannot_be_written(tmp_path):
    with Up(tmp_path / "state", "--port", "0", "--workers", "1", "--verbose") as up:
        assert up.ask("assistant", "What is 1 + 1?")["status"] == "succeeded"
        victims = {child.pid for child in up.children("celery")}
        assert victims

        for pid in victims:
            psutil.Process(pid).kill()

        assert up.ask("assistant", "What is 2 + 2?")["status"] == "succeeded"
        assert not victims & {child.pid for child in up.children("celery")}
        assert up.stop() == 0
    assert "(SIGKILL); starting it again" in (up.state / "logs" / "up.log").read_text()
