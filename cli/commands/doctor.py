"""`./callboard doctor`: report problems of this installation before they fail a run.

The checks are in ``web/doctor``, and those that the terminal alone can make in ``cli/doctor``, one file a subject; each
is imported when it runs.
"""

from __future__ import annotations

import sys
from textwrap import wrap
from typing import TextIO

import click

from cli import options
from cli.output.json import print_json
from cli.output.quoted import columns, hanging
from config.egress.origins import origin_of
from config.redaction import redact
from config.settings import Settings
from config.text.visible import visible
from web.doctor import Finding, Verdict, examine

CHECKS = {
    "settings": "cli.doctor.settings:check_settings",
    "periods": "cli.doctor.settings:check_periods",
    "tenants": "cli.doctor.settings:check_tenants",
    "state folder": "web.doctor.database:check_state_folder",
    "disk": "web.doctor.database:check_disks",
    "folders": "cli.doctor.packages:check_folders",
    "packages": "cli.doctor.packages:check_packages",
    "redis": "web.doctor.servers:check_redis",
    "broker": "web.doctor.servers:check_broker",
    "addresses": "web.doctor.servers:check_addresses",
    "tls": "web.doctor.tls:check_tls",
    "database": "web.doctor.database:check_database",
    "deployment": "web.doctor.servers:check_deployment",
    "authentication": "cli.doctor.authentication:check_authentication",
    "workers": "web.doctor.workers:check_workers",
    "queues": "web.doctor.queues:check_queues",
    "plugins": "cli.doctor.settings:check_plugins",
    "celery": "web.doctor.queues:check_celery",
    "celery tasks": "cli.doctor.outward:check_celery_tasks",
    "observers": "cli.doctor.observers:check_observers",
    "traces": "cli.doctor.observers:check_traces",
    "mcp servers": "cli.doctor.mcp_servers:check_mcp_servers",
    "webhooks": "cli.doctor.agents:check_webhooks",
    "governance": "cli.doctor.outward:check_governance",
    "sql databases": "cli.doctor.outward:check_sql_databases",
    "agents": "cli.doctor.agents:check_agents",
    "versions": "web.doctor.versions:check_versions",
    "waiting runs": "web.doctor.versions:check_waiting_runs",
    "policy": "cli.doctor.agents:check_policy",
    "model": "cli.doctor.agents:check_model",
}
"""The checks, in order; a new one is a line here and a function. Plugins may change Celery, so they come before it."""
_COLOURS: dict[Verdict, str] = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@options.state_dir
@options.as_json
@click.option("--url", help="Check what the proxies before this address do to streams and headers, and nothing else.")
@click.option(
    "--key-file", type=click.File(), help="With --url: a file with the API key to send; - for standard input."
)
@click.option(
    "--idle-s", type=options.WholeNumber(1, 120), default=20, help="With --url: seconds of silence; default 20."
)
@click.option("--probe", is_flag=True, help="Also ask each model of the agents for one word, which providers charge.")
def doctor(as_json: bool, url: str | None, key_file: TextIO | None, idle_s: int, probe: bool, **flags: object) -> int:
    """Check settings, servers, workers, packages and agents; fail if work could be lost."""
    if url is None:
        settings = options.apply(**flags)
        findings = [*examine(settings, CHECKS), *(_probed(settings) if probe else ())]
    else:
        findings = examine_address(url, key_file.read().strip() if key_file is not None else None, idle_s)
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            click.echo(_line(finding, columns() or 80 if sys.stdout.isatty() else 0))
    return 1 if any(finding.verdict == "fail" for finding in findings) else 0


def _line(finding: Finding, width: int) -> str:
    """Return a finding, broken between words where it would be wider; 0: on one line."""
    verdict, start = click.style(f"{finding.verdict:<4}", fg=_COLOURS[finding.verdict]), f"{finding.about:<14} "
    text = hanging(visible(finding.text))
    if width:
        room = max(20, width - 1)
        first, *others = wrap(f"     {start}{text}", room, subsequent_indent=" " * 5, break_on_hyphens=False)
        return "\n".join([f"{verdict} {first[5:]}", *others])
    return f"{verdict} {start}{text}"


def _probed(settings: Settings) -> list[Finding]:
    """Return what each model answered, after a line that says what is paid for."""
    from cli.doctor.agents import probe_models, probed_models

    models = probed_models(settings)
    if not models:
        return [Finding("probe", "ok", "no agent asks a model over a network")]
    names = ", ".join(model.model for model in models)
    click.secho(f"asking for one word, which providers charge: {names}", err=True, fg="yellow")
    return [Finding("probe", verdict, redact(text)) for verdict, text in probe_models(models)]


def examine_address(url: str, key: str | None, idle_s: int) -> list[Finding]:
    """Return what the proxies before an address do.

    Raises:
        click.BadParameter: it is no origin.
    """
    from cli.doctor.address import check_address

    try:
        origin = origin_of(url.rstrip("/"))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from error
    click.echo(f"reading a stream of {origin} with {idle_s} s of silence ...", err=True)
    return [finding._replace(text=redact(finding.text)) for finding in check_address(origin, key, idle_s)]
