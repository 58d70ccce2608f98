"""Run measurements one after another, print what they found, and fail if a figure misses its bar."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys

from rich.console import Console

from cli.supervisor.child import guarded
from cli.supervisor.serving import python
from config.folders import ROOT
from tests.bench.command import say
from tests.bench.page import PAGE, conditions, with_tables
from tests.bench.report import Report, markdown, print_tables


def main() -> int:
    options = _arguments()
    console = Console()
    reports = []
    for name in options.names:
        say(f"{name} ...")
        measured = conditions(ROOT, 1 if options.quick else options.rounds)
        report = _measure(name, options)
        reports.append(report)
        if options.write:  # at once, since the next measurement may take long
            table = f"{markdown([report])}\n{measured}"
            PAGE.write_text(with_tables(PAGE.read_text(), {name: table}))
        if not options.json and not options.markdown:
            print_tables([report], console)
    if options.json:
        print("[" + ",\n".join(report.to_json().decode() for report in reports) + "]")
    elif options.markdown:
        print(markdown(reports), end="")
    missed = [figure.name for report in reports for figure in report.figures if figure.is_missed]
    if missed:
        say(f"{len(missed)} missed: {'; '.join(missed)}")
    return 1 if missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="a module of this folder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", help="another checkout, for the measurement `beside`")
    for flag in ("--quick", "--json", "--markdown", "--write"):
        parser.add_argument(flag, action="store_true")
    return parser.parse_args()


def _measure(name: str, options: argparse.Namespace) -> Report:
    """Run a measurement in its own process, so that none inherits another's heap, and return its report."""
    module = f"tests.bench.{name}"
    flags = ["--json", "--rounds", str(options.rounds), *(["--quick"] if options.quick else [])]
    flags += ["--beside", options.beside] if options.beside else []
    process = subprocess.Popen(guarded((*python(module), *flags), signal.SIGINT), stdout=subprocess.PIPE)
    try:
        output, _ = process.communicate()
    except KeyboardInterrupt:  # the terminal signals the child too, which ends its own processes
        process.wait()
        sys.exit(130)
    lines = output.decode().strip().splitlines()
    if process.returncode or not lines:
        sys.exit(f"error: {module} ended with status {process.returncode}; its output is above.")
    return Report.from_json(lines[-1])


if __name__ == "__main__":
    sys.exit(main())
