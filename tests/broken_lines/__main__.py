"""Break each line by itself in a copy of this checkout, run the tests that have to notice, and say which did not.

python -m tests.broken_lines                  # all of them, a quarter of an hour; before a release
python -m tests.broken_lines --only policy    # those whose promise, file or tests have the word
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from cli.dev.checks import TESTS_FAILED
from cli.dev.own_files import copied, own_files
from cli.main import SUCCEEDED
from config.folders import ROOT
from tests.broken_lines.lines import LINES, Line

PAGE = ROOT / "docs" / "broken-lines.md"
TIERS = "not journey and not browser and not postgres"
"""The tests of `check` and of `parity`."""
HEAD = """# Lines that tests have to notice

`python -m tests.broken_lines` breaks {count} lines of code on which a promise rests, one at a time, in a copy of the
checkout, and runs the tests of `check` and of `parity` that have to notice. It is run before a release;
`--write-page` writes this page. The lines, and how each is broken, are in `tests/broken_lines/lines.py`; a test
of `check` says when one has moved.

Noticed: {noticed} of {count}. The table says nothing about lines that are not in it.

| promise | line in | noticed by |
|---|---|---|
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the tests said of a broken line."""

    line: Line
    noticed_by: str = ""
    """The first test that failed."""
    problem: str = ""
    """Why none of them is one that noticed."""


def broken(line: Line, root: Path) -> str:
    """Return the text of the line's file with the line broken.

    Raises:
        ValueError: the line has moved.
    """
    source = (root / line.file).read_text()
    count = source.count(line.text)
    if count != 1:
        raise ValueError(f"{line.file} has this text {count} times, and it has to have it once: {line.text.strip()}")
    return source.replace(line.text, line.broken)


def tried(line: Line, copy: Path, failing: Sequence[str] = ()) -> Verdict:
    """Return what the line's tests say while it is broken in the copy, but for those that were ``failing`` before."""
    file = copy / line.file
    try:
        text = broken(line, copy)
    except ValueError as error:
        return Verdict(line=line, problem=str(error))
    whole = file.read_bytes()
    file.write_text(text)
    try:
        left_out = (word for test in failing for word in ("--deselect", test))
        verdict = _judged(line, *_run(line.tests.split(), copy, "-x", *left_out))
    finally:
        file.write_bytes(whole)
    if verdict.noticed_by and _run([verdict.noticed_by], copy)[0] != SUCCEEDED:
        return Verdict(line=line, problem=f"{verdict.noticed_by} failed once more with the line as it was")
    return verdict


def _run(tests: Sequence[str], copy: Path, *options: str) -> tuple[int, str]:
    """Run the tests in the copy, and return pytest's status and its report."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    quiet = ("-q", "-n", "0", "-p", "no:cacheprovider", "-m", TIERS)
    argv = (sys.executable, "-P", "-m", "pytest", *quiet, *options, *tests)
    ran = subprocess.run(argv, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def _judged(line: Line, status: int, report: str) -> Verdict:
    if status == TESTS_FAILED and (failed := _failed(report)):
        return Verdict(line=line, noticed_by=failed[0])
    if status == SUCCEEDED:
        return Verdict(line=line, problem="all of its tests pass")
    return Verdict(line=line, problem=f"pytest ended with {status}: {report.strip()[-500:]}")


def _failed(report: str) -> list[str]:
    """Return the tests that failed; a name may have blanks."""
    return re.findall(r"^(?:FAILED|ERROR) (\S+?\.py(?:::.+?)?)(?: - .*)?$", report, re.MULTILINE)


def try_all(lines: Sequence[Line], at_once: int) -> list[Verdict]:
    """Return the verdicts on all lines, in their order, and print each as it is known."""
    own, copies = own_files(), SimpleQueue[Path]()

    def try_one(line: Line) -> Verdict:
        copy = copies.get()
        try:
            verdict = tried(line, copy, failing)
        finally:
            copies.put(copy)
        print(f"{'ok  ' if verdict.noticed_by else 'FAIL'}  {line.promise}", flush=True)
        print(f"      {line.file}: {verdict.noticed_by or verdict.problem}", flush=True)
        return verdict

    with ExitStack() as stack, ThreadPoolExecutor(at_once) as pool:
        for _ in range(at_once):
            copies.put(stack.enter_context(copied(own)))
        copies.put(copy := copies.get())
        _, report = _run(sorted({test for line in lines for test in line.tests.split()}), copy)
        failing = _failed(report)
        print(f"{report.splitlines()[-1]}, without a broken line", *failing, sep="\n      left out: ", flush=True)
        return list(pool.map(try_one, lines))


def page_of(verdicts: Sequence[Verdict]) -> str:
    """Return the page with a row for each line."""
    rows = [f"| {verdict.line.promise} | `{verdict.line.file}` | {_shown(verdict)} |" for verdict in verdicts]
    noticed = sum(bool(verdict.noticed_by) for verdict in verdicts)
    return HEAD.format(count=len(verdicts), noticed=noticed) + "\n".join(rows) + "\n"


def _shown(verdict: Verdict) -> str:
    return f"`{verdict.noticed_by.partition('[')[0]}`" if verdict.noticed_by else "no test"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="lines whose promise, file or tests have the word")
    parser.add_argument("--at-once", type=int, default=2, help="lines that are tried at the same time")
    parser.add_argument("--write-page", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    chosen = parser.parse_args()
    lines = [line for line in LINES if chosen.only in f"{line.promise} {line.file} {line.tests}"]
    verdicts = try_all(lines, chosen.at_once)
    if chosen.write_page:
        PAGE.write_text(page_of(verdicts))
    missed = [verdict for verdict in verdicts if not verdict.noticed_by]
    print(f"noticed: {len(verdicts) - len(missed)} of {len(verdicts)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
