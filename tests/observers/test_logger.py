import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.payloads import (
    ApprovalPayload,
    ChildPayload,
    EndPayload,
    ErrorPayload,
    MessagePayload,
    ResponsePayload,
    StatusPayload,
    ToolLogPayload,
    ToolPayload,
    ToolProgressPayload,
    ToolResultPayload,
    UnknownPayload,
    WithdrawnPayload,
)
from config.settings import read_settings
from observers.base import RunFacts
from observers.discovery import observers_for
from observers.invoker import drain
from observers.logfile.record import json_line, record_of, text_line
from observers.logger import SimpleLoggerObserver
from tests.full_disk import full_disk
from tests.observers.conftest import AGENT, AT, Room

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
PEM = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * 20 + "-----END PRIVATE KEY-----"
HOSTILE = (
    'a\nb\r\n\x1b[31mred\x00\u2028\u2029\x85\x0b","type":"end"}\n\ud800\u202e 2026-01-01T00:00:00.000Z  run_forged'
)


def lines_of(logger: SimpleLoggerObserver, folder: Path) -> list[str]:
    logger.close()
    return (folder / "runs-0.log").read_bytes().decode("utf-8").split("\n")[:-1]


def tell_everything(room: Room, text: str) -> int:
    room.tell(StatusPayload, status="running", reason=text, attempt=1)
    room.tell(ResponsePayload, content=text, message_id="msg_1")
    room.tell(ToolPayload, call_id=text, name=text, arguments={text: [text, {"deep": text}]}, effect="pure")
    room.tell(ToolProgressPayload, call_id="c", name=text, done=1.0, total=2.0, message=text)
    room.tell(ToolLogPayload, call_id="c", name=text, level="info", message=text, logger=text, left_out=2)
    room.tell(ToolResultPayload, call_id="c", name="t", outcome="done", result={"rows": [text]}, duration_ms=3)
    room.tell(ApprovalPayload, approval_id="a", name="t", arguments={"x": text})
    room.tell(ApprovalPayload, approval_id="a", decision="approve", by=text)
    room.tell(ChildPayload, child_run_id="r", agent=text, status="queued")
    room.tell(ErrorPayload, code="model_failed", message=text, attempt=1, retry_in_ms=5)
    room.tell(UnknownPayload, unknown_type="later", extra={"text": text, "run_id": "forged"})
    room.tell(MessagePayload, role="assistant", content=text, reasoning=text, message_id="msg_1")
    room.tell(EndPayload, status="failed", reason=text, output={"text": text}, cost_usd=float("nan"))
    return room.seq


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("deltas", [False, True])
def test_a_record_is_one_line_whatever_it_holds(tmp_path: Path, as_json: bool, deltas: bool) -> None:
    logger = SimpleLoggerObserver(tmp_path, as_json=as_json, deltas=deltas)
    room = Room(logger)

    count = tell_everything(room, HOSTILE)
    assert drain(10) == []

    lines = lines_of(logger, tmp_path)
    assert len(lines) == (count if deltas else count - 1)
    for line in lines:
        assert len(line.splitlines()) == 1
        assert line.isprintable()
        assert room.context.run_id in line[:80]
        if as_json:
            record = json.loads(line)
            assert (record["run_id"], record["agent_id"]) == (room.context.run_id, "assistant")


@given(text=st.text(st.characters(), max_size=60), name=st.text(st.characters(), min_size=1, max_size=20))
def test_any_text_makes_one_line_that_can_be_read_again(text: str, name: str) -> None:
    payload = ToolPayload(seq=1, at=AT, call_id="call_1", name=name, arguments={name: text, "list": [text]})

    record = record_of(AGENT, payload, Room().context)
    readable, machine = text_line(record), json_line(record)

    assert len(readable.splitlines()) == len(machine.splitlines()) == 1
    readable.encode()
    assert machine.isascii()
    assert json.loads(machine)["name"] == record["name"]


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("secret", [SECRET, PEM, "Bearer abcdefgh12345678", "api_key='Zx9-hidden-value'"])
def test_secrets_are_replaced_wherever_they_stand(tmp_path: Path, as_json: bool, secret: str) -> None:
    logger = SimpleLoggerObserver(tmp_path, as_json=as_json, deltas=True)
    room = Room(logger)

    tell_everything(room, f"see {secret} there")
    assert drain(10) == []

    text = "\n".join(lines_of(logger, tmp_path))
    for part in ("abcdefgh", "MIIEvQ", "Zx9-hidden"):
        assert part not in text
    assert "[redacted]" in text


