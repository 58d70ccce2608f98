"""What `python -m tests.broken_lines` breaks is where it looks, and it says what no test noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.folders import ROOT
from tests.broken_lines.__main__ import Verdict, broken, page_of, tried
from tests.broken_lines.lines import LINES, Line

LEAST = 40
TESTS = "from shop import paid\ndef test_refund(): assert paid(-1) == 0\n"
REFUND = Line(
    promise="nothing is paid back twice", file="shop.py", text="max(0, cents)", broken="cents", tests="test_shop.py"
)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.promise)
def test_each_line_is_in_its_file_and_its_tests_are_there(line: Line) -> None:
    compile(broken(line, ROOT), line.file, "exec")

    for test in line.tests.split():
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / file).read_text()


def test_there_are_enough_lines_each_of_a_promise_of_its_own() -> None:
    assert len({line.promise for line in LINES}) == len(LINES) >= LEAST


@pytest.mark.parity
@pytest.mark.parametrize(
    ("code", "tests", "noticed_by", "problem"),
    [
        ("def paid(cents): return max(0, cents)\n", TESTS, "test_shop.py::test_refund", ""),
        ("def paid(cents): return max(0, cents)\n", "def test_it(): pass\n", "", "all of its tests pass"),
        ("def paid(cents): return max(0, int(cents))\n", TESTS, "", "shop.py has this text 0 times"),
        ("def paid(cents): return max(0, cents)\n", "import nowhere\n", "", "pytest ended with 2"),
    ],
)
def test_a_broken_line_is_noticed_or_the_reason_is_said(
    code: str, tests: str, noticed_by: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(code)
    (tmp_path / "test_shop.py").write_text(tests)

    verdict = tried(REFUND, tmp_path)

    assert (verdict.noticed_by, verdict.problem.startswith(problem)) == (noticed_by, True)
    assert (tmp_path / "shop.py").read_text() == code


def test_the_page_names_what_no_test_noticed() -> None:
    page = page_of([Verdict(line=REFUND, noticed_by="a.py::test_it[1]"), Verdict(line=REFUND, problem="none failed")])

    assert "Noticed: 1 of 2." in page
    assert [row.split(" | ")[-1] for row in page.splitlines()[-2:]] == ["`a.py::test_it` |", "no test |"]
