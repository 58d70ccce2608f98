"""What a program of the machine may use, and what it sees of the worker."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from agents.tools.call_context import enter_call
from agents.tools.isolation import guard
from agents.tools.isolation.call_folder import CallFolder, CallSandbox, labels_of, remove_lost_folders
from agents.tools.isolation.errors import CapabilityFailed
from agents.tools.isolation.guarded import ProcessLimits
from agents.tools.runners.calling import ProcessRunner
from config.errors import ToolCutOff
from config.tracing import trace_id_of, traced
from tests.agents.tools.runners.machines import eventually, processes_with

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]


@pytest.fixture
def run(context):
    """Execute Python code as a capability's program."""

    def run(code, *words, call=context, **limits):
        command = words or (sys.executable, "-I", "-S", "-c", code)
        folders = context.sandbox.parent / "calls"
        runner = ProcessRunner(folders=folders, command=command, limits=ProcessLimits(**limits))

        async def called():
            enter_call(call)
            return await runner.call(a=1)

        return asyncio.run(called())

    return run


HERE = "import os, json; home, sandbox = os.environ['HOME'], os.environ['CALLBOARD_SANDBOX']"


def test_it_knows_the_sandbox_and_may_write_there(run, context):
    assert run(f"{HERE}; open(f'{{sandbox}}/note.txt', 'w').write('x'); print(json.dumps(sandbox))") == str(
        context.sandbox
    )
    assert (context.sandbox / "note.txt").read_text() == "x"


def test_labels_follow_what_it_may_write_and_read_there(run, context):
    CallSandbox(context.sandbox, {"sensitive"}).for_writing()
    call = replace(context, files=CallSandbox(context.sandbox, {"untrusted"}))

    run("print(1)", call=call)

    assert call.files.labels_read() == labels_of(context.sandbox) == {"sensitive", "untrusted"}


def test_home_and_working_folder_are_its_own_and_are_gone_with_it(run, context):
    code = f"{HERE}; print(json.dumps([home, os.getcwd(), os.listdir(home), os.listdir()]))"
    leave = "os.makedirs(f'{home}/a/b'); os.chmod(f'{home}/a', 0); os.symlink(sandbox, 'away'); open('x', 'w')"
    (context.sandbox / "kept").touch()

    home, work, *contents = run(code.replace("print", f"{leave}; print", 1).replace("os.listdir()", "[]", 1))
    again = run(code)

    assert contents == [["a"], []]
    assert again[2:] == [[], []]
    assert len({home, work, *again[:2]}) == 4
    assert not any(Path(folder).is_relative_to(context.sandbox) for folder in (home, work))
    assert os.listdir(context.sandbox.parent / "calls") == []
    assert (context.sandbox / "kept").exists()


@pytest.mark.parametrize("words", [("a\0b",), ("/nowhere/program",)])
def test_a_program_that_does_not_begin_leaves_no_folder(run, context, words):
    with pytest.raises(CapabilityFailed):
        run("", *words)

    assert os.listdir(context.sandbox.parent / "calls") == []


def test_folders_of_lost_workers_are_removed_when_their_time_is_over(tmp_path):
    call_folder = CallFolder(tmp_path / "calls", wall_s=1000).__enter__()
    lost = CallFolder(tmp_path / "calls", wall_s=10).__enter__()
    (lost.home / "x").touch()
    (tmp_path / "calls" / "not-ours").mkdir()

    assert remove_lost_folders(tmp_path / "nowhere") == []
    assert remove_lost_folders(tmp_path / "calls") == []
    assert remove_lost_folders(tmp_path / "calls", time.time() + 100) == [lost.path.name]
    assert sorted(os.listdir(tmp_path / "calls")) == [call_folder.path.name, "not-ours"]


def test_more_memory_than_allowed_is_a_failure(run):
    with pytest.raises(CapabilityFailed, match="MemoryError"):
        run("x = bytearray(500_000_000); print(1)", memory_mb=200)


def test_a_longer_file_than_allowed_is_a_failure(run):
    with pytest.raises((CapabilityFailed, ToolCutOff), match=r"File too large|signal 25"):
        run("f = open('big', 'wb'); f.write(bytes(3_000_000)); f.flush(); print(1)", file_mb=1)


def test_more_files_than_allowed_is_a_failure(run):
    with pytest.raises(CapabilityFailed, match="Too many open files"):
        run("kept = [open('/dev/null') for _ in range(100)]; print(1)", files=32)