def test_a_secret_is_known_by_the_name_of_its_field() -> None:
    payload = ToolPayload(
        seq=1, at=AT, call_id="c", name="login", arguments={"user": "ann", "password": "correct-horse"}
    )

    record = record_of(AGENT, payload, Room().context)

    assert record["arguments"] == {"user": "ann", "password": "[redacted]"}


@pytest.mark.parametrize("secret", [SECRET, PEM, "Bearer abcdefgh12345678"])
@pytest.mark.parametrize("size", [1, 7, 50])
@pytest.mark.parametrize("before", [0, 230, 500, 700])
def test_a_secret_in_pieces_is_replaced_too(tmp_path: Path, secret: str, size: int, before: int) -> None:
    logger = SimpleLoggerObserver(tmp_path, deltas=True)
    room = Room(logger)
    text = "word " * (before // 5) + secret + " and more words" * 60

    for start in range(0, len(text), size):
        room.tell(ResponsePayload, content=text[start : start + size], message_id="msg_1")
    room.tell(EndPayload, status="succeeded")
    assert drain(10) == []

    written = "\n".join(lines_of(logger, tmp_path))
    assert "abcdefgh" not in written
    assert "MIIEvQ" not in written
    assert written.count("[redacted]") == 1
    assert len(re.findall(r"\bword\b", written)) == before // 5
    assert len(re.findall(r"\bwords\b", written)) == 60


def test_pieces_are_written_while_the_message_is_still_made(tmp_path: Path) -> None:
    logger = SimpleLoggerObserver(tmp_path, deltas=True)
    room = Room(logger)

    for _ in range(400):
        room.tell(ResponsePayload, content="word ", message_id="msg_1")
    assert drain(10) == []
    early = (tmp_path / "runs-0.log").read_text().count("word ")
    room.tell(WithdrawnPayload, ranges=[[1, 400]])
    assert drain(10) == []

    lines = lines_of(logger, tmp_path)
    assert early > 300
    assert sum(line.count("word") for line in lines) == early
    assert "1-400" in lines[-1]


def test_a_line_for_a_person_has_columns(tmp_path: Path) -> None:
    logger = SimpleLoggerObserver(tmp_path)
    room = Room(logger)

    room.tell(ToolPayload, call_id="call_1", name="calculator", arguments={"expression": "17 * 23"}, effect="pure")
    assert drain(10) == []

    (line,) = lines_of(logger, tmp_path)
    words = [AT, room.context.run_id, "1", "assistant", "tool", 'calculator(expression="17 * 23") [pure]']
    assert re.split(r" {2,}", line) == [*words, "(call=call_1)"]


def test_a_message_that_only_calls_tools_is_a_line_for_a_person_too(tmp_path: Path) -> None:
    logger = SimpleLoggerObserver(tmp_path)
    room = Room(logger)
    call = {"call_id": "call_1", "name": "calculator", "arguments": {"expression": "17 * 23"}}

    room.tell(MessagePayload, role="assistant", reasoning="A sum.", tool_calls=[call, call])
    assert drain(10) == []

    (line,) = lines_of(logger, tmp_path)
    call_text = 'calculator(expression="17 * 23")'
    assert line.endswith(f"assistant: <thought: A sum.> <calls: {call_text}; {call_text}>")


def test_huge_and_deep_values_are_bounded() -> None:
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    result = {"text": "x" * 1_000_000, "list": list(range(5000)), "deep": deep, "number": 1 << 50_000}
    payload = ToolResultPayload(seq=1, at=AT, call_id="c", name="t", outcome="done", result=result)

    record = record_of(AGENT, payload, Room().context)

    assert len(json_line(record)) < 100_000
    assert "934464 more characters" in record["result"]["text"]


def test_full_files_are_set_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    logger = SimpleLoggerObserver(tmp_path, max_bytes=2000, keep=3)
    room = Room(logger)

    for _ in range(100):
        room.tell(StatusPayload, status="running", reason="x" * 100)
        assert drain(10) == []
    logger.close()

    names = sorted(path.name for path in tmp_path.glob("*.log*"))
    assert names == ["runs-0.log", "runs-0.log.1", "runs-0.log.2"]
    assert all((tmp_path / name).stat().st_size <= 2000 for name in names)


@pytest.mark.parametrize("gone", ["deleted", "moved", "folder"])
def test_a_file_that_was_deleted_is_created_again(tmp_path: Path, gone: str) -> None:
    folder = tmp_path / "logs"
    logger = SimpleLoggerObserver(folder)
    room = Room(logger)
    room.tell(StatusPayload, status="running")
    assert drain(10) == []

    if gone == "folder":
        folder.rename(tmp_path / "old")
    elif gone == "moved":
        (folder / "runs-0.log").rename(folder / "saved")
    else:
        (folder / "runs-0.log").unlink()
    room.tell(EndPayload, status="succeeded")
    assert drain(10) == []

    (line,) = lines_of(logger, folder)
    assert "succeeded" in line


def test_a_full_disk_costs_one_warning_and_is_made_up_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.symlink("/dev/full", tmp_path / "runs-0.log")
    logger = SimpleLoggerObserver(tmp_path)
    room = Room(logger)

    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            room.tell(StatusPayload, status="running")
            assert drain(10) == []
        (tmp_path / "runs-0.log").unlink()
        room.tell(EndPayload, status="succeeded")
        assert drain(10) == []

    assert [line.split()[2] for line in lines_of(logger, tmp_path)] == ["1", "2", "3", "4", "5", "6"]
    assert ["cannot write" in r.getMessage() for r in caplog.records] == [True, False]
    assert "0 lines were lost" in caplog.records[1].getMessage()


def test_what_a_full_disk_keeps_waiting_is_bounded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("observers.logger.MAX_PENDING", 1000)
    os.symlink("/dev/full", tmp_path / "runs-0.log")
    logger = SimpleLoggerObserver(tmp_path)
    room = Room(logger)

    for _ in range(50):
        room.tell(StatusPayload, status="running")
    assert drain(10) == []
    (tmp_path / "runs-0.log").unlink()
    room.tell(EndPayload, status="succeeded")
    assert drain(10) == []

    numbers = [int(line.split()[2]) for line in lines_of(logger, tmp_path)]
    assert numbers == list(range(numbers[0], 52))
    assert numbers[0] > 40
    assert f"{numbers[0] - 1} lines were lost" in caplog.text


def test_a_write_cut_off_by_the_system_leaves_whole_lines(tmp_path: Path) -> None:
    logger = SimpleLoggerObserver(tmp_path)
    room = Room(logger)
    room.tell(StatusPayload, status="running")
    assert drain(10) == []

    with full_disk(tmp_path / "runs-0.log", room_for=20):  # of the next write the first bytes fit
        room.tell(StatusPayload, status="running", reason="second")
        assert drain(10) == []
        first = (tmp_path / "runs-0.log").read_text()
    room.tell(EndPayload, status="succeeded")
    assert drain(10) == []

    assert first.count("\n") == 1
    assert first.endswith("\n")
    assert [line.split()[2] for line in lines_of(logger, tmp_path)] == ["1", "2", "3"]


def test_a_line_torn_by_a_dead_process_stays_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "runs-0.log").write_text("2026-11-20T12:00:0")
    logger = SimpleLoggerObserver(tmp_path)

    Room(logger).tell(EndPayload, status="succeeded")
    assert drain(10) == []

    torn, whole = lines_of(logger, tmp_path)
    assert torn == "2026-11-20T12:00:0"
    assert whole.startswith(AT)


