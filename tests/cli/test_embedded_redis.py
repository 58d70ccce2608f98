import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from config.errors import SettingInvalid, StateDirUnwritable
from config.redis_server import ask
from config.redis_socket import MAX_SOCKET_PATH, find_running
from config.redis_url import socket_url
from web.terminal.embedded_redis import RunningRedis, plan, start


@pytest.fixture
def runtime(monkeypatch):
    """A runtime folder whose path is short, as real ones are."""
    with tempfile.TemporaryDirectory(prefix="cb", dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


@pytest.mark.parametrize("way", ["path", "wheel"])
def test_each_way_gives_a_server_that_keeps_what_it_holds(settings, way):
    running = start(settings.model_copy(update={"embedded": way}))

    assert running is not None
    try:
        facts = ask(running.url)
        assert (facts.policy, facts.persists) == ("noeviction", True)
        assert running.server.way == way
        assert find_running(settings) == running.url
    finally:
        running.stop()
    assert find_running(settings) is None


def test_the_third_way_starts_nothing(settings):
    assert plan(settings.model_copy(update={"embedded": "process"})) is None


def test_without_a_server_on_the_path_the_wheels_is_taken(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    server = plan(settings)

    assert server is not None
    assert server.way == "wheel"


def test_a_way_that_is_not_there_is_said(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SettingInvalid, match="CALLBOARD_EMBEDDED=path cannot be followed"):
        plan(settings.model_copy(update={"embedded": "path"}))


def test_what_was_appended_survives_a_kill_and_a_stale_socket(settings):
    import redis

    running = start(settings)
    assert running is not None
    with redis.Redis.from_url(running.url) as client:
        client.set("kept", "yes")
    running.process.kill()
    running.process.wait()
    assert running.server.socket.exists(), "a killed server leaves its socket behind"

    again = start(settings)

    assert again is not None
    try:
        with redis.Redis.from_url(again.url) as client:
            assert client.get("kept") == b"yes"
    finally:
        again.stop()


def test_a_state_folder_with_a_long_path_keeps_its_socket_elsewhere(settings, tmp_path, runtime, monkeypatch):
    long = settings.model_copy(update={"state_dir": tmp_path / ("x" * 120)})

    running = start(long)

    assert running is not None
    try:
        assert len(os.fsencode(running.server.socket)) <= MAX_SOCKET_PATH
        assert running.server.socket.is_relative_to(runtime)
        assert running.server.socket.parent.stat().st_mode & 0o077 == 0
        monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")  # another terminal, another session
        assert find_running(long) == running.url
    finally:
        running.stop()


def test_somebody_elses_folder_under_our_name_is_not_used(settings, tmp_path, runtime):
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

    with pytest.raises(StateDirUnwritable, match="--state-dir"):
        plan(settings.model_copy(update={"state_dir": tmp_path / "file" / "state"}))


def test_a_server_that_cannot_read_its_data_says_so_at_once(settings):
    from config.errors import RedisUnreachable

    server = plan(settings)
    assert server is not None
    (server.folder / "appendonlydir").write_text("not a folder")

    with pytest.raises(RedisUnreachable, match="ended with status"):
        RunningRedis(server)

    place = server.set_aside()
    assert (place / "appendonlydir").exists()
    running = RunningRedis(server)
    running.stop()


def test_the_url_is_where_the_server_answers(settings):
    server = plan(settings)

    assert server is not None
    assert server.url == socket_url(settings.state / "redis.sock")
    assert subprocess.run([server.argv[0], "--version"], capture_output=True, check=True).stdout