def test_more_processor_time_than_allowed_ends_it(run):
    began_s = time.monotonic()

    with pytest.raises(ToolCutOff, match="signal"):
        run("while True: pass", cpu_s=1)

    assert time.monotonic() - began_s < 20


def test_hundreds_of_children_end_with_it(run, context):
    code = "import subprocess; kept = [subprocess.Popen(['sleep', '61']) for _ in range(200)]; print(len(kept))"

    assert run(code, processes=1000) == 200
    assert processes_with(f"CALLBOARD_RUN_ID={context.run_id}") == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("a-program-that-is-not-here",), "there is no program 'a-program-that-is-not-here'"),
        (("/etc/passwd",), "cannot be executed"),
        (("/tmp",), "cannot be executed"),
        (("--help",), "there is no program '--help'"),
        (("/bin/sh -c id",), "there is no program"),
    ],
)
def test_a_program_that_cannot_be_executed_is_named(run, words, problem):
    with pytest.raises(CapabilityFailed, match=problem):
        run("", *words)


def test_no_shell_reads_its_words(run, context):
    script = context.sandbox / "show.py"
    script.write_text("import json, sys\nprint(json.dumps(sys.argv[1:]))")

    assert run("", sys.executable, str(script), "$(id)", "`id`", ";", "*") == ["$(id)", "`id`", ";", "*"]


def test_it_inherits_no_file_of_the_worker(run):
    with open(os.devnull) as mine:
        os.set_inheritable(mine.fileno(), True)
        opened = run("import os, json; print(json.dumps(sorted(int(n) for n in os.listdir('/proc/self/fd'))))")

    assert set(opened) <= {0, 1, 2, 3}


# --- the guard alone --------------------------------------------------------------------------------


def start_guard(*command, wall_s=30.0, cleanup=(), parent=None):
    options = {"parent": parent or os.getpid(), "wall_s": wall_s, "limits": {}, "processes": None, "cleanup": cleanup}
    words = [sys.executable, "-I", "-S", guard.__file__, orjson.dumps(options | {"removed": None}).decode(), *command]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def end_of(process):
    with process:
        output, errors = process.communicate(timeout=20)
    return process.returncode, output, errors


def test_the_guard_ends_its_command_when_the_worker_does_not():
    began_s = time.monotonic()

    assert end_of(start_guard("sleep", "61", wall_s=0.3))[0] == 128 + signal.SIGKILL
    assert time.monotonic() - began_s < 10


def test_a_guard_whose_worker_is_gone_begins_nothing(tmp_path):
    assert end_of(start_guard("touch", str(tmp_path / "x"), parent=1))[0] == 128 + signal.SIGKILL
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("script", "is_cleaned"), [("sleep 61", True), ("exit 0", False), ("exit 7", False)])
def test_what_is_left_is_removed_after_an_interruption_alone(tmp_path, script, is_cleaned):
    mark = tmp_path / "removed"
    process = start_guard("/bin/sh", "-c", f"echo; {script}", cleanup=["touch", str(mark)])
    assert process.stdout is not None
    process.stdout.read(1)

    if is_cleaned:
        process.terminate()
    end_of(process)

    assert mark.exists() == is_cleaned


def test_many_signals_at_once_leave_nothing_behind(tmp_path):
    process = start_guard("/bin/sh", "-c", f"echo; CALLBOARD_RUN_ID={tmp_path.name} sleep 61 & wait")
    assert process.stdout is not None
    process.stdout.read(1)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        process.send_signal(number)
    code, _, errors = end_of(process)

    assert code == 128 + signal.SIGKILL
    assert b"Traceback" not in errors
    assert eventually(lambda: not processes_with(f"CALLBOARD_RUN_ID={tmp_path.name}"))


@pytest.mark.parametrize("missing", [("pidfd_open",), ("memfd_create",), ("pidfd_open", "memfd_create")])
def test_a_system_that_offers_less_serves_as_well(run, monkeypatch, missing):
    for name in missing:
        monkeypatch.delattr(f"os.{name}")

    assert run("import sys; print(len(sys.stdin.read()))") == len('{"a":1}')


def test_it_gets_the_trace_and_the_correlation_id_and_outside_of_a_trace_none(run):
    code = (
        "import os, json; print(json.dumps([os.environ.get(n) for n in ('TRACEPARENT', 'CALLBOARD_CORRELATION_ID')]))"
    )
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"

    with traced(trace_id, "order 4711, für Jörg"):
        traceparent, correlation_id = run(code)

    assert (trace_id_of(traceparent), correlation_id) == (trace_id, "order 4711, für Jörg")
    assert run(code) == [None, None]
