import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from cli.commands import up
from cli.supervisor.liveness_pipe import ChildPipe
from cli.supervisor.output import Output
from cli.supervisor.supervisor import CHILD_HOPELESS, MAX_LINE_BYTES, Child, ChildSpec, Supervisor, pause_s
from config.clock import utc_now
from tests.raising import raises

pytestmark = pytest.mark.parity


class Lines:
    """A sink one can wait on."""

    def __init__(self):
        self.seen = []
        self._changed = threading.Condition()

    def __call__(self, name, line):
        with self._changed:
            self.seen.append((name, line))
            self._changed.notify_all()

    def wait_for(self, text, times=1):
        with self._changed:
            is_present = self._changed.wait_for(lambda: sum(text in line for _, line in self.seen) >= times, timeout=20)
        assert is_present, self.seen


@pytest.fixture
def lines():
    return Lines()


@contextmanager
def supervising(sink):
    supervisor = Supervisor(sink)
    yield supervisor
    supervisor.stop(grace_s=0)


@pytest.fixture
def supervisor(lines):
    with supervising(lines) as supervisor:
        yield supervisor


class Unwritable(Lines):
    """A sink whose lines can be waited for and cannot be shown."""

    def __call__(self, name, line):
        super().__call__(name, line)
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def unwritable():
    return Unwritable()


@pytest.fixture
def unseen(unwritable):
    with supervising(unwritable) as supervisor:
        yield supervisor


def python(code, **more):
    return ChildSpec(name=more.pop("name", "child"), argv=(sys.executable, "-uc", code), **more)


SLEEP = "print('here', flush=True); import time; time.sleep(600)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] != "Z"


def test_a_killed_child_is_started_again(supervisor, lines):
    child = supervisor.keep(python(SLEEP))
    lines.wait_for("here")
    first = child.process.pid

    os.kill(first, signal.SIGKILL)

    lines.wait_for("here", times=2)
    assert child.process.pid != first
    lines.wait_for("ended (SIGKILL); starting it again")


def test_what_a_dead_child_had_started_goes_with_it(supervisor, lines):
    grandchildren = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    )
    code = f"{grandchildren}; print('grandchild', p.pid, flush=True); {SLEEP}"
    child = supervisor.keep(python(code))
    lines.wait_for("here")
    grandchild = int(next(line for _, line in lines.seen if "grandchild" in line).split()[1])

    os.kill(child.process.pid, signal.SIGKILL)
    lines.wait_for("here", times=2)

    assert not is_alive(grandchild)


def test_stop_ends_children_by_sigterm_and_does_not_start_them_again(supervisor, lines):
    polite = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: (print('drained', flush=True), sys.exit(0)))"
    child = supervisor.keep(python(f"{polite}; {SLEEP}"))
    lines.wait_for("here")

    supervisor.stop(grace_s=20)

    assert child.process.returncode == 0
    assert ("child", "drained") in lines.seen
    assert not any("starting it again" in line for _, line in lines.seen)


def test_a_child_that_does_not_listen_is_killed_after_the_grace(supervisor, lines):
    child = supervisor.keep(python(DEAF))
    lines.wait_for("here")

    supervisor.stop(grace_s=0.2)

    assert child.process.returncode == -signal.SIGKILL


def test_servers_end_after_those_that_use_them(supervisor, lines):
    goodbye = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(0)))"
    for name in ("redis", "worker-1"):
        supervisor.keep(python(f"{goodbye}; {SLEEP}", name=name))
    lines.wait_for("here", times=2)

    supervisor.stop(grace_s=20)

    assert [name for name, line in lines.seen if line == "bye"] == ["worker-1", "redis"]


def test_an_essential_child_that_never_lives_is_given_up_with_what_it_said(supervisor, lines):
    child = supervisor.keep(python("print('no module named web.app'); raise SystemExit(3)"))
    lines.wait_for("starting it again", times=3)

    with raises(CHILD_HOPELESS, match="no module named web"):
        child.raise_if_hopeless()


def test_a_child_that_is_not_essential_is_tried_for_ever(supervisor, lines):
    child = supervisor.keep(python("raise SystemExit(3)", essential=False))
    lines.wait_for("starting it again", times=3)

    child.raise_if_hopeless()


