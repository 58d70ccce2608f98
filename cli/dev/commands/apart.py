"""`./callboard bench` and `soak`: run a measurement or a long trial of the tests as a process of its own.

`bench` measures Callboard and the naive alternatives, and compares each figure with its bar. `soak` does what takes
long to try, for releases and for nights.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import click

from cli import options
from cli.supervisor.child import guarded
from cli.supervisor.serving import clean_environment, python
from config.folders import ROOT

MEASUREMENTS = (
    "end_to_end streams_held accept_cost commits journal_cost redis_memory start_up sse long_runs long_prompts "
    "long_threads busy_thread waiting_runs control_delay children_cost slow_disk full_disk hostile_text bad_inputs "
    "stream_cost observer_cost auth_cost foreign_cost audit_cost redaction_cost toolbox_cost policy_cost prompt_guard "
    "envelope_cost mcp_cost mcp_call mcp_faults slow_clients workflow_cost workflow_lists workflow_signals tailing "
    "browser"
).split()
"""Modules of tests/bench; each can be run on its own with the same flags."""


@click.command()
@click.option(
    "--only", multiple=True, type=click.Choice(MEASUREMENTS), help="Measure this; may be repeated. Default: all."
)
@click.option(
    "--rounds", type=options.WholeNumber(1, 50), default=3, show_default=True, help="How many times each is measured."
)
@click.option(
    "--beside",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Compare with another checkout instead: both run in turns.",
)
@click.option("--quick", is_flag=True, help="Small and short: a smoke test, not a measurement.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the tables as Markdown.")
@click.option("--write", is_flag=True, help="Put the tables into docs/performance.md.")
@options.as_json
def bench(only: tuple[str, ...], rounds: int, beside: Path | None, **forms: bool) -> int:
    """Measure, and print each figure beside its reference and its bar; fail if a bar is missed.

    Compare ratios, not absolute times: the variants alternate within one run, so a busy machine slows all of them.
    """
    flags = {"quick": "--quick", "as_markdown": "--markdown", "write": "--write", "as_json": "--json"}
    chosen = [flag for name, flag in flags.items() if forms[name]]
    chosen += ["--beside", str(beside.resolve())] if beside else []
    return run_apart("tests.bench", "--rounds", str(rounds), *chosen, *(["beside"] if beside else only or MEASUREMENTS))


@click.command()
@click.option(
    "--minutes", type=click.FloatRange(0.5), default=30.0, show_default=True, help="How long faults are injected."
)
@click.option("--seed", type=int, help="Do what the run that printed this seed did, in the same order.")
@click.option("--postgres", is_flag=True, help="On Postgres; with --sweep: on Postgres too, besides SQLite.")
@click.option("--sweep", is_flag=True, help="Kill the runs of reference at every place they pass, instead.")
@click.option(
    "--twice", is_flag=True, help="With --sweep: also kill the process that resumes, at every place it passes. Hours."
)
@click.option("--workers", is_flag=True, help="With --sweep: and a real Celery worker for each run, on a real Redis.")
@click.option("--sample", type=options.WholeNumber(1), metavar="N", help="With --sweep: N kills in all, at random.")
def soak(
    minutes: float, seed: int | None, postgres: bool, sweep: bool, twice: bool, workers: bool, sample: int | None
) -> int:
    """Break a running fleet at random for a long time; exit status 1 when a promise was not kept."""
    flags = ["--postgres"] if postgres else []
    flags += ["--seed", str(seed)] if seed is not None else []
    if not sweep:
        if twice or workers or sample is not None:
            raise click.UsageError("--twice, --workers and --sample go with --sweep.")
        return run_apart("tests.soak.weather", "--minutes", str(minutes), *flags)
    flags += [name for name, is_on in {"--twice": twice, "--workers": workers}.items() if is_on]
    flags += ["--sample", str(sample)] if sample is not None else []
    return run_apart("tests.soak.sweep", *flags)


def run_apart(module: str, *flags: str) -> int:
    """Run the module with default settings, and return its exit status; it prints what it finds."""
    process = subprocess.Popen(guarded((*python(module), *flags), signal.SIGINT), cwd=ROOT, env=clean_environment())
    try:
        return process.wait()
    except KeyboardInterrupt:  # the terminal signals the child too, which ends what it started
        process.wait()
        raise
