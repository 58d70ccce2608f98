"""`./callboard policy`: check the policy's files, and try the policy on recorded runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from agents.checkup.vocabulary import vocabulary_of
from agents.governance.policy.checks import warnings_of
from agents.governance.policy.dry_run import Difference, DryRun, PastCall, dry_run
from agents.governance.policy.local import LocalPolicy
from agents.governance.policy.reading import read_policy
from agents.runner import Runner
from cli import options
from cli.command_group import CommandGroup
from cli.open_runner import open_runner
from cli.output.json import print_json
from cli.output.transcript import fit
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
        found = dry_run(policy, _calls(runner, which))
    if as_json:
        print_json(_as_json(policy, found, len(which)))
    else:
        _print(policy, found, len(which))
    return 0


@click.command(cls=CommandGroup, members={"check": check, "test": test})
@options.as_json
def policy(as_json: bool) -> int:
    """Check the policy, as `policy check` does; `policy test` tries it on recorded runs."""
    return _check(as_json)


def _check(as_json: bool) -> int:
    settings = options.apply()
    found = read_policy(settings.policy_places)
    warnings = warnings_of(found, vocabulary_of(settings))
    if as_json:
        rules = [
            {"name": rule.name, "file": rule.file, "line": rule.line, "verdict": rule.verdict} for rule in found.rules
        ]
        print_json({"version": found.version, "rules": rules, "warnings": warnings})
        return 0
    click.echo(f"rules: {len(found.rules)}, version {found.version}")
    for rule in found.rules:
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


def _print(policy: LocalPolicy, found: DryRun, runs: int) -> None:
    click.echo(f"{runs} runs, {found.calls['tool']} calls of tools and {found.calls['model']} of models")
    width = max(len("rule"), *(len(rule.name) for rule in policy.rules)) if policy.rules else 4
    click.secho(f"{'rule':<{width}}  matches  decides", dim=True)
    for rule in policy.rules:
        remark = found.remark(rule.name, rule.fields.point)
        counts = f"{found.matched[rule.name]:>7}  {found.decided[rule.name]:>7}"
        click.echo(f"{rule.name:<{width}}  {counts}  {click.style(remark, fg='yellow')}".rstrip())
    click.echo(f"different from the recorded decisions: {len(found.differences)}")
    for difference in found.differences[:MOST_SHOWN]:
        click.echo("  " + _sentence(difference))
    if len(found.differences) > MOST_SHOWN:
        click.secho(f"  and {len(found.differences) - MOST_SHOWN} more: --json", dim=True)


def _sentence(difference: Difference) -> str:
    call, now = difference.call, difference.now
    then = f"{call.verdict} ({call.rule})" if call.verdict else "no decision"
    reason = f": {fit(visible(now.reason), MAX_REASON_CHARS)}" if now.reason else ""
    return f"{call.run_id} step {call.number} {visible(call.facts.name)}: {then} -> {now.verdict} ({now.rule}){reason}"


def _as_json(policy: LocalPolicy, found: DryRun, runs: int) -> dict[str, Any]:
    rules = [
        {
            "name": rule.name,
            "point": rule.fields.point,
            "matches": found.matched[rule.name],
            "decides": found.decided[rule.name],
            "remark": found.remark(rule.name, rule.fields.point) or None,
        }
        for rule in policy.rules
    ]
    return {
        "version": policy.version,
        "runs": runs,
        "calls": {"tool": found.calls["tool"], "model": found.calls["model"]},
        "rules": rules,
        "differences": [_difference(one) for one in found.differences],
    }


def _difference(one: Difference) -> dict[str, Any]:
    return {
        "run_id": one.call.run_id,
        "number": one.call.number,
        "at": stamp(one.call.at_ms),
        "point": one.call.facts.point,
        "name": one.call.facts.name,
        "then": {"verdict": one.call.verdict, "rule": one.call.rule} if one.call.verdict else None,
        "now": one.now.as_json(),
    }