def test_children_die_with_a_supervisor_that_is_killed(tmp_path):
    code = (
        "import sys, time\n"
        "from cli.supervisor.supervisor import ChildSpec, Supervisor\n"
        "s = Supervisor(lambda n, l: print(l, flush=True))\n"
        "code = 'import os, time; print(os.getpid(), flush=True); time.sleep(600)'\n"
        "s.keep(ChildSpec(name='c', argv=(sys.executable, '-uc', code)))\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    watched = os.pidfd_open(child)

    parent.kill()
    parent.wait()

    import select

    assert select.select([watched], [], [], 20)[0], "the child outlived its supervisor"
    os.close(watched)
    parent.stdout.close()


class TestASinkThatFails:
    """A terminal that cannot be written to is no reason to stop supervising."""

    def test_a_killed_child_is_started_again(self, unseen, unwritable):
        child = unseen.keep(python(SLEEP))
        unwritable.wait_for("here")
        first = child.process.pid

        os.kill(first, signal.SIGKILL)

        unwritable.wait_for("here", times=2)
        assert child.process.pid != first

    def test_a_child_that_cannot_be_started_is_tried_again(self, unseen, unwritable):
        unseen.keep(ChildSpec(name="child", argv=("/nowhere/none",), before=self.refuse))

        unwritable.wait_for("could not be started", times=2)

    def test_a_child_that_writes_is_read_to_the_end(self, unseen, unwritable):
        child = unseen.keep(python(f"print('one'); print('two'); {SLEEP}"))

        unwritable.wait_for("here")

        assert list(child.tail) == ["one", "two", "here"]

    def test_a_silent_child_is_ended_and_started_again(self, unseen, unwritable):
        unseen.keep(python(SLEEP, silence_s=60.0, start_s=1.0))

        unwritable.wait_for("gave no sign of life for 1 s")

        unwritable.wait_for("here", times=2)

    def refuse(self, child):
        raise OSError(errno.EAGAIN, "no")


class TestPulse:
    """A child that gives no sign of life is ended and started again; no other is."""

    BEAT = "import os, signal, time; beat = lambda: os.write(int(os.environ['_PULSE_PIPE'].split(':')[0]), b'.'); "

    def test_a_child_that_is_stopped_is_ended_and_started_again(self, supervisor, lines):
        code = self.BEAT + "beat(); print('here', flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
        child = supervisor.keep(python(code, silence_s=1.0))
        lines.wait_for("here")
        first = child.process.pid

        lines.wait_for("here", times=2)

        lines.wait_for("child gave no sign of life for 1 s; it is ended and started again")
        assert not is_alive(first)
        assert not any("starting it again" in line for _, line in lines.seen), "one line says it"

    def test_a_child_that_never_gives_a_sign_is_given_its_time_to_start(self, supervisor, lines):
        supervisor.keep(python(SLEEP, silence_s=60.0, start_s=1.0))

        lines.wait_for("here", times=2)

        lines.wait_for("gave no sign of life for 1 s")

    def test_bytes_that_came_while_the_supervisor_was_stopped_count(self):
        pipe = ChildPipe()
        os.write(pipe.write_end, b"..")
        pipe.close_write_end()  # and no other process has it: the child is gone
        received = threading.Event()

        silent = pipe.listen(1.0, 60.0, received.set)

        assert received.is_set()
        assert not silent, "it ended; that is no silence"

    def test_the_first_byte_is_noticed_where_a_start_may_take_as_long_as_a_silence(self):
        pipe = ChildPipe()
        os.write(pipe.write_end, b".")
        pipe.close_write_end()
        received = threading.Event()

        pipe.listen(120.0, 120.0, received.set)

        assert received.is_set()

    def test_a_child_that_was_ready_is_never_given_up(self, supervisor, lines):
        child = supervisor.keep(python(self.BEAT + "beat(); raise SystemExit(3)", silence_s=60.0))

        lines.wait_for("starting it again", times=4)

        child.raise_if_hopeless()

    def test_no_life_leaves_a_descriptor_behind(self, supervisor, lines):
        before = len(os.listdir("/proc/self/fd"))
        child = supervisor.keep(python(self.BEAT + "beat(); raise SystemExit(3)", silence_s=60.0))
        lines.wait_for("starting it again", times=4)

        supervisor.stop(grace_s=5)

        assert child.wait(5)
        until = time.monotonic() + 10
        while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < until:
            time.sleep(0.05)  # the listener's thread closes its end, soon
        assert len(os.listdir("/proc/self/fd")) <= before


def test_what_was_ready_is_started_again_within_a_second_however_often_it_dies():
    assert [pause_s(deaths, was_ready=True) for deaths in range(9)] == [0, 0, 0.1, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]
    assert pause_s(9, was_ready=False) == 5.0


def test_a_second_signal_does_not_wait_for_the_grace(supervisor, lines):
    child = supervisor.keep(python(DEAF))
    lines.wait_for("here")
    supervisor.stop_asked.set()
    supervisor.hurry.set()

    supervisor.stop(grace_s=600)

    assert child.process.returncode == -signal.SIGKILL


def test_a_child_that_cannot_be_started_is_not_said_to_have_ended(supervisor, lines):
    def refuse(_child: Child) -> None:
        raise OSError(errno.EAGAIN, "no more processes")

    supervisor.keep(ChildSpec(name="child", argv=(sys.executable,), before=refuse))

    lines.wait_for("WARNING child could not be started: [Errno 11] no more processes", times=2)
    assert datetime.fromisoformat(lines.seen[0][1].split()[0]) <= utc_now(), "a line has its time"

    assert [line for _, line in lines.seen if "ended" in line] == []


def test_a_line_without_an_end_is_passed_on_in_pieces(supervisor, lines):
    endless = "import sys, time; sys.stdout.write('x' * 200_000); sys.stdout.flush(); time.sleep(60)"

    supervisor.keep(ChildSpec(name="child", argv=(sys.executable, "-c", endless)))

    lines.wait_for("x" * MAX_LINE_BYTES, times=3)


class StopAtWarning(Output):
    """An output whose first warning ends the wait."""

    def __init__(self, log: Path, supervisor: Supervisor) -> None:
        super().__init__(log, verbose=False)
        self._supervisor = supervisor

    def warn(self, sentence: str) -> None:
        super().warn(sentence)
        self._supervisor.stop_asked.set()


def test_up_does_not_call_a_page_up_that_does_not_answer(monkeypatch, capsys, tmp_path, lines):
    monkeypatch.setattr(up, "SLOW_PAGE_S", 0.05)
    supervisor, web = Supervisor(lines), Child(ChildSpec(name="web", argv=()), lines)
    with socket.socket() as closed, closing(StopAtWarning(tmp_path / "up.log", supervisor)) as output:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"

        is_up = up.wait_for_page(address, web, supervisor, output)

    assert not is_up
    assert not web.ready.is_set()
    assert "the page does not answer after 0.05 s; see " in capsys.readouterr().err
