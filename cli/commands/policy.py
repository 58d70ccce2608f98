"""`./callboard policy`: check the policy's files, and try the policy on recorded runs."""

from __future__ import annotations

from collections.abc import Iterator
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
from cli.output.quoted import fit
from config.clock import stamp
from config.text.visible import visible

MOST_SHOWN = 50
"""Differences that are printed; --json prints all."""
MAX_REASON_CHARS = 80


@click.command()
@options.as_json
def check(as_json: bool) -> int:
    """Read the policy's files, and say of each mistake in which line it is."""
    return _check(as_json)


@click.command()
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
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
@options.as_json
def policy(as_json: bool) -> int:
    """Check the policy, as `policy check` does; `policy test` tries it on recorded runs."""
    return _check(as_json)


def _check(as_json: bool) -> int:
    settings = options.apply()
    policy = read_policy(settings.policy_places)
    warnings = warnings_of(policy, vocabulary_of(settings))
    if as_json:
        rules = [
            {"name": rule.name, "file": rule.file, "line": rule.line, "verdict": rule.verdict} for rule in policy.rules
        ]
        print_json({"version": policy.version, "rules": rules, "warnings": warnings})
        return 0
    click.echo(f"rules: {len(policy.rules)}, version {policy.version}")
    for rule in policy.rules:
        click.echo(f"{click.style('✓', fg='green')} {rule.name}  {rule.verdict}  {rule.file}:{rule.line}")
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
    click.echo(f"{runs} runs, {result.calls['tool']} calls of tools and {result.calls['model']} of models")
    width = max(len("rule"), *(len(rule.name) for rule in policy.rules)) if policy.rules else 4
    click.secho(f"{'rule':<{width}}  matches  decides", dim=True)
    for rule in policy.rules:
        remark = result.remark(rule.name, rule.fields.point)
        counts = f"{result.matched[rule.name]:>7}  {result.decided[rule.name]:>7}"
        click.echo(f"{rule.name:<{width}}  {counts}  {click.style(remark, fg='yellow')}".rstrip())
    click.echo(f"different from the recorded decisions: {len(result.differences)}")
    for difference in result.differences[:MOST_SHOWN]:
        click.echo("  " + _sentence(difference))
    if len(result.differences) > MOST_SHOWN:
        click.secho(f"  and {len(result.differences) - MOST_SHOWN} more: --json", dim=True)


def _sentence(difference: Difference) -> str:
    call, now = difference.call, difference.now
    then = f"{call.verdict} ({call.rule})" if call.verdict else "no decision"
    reason = f": {fit(visible(now.reason), MAX_REASON_CHARS)}" if now.reason else ""
    return f"{call.run_id} step {call.number} {visible(call.facts.name)}: {then} -> {now.verdict} ({now.rule}){reason}"


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
