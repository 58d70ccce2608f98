import contextlib
import io
import re
import subprocess
import sys

import pytest

from cli.supervisor import output as module
from cli.supervisor.output import Output
from config.folders import ROOT
from tests.full_disk import full_disk

WARNING = "2026-11-20T12:00:00Z WARNING worker-1 it is late"


class Refusing(io.TextIOBase):
    """A terminal that went away."""

    def __init__(self, error):
        self.error = error

    def write(self, text):
        raise self.error

    def flush(self):
        raise self.error


@pytest.fixture
def log(tmp_path):
    return tmp_path / "logs" / "up.log"


@pytest.fixture
def output(log):
    output = Output(log, verbose=False)
    yield output
    output.close()


def test_every_line_is_in_the_log_and_warnings_are_on_the_terminal(output, log, capsys):
    output("worker-1", "it is early")
    output("worker-1", WARNING)

    assert log.read_text().splitlines() == ["worker-1  it is early", f"worker-1  {WARNING}"]
    assert capsys.readouterr().err == f"worker-1  {WARNING}\n"


class TestATerminalThatCannotBeWritten:
    WRONGS = (BrokenPipeError(32, "Broken pipe"), OSError(5, "Input/output error"), ValueError("closed file"))

    @pytest.mark.parametrize("error", WRONGS, ids=lambda error: type(error).__name__)
    def test_is_no_reason_to_stop_and_the_log_has_the_lines(self, output, log, monkeypatch, error):
        monkeypatch.setattr(sys, "stderr", Refusing(error))
        monkeypatch.setattr(sys, "stdout", Refusing(error))

        output("worker-1", WARNING)
        output.say("Callboard is up")
        output.note("stopping")
        output.warn("everything runs in one process")

        names, times, lines = zip(*(line.split(maxsplit=2) for line in log.read_text().splitlines()), strict=True)
        assert names == ("worker-1", "up", "up", "up")
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", time) for time in times)
        assert lines == (
            WARNING.split(maxsplit=1)[1],
            "Callboard is up",
            "stopping",
            "WARNING everything runs in one process",
        )

    def test_is_tried_again_with_the_next_line(self, output, monkeypatch, capsys):
        with monkeypatch.context() as gone:
            gone.setattr(sys, "stderr", Refusing(OSError(28, "No space left on device")))
            output("worker-1", WARNING)

        output("worker-2", WARNING)

        assert capsys.readouterr().err == f"worker-2  {WARNING}\n"

    @pytest.mark.parity
    def test_does_not_change_how_the_process_ends(self, log):
        code = (
            "from pathlib import Path; from cli.supervisor.output import Output\n"
            f"output = Output(Path({str(log)!r}), verbose=True)\n"
            "output.say('here'); output.warn('here'); output.close()"
        )

        with open("/dev/full", "w") as full:
            ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=full, stderr=full, check=False)

        assert ended.returncode == 0


class TestALogThatCannotBeWritten:
    def test_is_said_once_in_one_sentence_until_it_can_be_again(self, output, log, capsys):
        output("worker-1", "one")
        with full_disk(log):
            for _ in range(3):
                output("worker-1", "lost")
            first = capsys.readouterr().err
        output("worker-1", "two")
        with full_disk(log):
            output("worker-1", "lost")

        sentence = f"warning: {log} cannot be written (File too large); free space, or lines will be missing.\n"
        assert first == sentence
        assert capsys.readouterr().err == sentence

    def test_is_written_again_when_there_is_room_and_no_line_is_torn(self, output, log):
        output("worker-1", "one")
        with full_disk(log, room_for=5):
            output("worker-1", "cut in the middle")
            output("worker-1", "lost")

        output("worker-1", "two")

        assert log.read_text().splitlines() == ["worker-1  one", "worker-1  two"]

    def test_keeps_no_warning_from_the_terminal(self, output, log, capsys):
        with full_disk(log):
            output("worker-1", WARNING)

        assert capsys.readouterr().err.splitlines()[1:] == [f"worker-1  {WARNING}"]

    def test_is_written_again_after_a_rollover_that_failed(self, log, monkeypatch, capsys):
        monkeypatch.setattr(module, "MAX_LOG_BYTES", 40)
        log.parent.mkdir()
        log.with_name("up.log.2").write_text("older")
        in_the_way = log.with_name("up.log.3")
        in_the_way.mkdir()
        with contextlib.closing(Output(log, verbose=False)) as output:
            output("worker-1", "it is early")
            output("worker-1", "lost, for the file is long enough")
            in_the_way.rmdir()

            output("worker-1", "it is late, and the file is new")

        assert log.read_text() == "worker-1  it is late, and the file is new\n"
        assert log.with_name("up.log.1").read_text() == "worker-1  it is early\n"
        assert capsys.readouterr().err.count("cannot be written") == 1

    def test_does_not_keep_it_from_being_closed(self, log):
        output = Output(log, verbose=False)

        with full_disk(log):
            output("worker-1", "lost")
            output.close()

        assert log.read_text() == ""
