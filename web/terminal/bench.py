"""`./callboard bench`: measures Callboard beside the naive ways, and holds every figure against its bar."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

import click

from web.terminal import options
from web.terminal.child import guarded
from web.terminal.cli import FAILED, ROOT, SUCCEEDED
from web.terminal.serving import clean_environment, python

if TYPE_CHECKING:
    from web.terminal.bench_report import Report

MEASUREMENTS = {
    "end_to_end": "tests.bench.end_to_end",
    "streams_held": "tests.bench.streams_held",
    "accept_cost": "tests.bench.accept_cost",
    "commits": "tests.bench.commits",
    "journal_cost": "tests.bench.journal_cost",
    "redis_memory": "tests.bench.redis_memory",
    "start_up": "tests.bench.start_up",
    "sse": "tests.bench.sse_viewers",
    "long_runs": "tests.bench.long_runs",
    "long_prompts": "tests.bench.long_prompts",
    "slow_disk": "tests.bench.slow_disk",
}
"""Name -> module; each runs by itself too, with the same flags."""


@click.command()
@click.option(
    "--only", multiple=True, type=click.Choice(list(MEASUREMENTS)), help="Measure this; may be repeated. Default: all."
)
@click.option("--rounds", type=click.IntRange(1, 50), default=3, show_default=True, help="How often each is measured.")
@click.option("--quick", is_flag=True, help="Small and short: shows that it works, proves nothing.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the tables of docs/performance.md.")
@options.as_json
def bench(only: tuple[str, ...], rounds: int, quick: bool, as_markdown: bool, as_json: bool) -> int:
    """Measure, and print each figure beside its reference and its bar; fails when a bar is missed.

    Ratios are what counts: the ways take turns in one run, so that a busy machine slows all of them down.
    """
    from rich.console import Console

    from web.terminal.bench_report import markdown, print_tables

    console = Console()
    reports = []
    for name in only or MEASUREMENTS:
        click.echo(f"{name} ...", err=True)
        report = _measure(MEASUREMENTS[name], rounds, quick)
        reports.append(report)
        if not as_json and not as_markdown:
            print_tables([report], console)
    if as_json:
        click.echo("[" + ",\n".join(report.to_json().decode() for report in reports) + "]")
    elif as_markdown:
        click.echo(markdown(reports), nl=False)
    missed = [figure.name for report in reports for figure in report.figures if figure.is_missed]
    if missed:
        click.echo(f"{len(missed)} missed: {'; '.join(missed)}", err=True)
    return FAILED if missed else SUCCEEDED


def _measure(module: str, rounds: int, quick: bool) -> Report:
    """Return what a module found, run as a process of its own, so that none inherits another's heap.

    Raises:
        ClickException: it failed.
    """
    from web.terminal.bench_report import Report

    flags = ("--json", "--rounds", str(rounds), *(("--quick",) if quick else ()))
    process = subprocess.Popen(
        guarded((*python(module), *flags), signal.SIGINT), cwd=ROOT, env=clean_environment(), stdout=subprocess.PIPE
    )
    try:
        said, _ = process.communicate()
    except KeyboardInterrupt:  # the terminal told the child too; it ends what it started
        process.wait()
        raise
    lines = said.decode().strip().splitlines()
    if process.returncode or not lines:
        raise click.ClickException(f"{module} ended with status {process.returncode}; what it said is above.")
    return Report.from_json(lines[-1])
