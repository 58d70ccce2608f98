"""`./callboard bench`: measure Callboard and the naive alternatives, and compare each figure with its bar."""

from __future__ import annotations

from pathlib import Path

import click

from cli import options
from cli.dev.apart import run_apart

MEASUREMENTS = (
    "end_to_end streams_held accept_cost commits journal_cost redis_memory start_up sse long_runs long_prompts "
    "slow_disk full_disk hostile_text bad_inputs stream_cost observer_cost auth_cost foreign_cost audit_cost "
    "redaction_cost toolbox_cost policy_cost envelope_cost mcp_cost mcp_call mcp_faults slow_clients"
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