HOLDER = """
import sys; from pathlib import Path
from observers.logfile.rotated_file import LogSlot
slot = LogSlot(Path(sys.argv[1])); print(slot.path().name, flush=True); sys.stdin.readline()
"""


@pytest.mark.parity
def test_each_process_has_a_slot_and_a_dead_one_leaves_it(tmp_path: Path) -> None:
    children: list[subprocess.Popen[str]] = []

    def start() -> str:
        child = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": "."},
        )
        children.append(child)
        assert child.stdout is not None
        return child.stdout.readline().strip()

    try:
        names = [start(), start()]
        children[0].kill()
        children[0].wait()
        names.append(start())
    finally:
        for child in children:
            child.kill()
            child.communicate()

    assert names == ["runs-0.log", "runs-1.log", "runs-0.log"]


def test_settings_say_where_and_how(tmp_path: Path) -> None:
    settings = read_settings(state_dir=tmp_path, log_format="json", log_deltas=True)

    (logger,) = observers_for(["logger"], settings)
    Room(logger).whole_run()
    assert drain(10) == []

    lines = (tmp_path / "logs" / "runs-0.log").read_text().splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["status", "response", "message", "end"]


def test_each_status_has_the_ids_of_the_runs_trace():
    facts = RunFacts(run_id="run_1", thread_id="thr_1", trace_id="ab" * 16, correlation_id="order-4711")

    entries = [record_of(AGENT, StatusPayload(seq=1, status=status, at=AT), facts) for status in ("queued", "running")]

    assert [(entry["trace_id"], entry["correlation_id"]) for entry in entries] == [("ab" * 16, "order-4711")] * 2
    assert "trace=abab" in text_line(entries[1])
    assert "correlation=order-4711" in text_line(entries[1])
