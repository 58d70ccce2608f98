"""`./callboard up`: its three ways, its supervisor, and what it says when something is in the way."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import psutil
import pytest

from config.private_files import private_folder
from tests.fleet import bare_environment
from tests.journeys import skewed_tools
from tests.journeys.up import Up, WarmingUp

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(180)]


def run_up(*flags, **environment):
    """Run `up` where it ends by itself, and return how."""
    command = [sys.executable, "-P", "-m", "cli", "up", *flags]
    environment = bare_environment(**environment)
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("way", ["wheel", "process"])
def test_each_way_of_the_embedded_default_works_a_run_off(tmp_path, way):
    with Up(tmp_path / "state", "--port", "0", "--workers", "1", CALLBOARD_EMBEDDED=way) as up:
        assert_works_a_run_off(up, servers=0 if way == "process" else 1)
        status = up.stop()

    assert status == 0
    assert ("everything runs in one process" in "\n".join(up.lines)) == (way == "process")
    assert not [line for line in up.lines if "Traceback" in line or line.startswith("error")]


def test_in_one_process_no_more_runs_are_at_work_than_it_has_slots(tmp_path):
    (tmp_path / "agents").mkdir()
    agent = "name: Weigher\nmodel: demo/assistant\nsystem_prompt: x\ntools: [tests.journeys.skewed_tools:weigh]\n"
    (tmp_path / "agents" / "weigher.yaml").write_text(agent)
    folders = {"CALLBOARD_AGENTS_DIR": str(tmp_path / "agents"), skewed_tools.FOLDER: str(tmp_path)}
    environment = {"CALLBOARD_EMBEDDED": "process", "CALLBOARD_SLOTS": "1", "CALLBOARD_REAP_S": "0.5"}
    with Up(tmp_path / "state", "--port", "0", CALLBOARD_TOOL_MODULES=".,tests.", **folders, **environment) as up:
        runs = [up.start("weigher", f"weigh: parcel number-{number}") for number in range(3)]
        time.sleep(6)  # what waits is looked for each half second

        weighed = (tmp_path / "weighed").read_text().splitlines()
        (tmp_path / "free").touch()
        assert len(weighed) == 1
        assert [up.events(run)[-1]["status"] for run in runs] == ["succeeded"] * 3


def assert_works_a_run_off(up, *, servers):
    """It has so many Redis servers of its own, and a run on them succeeds."""
    end = up.ask("assistant", "What is 17 * 23?")

    assert end["type"] == "end"
    assert end["status"] == "succeeded"
    assert "391" in end["output"]
    assert up.get("/ready") == {"status": "ready"}
    assert len(up.children("unixsocket")) == servers
    assert counted_ends(up) == [1.0]


def counted_ends(up):
    """The ended runs that `/metrics` has counted, of each label; the worker looks for new events every 2.5 s."""
    until = time.monotonic() + 20
    while True:
        with urllib.request.urlopen(f"{up.address}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        counts = [float(line.split()[-1]) for line in lines if line.startswith("callboard_runs_ended_total{")]
        if counts or time.monotonic() > until:
            return counts
        time.sleep(0.2)  # another process; only its answers tell


def assert_all_has_ended(up, children):
    """None of these children lives, and the port is free."""
    assert not [line for line in up.lines if "counts of viewers" in line]
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # our own connections may linger; a listener may not
        free.bind(("127.0.0.1", int(up.address.rpartition(":")[2])))


def test_one_line_says_where_the_page_is_and_what_auto_means(tmp_path):
    keys = {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "", "GEMINI_API_KEY": ""}
    with WarmingUp(tmp_path / "state", "--port", "0", "--workers", "1", **keys) as up:
        line = up.wait_for("Callboard is up at http://127.0.0.1:")
        up.get("/health")
        up.stop()

    assert "model auto is " in line
    assert "not a language model" in line or "ollama" in line
    assert up.lines == [line], "quiet: nothing else is printed"


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """An `up` with the machine's Redis and a worker that took a run; tests share it and leave it as it was.

    SIGTERM ends it with all its children.
    """
    state = tmp_path_factory.mktemp("up") / "state"
    with Up(state, "--port", "0", "--workers", "1", "--verbose", CALLBOARD_EMBEDDED="path") as up:
        assert_works_a_run_off(up, servers=1)
        yield up
        children = up.children()
        assert len(children) >= 4
        assert up.stop() == 0
        assert_all_has_ended(up, children)


def test_a_second_up_prints_the_first_ones_address_and_is_content(installation):
    second = run_up("--state-dir", str(installation.state), "--port", "0")

    assert second.returncode == 0
    assert f"already up at {installation.address}" in second.stdout
    assert "It keeps the settings it was started with; `kill -INT " in second.stdout


def test_the_doctor_finds_a_running_installation_well(installation):
    command = [sys.executable, "-P", "-m", "cli", "doctor", "--state-dir", str(installation.state)]

    process = subprocess.run(command, env=bare_environment(), capture_output=True, text=True, check=False)

    assert process.returncode == 0, process.stdout
    assert "maxmemory-policy noeviction" in process.stdout
    assert "ok   workers        1 alive" in process.stdout
    assert "'runs' is consumed" in process.stdout
    assert "fail" not in process.stdout


@pytest.mark.parametrize("kind", ["celery", "gunicorn", "unixsocket"])
def test_a_killed_child_is_replaced_and_runs_continue(installation, kind):
    victims, line_count = {child.pid for child in installation.children(kind)}, len(installation.lines)
    assert victims

    for pid in victims:
        psutil.Process(pid).kill()

    installation.wait_for("(SIGKILL); starting it again", after=line_count)
    assert installation.ask("assistant", "What is 2 + 2?")["status"] == "succeeded"
    assert not victims & {child.pid for child in installation.children(kind)}


def test_ctrl_c_ends_everything(tmp_path):
    with Up(tmp_path / "state", "--port", "0", "--workers", "2") as up:
        up.ask("assistant", "What is 1 + 1?")
        children = up.children()

        status = up.stop(signal.SIGINT)

    assert status == 0
    assert len(children) >= 4
    assert_all_has_ended(up, children)


def test_children_die_with_a_supervisor_that_is_killed(tmp_path):
    with Up(tmp_path / "state", "--port", "0", "--workers", "1") as up:
        up.ask("assistant", "What is 1 + 1?")
        children = up.children()

        up.process.kill()

        _, alive = psutil.wait_procs(children, timeout=20)
        assert not alive
    with Up(tmp_path / "state", "--port", "0", "--workers", "1") as again:
        assert again.ask("assistant", "What is 2 + 2?")["status"] == "succeeded"
        assert len(again.get("/v1/runs")["runs"]) == 2, "what was there before is still there"
        again.stop()


def test_a_configured_redis_and_postgres_are_used_instead_of_our_own(tmp_path, redis_url, deployment):
    environment = {"CALLBOARD_REDIS_URL": redis_url, "CALLBOARD_DEPLOYMENT": deployment}
    with Up(tmp_path / "state", "--port", "0", "--workers", "1", **environment) as up:
        end = up.ask("assistant", "What is 17 * 23?")

        assert end["status"] == "succeeded"
        assert not up.children("unixsocket")
        up.stop()


@pytest.mark.postgres
def test_on_postgres_the_same_run_comes_out(tmp_path, postgres_url):
    with Up(tmp_path / "state", "--port", "0", "--workers", "1", CALLBOARD_DATABASE_URL=postgres_url) as up:
        end = up.ask("assistant", "What is 17 * 23?")
        up.stop()

    assert end["status"] == "succeeded"
    assert "391" in end["output"]


def test_a_broken_append_only_file_is_set_aside(tmp_path):
    folder = private_folder(tmp_path / "state" / "redis")
    (folder / "appendonlydir").write_text("not a folder")

    with Up(tmp_path / "state", "--port", "0", "--workers", "1") as up:
        assert up.ask("assistant", "What is 1 + 1?")["status"] == "succeeded"
        up.stop()

    assert list(folder.parent.glob("redis.unreadable-*"))


class TestWhatIsInTheWay:
    """Each a sentence with its remedy, on stderr, without a traceback; and nothing is left running."""

    def refused(self, code, *flags, status=1, **environment):
        ended = run_up(*flags, **environment)

        assert ended.returncode == status, ended.stdout + ended.stderr
        assert ended.stderr.startswith("error: ")
        assert f"[{code}]" in ended.stderr
        assert len(ended.stderr.strip().splitlines()) == 1
        return ended.stderr

    def test_a_port_in_use(self, tmp_path):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]

            message = self.refused("port_in_use", "--state-dir", str(tmp_path / "state"), "--port", str(port))

        assert f"--port {port + 1}" in message

    def test_an_unwritable_state_folder(self, tmp_path):
        (tmp_path / "file").write_text("")

        message = self.refused("state_dir_unwritable", "--state-dir", str(tmp_path / "file" / "state"))

        assert "--state-dir" in message

    def test_a_redis_that_does_not_answer(self, tmp_path):
        url = "redis://:hunter2hunter2@127.0.0.1:1/0"

        message = self.refused(
            "redis_unreachable", "--state-dir", str(tmp_path / "state"), "--port", "0", CALLBOARD_REDIS_URL=url
        )

        assert "CALLBOARD_REDIS_URL" in message
        assert "hunter2" not in message

    def test_a_database_that_does_not_answer(self, tmp_path):
        url = "postgresql+psycopg://me:hunter2hunter2@127.0.0.1:1/none"

        message = self.refused(
            "database_unreachable", "--state-dir", str(tmp_path / "state"), "--port", "0", CALLBOARD_DATABASE_URL=url
        )

        assert "hunter2" not in message

    def test_a_host_others_reach(self, tmp_path):
        flags = ("--state-dir", str(tmp_path / "state"), "--host", "0.0.0.0")

        message = self.refused("setting_invalid", *flags, status=2)

        assert "--no-auth" in message

    def test_a_host_that_is_not_this_machines(self, tmp_path):
        flags = ("--state-dir", str(tmp_path / "state"), "--host", "192.0.2.1", "--no-auth", "--port", "0")

        assert "127.0.0.1" in self.refused("setting_invalid", *flags, status=2)

    def test_a_setting_that_cannot_be_used(self, tmp_path):
        message = self.refused("setting_invalid", "--state-dir", str(tmp_path), status=2, CALLBOARD_PORT="eight")

        assert "CALLBOARD_PORT" in message


@pytest.mark.parametrize("way", ["wheel", "process"])
def test_a_state_folder_that_is_deleted_under_it_is_noticed_and_nothing_is_accepted(tmp_path, way):
    state, moved = tmp_path / "state", tmp_path / "moved"
    with Up(state, "--port", "0", "--workers", "1", CALLBOARD_EMBEDDED=way) as up:
        up.ask("assistant", "Hello")
        state.rename(moved)

        up.wait_for("was deleted or moved while `up` runs; nothing is accepted")
        refused = []
        for path, body in (("/health", None), ("/v1/runs", b'{"agent": "assistant", "input": "Hello"}')):
            request = urllib.request.Request(up.address + path, body, {"Content-Type": "application/json"})
            with pytest.raises(urllib.error.HTTPError) as answered:
                urllib.request.urlopen(request, timeout=30)
            problem = json.load(answered.value)
            refused.append((answered.value.code, problem.get("code") or problem["database"]))
        shutil.rmtree(state, ignore_errors=True)  # the log of `up`
        moved.rename(state)
        up.wait_for("is back.")
        end = up.ask("assistant", "Hello")
        up.stop()

    assert refused == [(503, "state_dir_gone")] * 2
    assert end["status"] == "succeeded"
    assert not [line for line in up.lines if "Traceback" in line]
