"""The command line of a container, and what is removed when its worker and its guard are gone."""

import asyncio
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.tools.call_context import enter_call
from agents.tools.isolation.errors import IMAGE_MISSING, CapabilityFailed
from agents.tools.isolation.guarded import ProcessLimits
from agents.tools.runners.calling import result_of
from agents.tools.runners.container import (
    Container,
    ContainerRunner,
    container_argv,
    container_name,
    remove_lost_containers,
)
from config.settings.container_engine import engine_of, engine_variables, is_image
from tests.agents.tools.runners.machines import containers
from tests.raising import raises


def made(text):
    engine = engine_of(text)
    assert engine is not None
    return engine


PODMAN = made("podman --runtime runc")
DOCKER = made("/usr/bin/docker")


def argv(engine=PODMAN, variables=("TOKEN",), **fields):
    return container_argv(engine, Container(image="tools/count:1.0", **fields), "callboard-1-a", variables, 65)


def test_the_whole_isolation_is_one_list_of_words():
    words = argv(limits=ProcessLimits(memory_mb=64, processes=8), environment={"UNIT": "cm"}, command=("/count", "-v"))

    assert " ".join(words) == (
        "podman --runtime runc run --rm --interactive --name callboard-1-a --pull never --log-driver none "
        "--network none --read-only --tmpfs /tmp:rw,noexec,nosuid,nodev,mode=1777,size=64m --cap-drop ALL "
        "--security-opt no-new-privileges --user 65534:65534 --memory 64m --memory-swap 64m --pids-limit 8 "
        "--ulimit cpu=60:60 --ulimit core=0:0 --ulimit nproc=1024:1024 --ulimit nofile=256:256 "
        "--read-only-tmpfs=false --http-proxy=false --timeout 125 --env UNIT=cm --env TOKEN "
        "-- tools/count:1.0 /count -v"
    )


def test_docker_gets_no_option_of_podmans():
    assert "--timeout" not in argv(DOCKER)
    assert "--http-proxy=false" not in argv(DOCKER)


def test_a_network_is_given_only_where_it_is_asked_for():
    assert argv()[argv().index("--network") + 1] == "none"
    assert "--network" not in argv(has_network=True)


@pytest.mark.parametrize("fields", [{}, {"has_network": True}, {"environment": {"A": "-v /:/host"}}])
def test_nothing_of_the_machine_is_given_to_a_container(fields):
    before = argv(**fields)[: argv(**fields).index("--")]

    mounting = {
        "-v",
        "--volume",
        "--mount",
        "--volumes-from",
        "--device",
        "--privileged",
        "--pid",
        "--ipc",
        "--cap-add",
    }
    assert not any(word in mounting or word.partition("=")[0] in mounting for word in before)


@given(st.text(max_size=40), st.lists(st.text(max_size=20), max_size=4))
def test_what_a_file_says_stands_behind_the_options(image, command):
    words = container_argv(PODMAN, Container(image=image, command=command), "callboard-1-a", (), 65)

    assert words[words.index("--") + 1 :] == [image, *command]


@pytest.mark.parametrize(
    "name", ["busybox", "busybox:1.36", "registry.example.org:5000/team/tool:v1", "a/b@sha256:" + "0" * 64]
)
def test_an_image_is_named_as_registries_name_it(name):
    assert is_image(name)


NO_IMAGES = (
    "-v --privileged busybox;id ../image /etc busybox: a//b a@sha256:0 BusyBox oci:/tmp busybox$(id) ｂusybox dir:/etc"
)


@pytest.mark.parametrize("name", ["", "busy box", "busybox\n", "a" * 301, *NO_IMAGES.split()])
def test_what_is_no_images_name_is_refused(name):
    assert not is_image(name)


@pytest.mark.parametrize("text", ["rm -rf /", "./podman", "podmann", "sudo podman", "podman; id"])
def test_an_engine_is_podman_or_docker(text):
    with pytest.raises(ValueError, match="podman or docker"):
        engine_of(text)


def test_the_engine_gets_no_key_of_the_worker():
    environment = {"OPENAI_API_KEY": "x", "HOME": "/root", "DOCKER_HOST": "unix:///run/docker.sock", "LD_PRELOAD": "x"}

    assert engine_variables(environment).keys() == {"HOME", "DOCKER_HOST"}


@pytest.mark.parity
@pytest.mark.timeout(120)
class TestRealContainers:
    """With podman and an image of busybox."""

    @pytest.fixture
    def inside(self, context):
        enter_call(context)
        return context

    def run(self, engine, *command, image="callboard-test:1", **fields):
        box = Container(image=image, command=command, **fields)
        return asyncio.run(ContainerRunner(engine=engine_of(engine), container=box).run(box, b"{}"))

    def test_an_image_that_is_not_there_is_named(self, engine, inside):
        with raises(IMAGE_MISSING, match=r"tools/gone:1\.0 is not on the worker's machine"):
            self.run(engine, "/bin/true", image="tools/gone:1.0")

        assert containers(engine) == []

    @pytest.mark.parametrize(
        ("script", "outcome"),
        [
            ("id -u", "65534"),
            ("touch /x", "Read-only file system"),
            ("touch /etc/x", "Read-only file system"),
            ("ls /sys/class/net", "lo"),
            ("touch /tmp/x && ls /tmp", "x"),
            ("echo '#!/bin/sh' > /tmp/run.sh; chmod +x /tmp/run.sh; /tmp/run.sh", "Permission denied"),
        ],
    )
    def test_what_a_container_can_do(self, engine, inside, script, outcome):
        done = self.run(engine, "/bin/busybox", "sh", "-c", f"export PATH=/bin; alias chmod='busybox chmod'; {script}")

        assert outcome in (done.output.decode() + done.errors)

    def test_more_memory_than_allowed_ends_it(self, engine, inside):
        limits = ProcessLimits(memory_mb=16)

        done = self.run(engine, "/bin/sh", "-c", "x=a; while true; do x=$x$x; done", limits=limits)

        assert done.code != 0

    def test_a_container_that_a_lost_worker_left_is_removed(self, engine):
        late, young = container_name("a", -1000), container_name("b", 1000)
        for name in (late, young, "neighbour"):
            left = [*engine.split(), "create", "--name", name, "callboard-test:1", "/bin/true"]
            subprocess.run(left, check=True, capture_output=True)

        assert remove_lost_containers(made(engine)) == [late]
        assert sorted(containers(engine)) == sorted([young, "neighbour"])

        remove_lost_containers(made(engine), time.time() + 5000)
        subprocess.run([*engine.split(), "rm", "neighbour"], check=True, capture_output=True)

    def test_an_engine_that_is_not_there_is_no_traceback(self, inside):
        assert remove_lost_containers(made("/nowhere/podman")) == []

        done = self.run("/nowhere/podman", "x")
        with pytest.raises(CapabilityFailed, match="there is no program '/nowhere/podman'"):
            result_of(done, 1000)
