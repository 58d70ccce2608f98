"""The terminal and the page name a run's time of work where the run waited, in the same words."""

from __future__ import annotations

import io
import json
import shutil
import subprocess

import pytest

from bus.payloads import EndPayload
from cli.commands import runs
from cli.output.durations import took
from cli.output.transcript import Transcript
from config.folders import ROOT
from tests.conftest import need

TIMES = [
    (340, 300, "0.3 s"),
    (4200, 4100, "4.2 s"),
    (4200, None, "4.2 s"),
    (2400, 1300, "2.4 s, 1.3 s at work"),
    (40_000, 38_000, "40.0 s"),
    (123_000, 5000, "2 min 03 s, 5.0 s at work"),
    (59_960, 59_960, "59 s"),
    (7_500_000, 61_000, "2 h 05 min, 1 min 01 s at work"),
    (300_000_000, 0, "3 d, 0.0 s at work"),
]


@pytest.mark.parametrize(("duration_ms", "work_ms", "words"), TIMES)
def test_the_time_of_work_is_named_where_a_run_waited(duration_ms: int, work_ms: int | None, words: str) -> None:
    assert took(duration_ms, work_ms) == words


@pytest.mark.parity
def test_the_page_says_the_same() -> None:
    node = need(shutil.which("node"), "node, which runs the page's module,")
    entries = [{"duration_ms": ms, **({} if work is None else {"work_ms": work})} for ms, work, _ in TIMES]
    text = f"console.log({json.dumps(entries)}.map(took).join('\\n'))"
    code = f"import {{ took }} from '{ROOT}/web/static/dom/format.js'; {text}"
    ran = subprocess.run((node, "--input-type=module", "-e", code), capture_output=True, text=True, check=True)

    lines = [line.replace("340 ms", "0.3 s").replace(" 0 ms", " 0.0 s") for line in ran.stdout.splitlines()]
    assert lines == [words for _, _, words in TIMES]


def test_an_end_and_a_list_of_runs_name_it() -> None:
    err = io.StringIO()
    transcript = Transcript("run_1", out=io.StringIO(), err=err)
    transcript.take(EndPayload(seq=3, status="succeeded", duration_ms=123_000, work_ms=5000))

    assert "✓ succeeded · 2 min 03 s, 5.0 s at work · run_1" in err.getvalue()
    ended = {"status": "succeeded", "duration_ms": 123_000, "work_ms": 5000}
    row = [column.text(ended, is_short=True) for column in runs.RUNS.columns if column.title in ("TOOK", "WORK")]
    assert row == ["2 min 03 s", "5.0 s"]
