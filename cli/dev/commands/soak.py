"""`./callboard soak`: what takes long to try, for releases and for nights."""

from __future__ import annotations

import click

from cli import options
from cli.dev.apart import run_apart


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
