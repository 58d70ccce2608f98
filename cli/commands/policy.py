"""`./callboard policy`: check the policy's files, and try the policy on recorded runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from agents.checkup import vocabulary_of
from agents.governance.policy.checks import warnings_of
from agents.governance.policy.dry_run import Difference, DryRun, PastCall, dry_run
from agents.governance.policy.local import LocalPolicy
from agents.governance.policy.policy_yaml import read_policy
from agents.runner import Runner
from cli import options
from cli.open_runner import open_runner
from cli.options import CommandGroup
from cli.output.json import print_json
from cli.output.table import Column, Form, Row, Table
from config.clock import stamp
from config.folders import ROOT
from config.text.visible import visible

MOST_SHOWN = 50
"""Differences that are printed; --json prints all."""


@click.command()
@options.listing
def check(form: Form) -> int:
    """Read the policy's files, and say of each mistake in which line it is."""
    return _check(form)


@click.command()
@click.argument("run_ids", type=options.RUN, metavar="[RUN]...", nargs=-1)
@click.option(
    "--runs", "count", type=options.WholeNumber(1, 10_000), default=100, show_default=True, help="The newest."
)
@options.as_json
@options.state_dir
def test(run_ids: tuple[str, ...], count: int, as_json: bool, **flags: Any) -> int:
    """Decide about the calls of recorded runs as the policy is now: these runs, or the newest. Nothing is called."""
    settings = options.apply(**flags)
    policy = read_policy(settings.policy_places)
    with open_runner(settings) as runner:
        which = list(run_ids) or _newest(runner, count)
        result = dry_run(policy, _calls(runner, which))
    if as_json:
        print_json(_as_json(policy, result, len(which)))
    else:
        _print(policy, result, len(which))
    return 0


@click.command(cls=CommandGroup, members={"check": check, "test": test})
@options.listing
def policy(form: Form) -> int:
    """Check the policy, as `policy check` does; `policy test` tries it on recorded runs."""
    return _check(form)


def _check(form: Form) -> int:
    settings = options.apply()
    policy = read_policy(settings.policy_places)
    warnings = warnings_of(policy, vocabulary_of(settings))
    rules = [
        {"name": rule.name, "file": rule.file, "line": rule.line, "verdict": rule.verdict} for rule in policy.rules
    ]
    if form == "json":
        print_json({"version": policy.version, "rules": rules, "warnings": warnings})
        return 0
    click.secho(f"rules: {len(policy.rules)}, version {policy.version}", err=True, dim=True)
    RULES.print(rules, form)
    for warning in warnings:
        click.echo(f"{click.style('warning', fg='yellow')}: {visible(warning)}", err=True)
    return 0


# --- recorded runs


def _newest(runner: Runner, count: int) -> list[str]:
    return [run["run_id"] for run in runner.journal.readers.runs.newest(runner.principal, limit=count)]


def _calls(runner: Runner, run_ids: list[str]) -> Iterator[PastCall]:
    for run_id in run_ids:
        for call in runner.journal.readers.runs.decided_calls(runner.principal, run_id):
            then = call.decision
            yield PastCall(
                run_id=run_id,
                number=call.number,
                at_ms=call.at_ms,
                facts=call.facts,
                verdict=then.get("verdict"),
                rule=then.get("rule"),
            )


def _print(policy: LocalPolicy, result: DryRun, runs: int) -> None:
    counted = f"{runs} runs, {result.calls['tool']} calls of tools and {result.calls['model']} of models"
    click.secho(counted, err=True, dim=True)
    MATCHES.print(_as_json(policy, result, runs)["rules"], "table")
    click.secho(f"different from the recorded decisions: {len(result.differences)}", err=True, dim=True)
    DIFFERENCES.print([_difference(difference) for difference in result.differences[:MOST_SHOWN]], "table")
    if len(result.differences) > MOST_SHOWN:
        click.secho(f"and {len(result.differences) - MOST_SHOWN} more: --json", err=True, dim=True)


def _then(difference: Row) -> str:
    then = difference["then"]
    return f"{then['verdict']} ({then['rule']})" if then else "no decision"


def _now(difference: Row) -> str:
    return f"{difference['now']['verdict']} ({difference['now']['rule']})"


def _place(rule: Row) -> str:
    """Return the rule's line, which a narrow terminal would cut off behind a whole path of the project."""
    file = Path(rule["file"])
    return f"{file.relative_to(ROOT) if file.is_relative_to(ROOT) else file}:{rule['line']}"


VERDICT_COLOURS = {"constrain": "yellow", "require_approval": "yellow", "block": "red", "halt": "red"}
RULES = Table(
    "name",
    (
        Column("RULE", "name"),
        Column("VERDICT", "verdict", colour=lambda rule: VERDICT_COLOURS.get(rule["verdict"])),
        Column("WHERE", _place),
    ),
)
MATCHES = Table(
    "name",
    (
        Column("RULE", "name"),
        Column("MATCHES", "matches", is_number=True),
        Column("DECIDES", "decides", is_number=True),
        Column("REMARK", "remark", colour=lambda _: "yellow"),
    ),
)
DIFFERENCES = Table(
    "run_id",
    (
        Column("RUN", "run_id"),
        Column("STEP", "number", worth=60, is_number=True),
        Column("CALL", "name", worth=90),
        Column("THEN", _then, worth=80),
        Column("NOW", _now),
    ),
    notes=lambda difference: [(difference["now"]["reason"], None)] if difference["now"].get("reason") else [],
)


def _as_json(policy: LocalPolicy, result: DryRun, runs: int) -> dict[str, Any]:
    rules = [
        {
            "name": rule.name,
            "point": rule.fields.point,
            "matches": result.matched[rule.name],
            "decides": result.decided[rule.name],
            "remark": result.remark(rule.name, rule.fields.point) or None,
        }
        for rule in policy.rules
    ]
    return {
        "version": policy.version,
        "runs": runs,
        "calls": {"tool": result.calls["tool"], "model": result.calls["model"]},
        "rules": rules,
        "differences": [_difference(difference) for difference in result.differences],
    }


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "run_id": difference.call.run_id,
        "number": difference.call.number,
        "at": stamp(difference.call.at_ms),
        "point": difference.call.facts.point,
        "name": difference.call.facts.name,
        "then": {"verdict": difference.call.verdict, "rule": difference.call.rule} if difference.call.verdict else None,
        "now": difference.now.as_json(),
    }
