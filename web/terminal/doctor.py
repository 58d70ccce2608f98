"""`./callboard doctor`: what is wrong with this installation, before a run finds out.

What is looked at has a file each in ``web/terminal/looks``, imported when it is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module

import click

from config.errors import CallboardError
from config.redaction import redact
from config.settings import Settings
from web.terminal import options
from web.terminal.looks.finding import Finding, Look, Verdict
from web.terminal.printed_json import print_json
from web.terminal.quoted import hanging

LOOKS = {
    "settings": "periods:look_at_settings",
    "periods": "periods:look_at_periods",
    "state folder": "places:look_at_state_folder",
    "disk": "places:look_at_disks",
    "folders": "rooms:look_at_rooms",
    "packages": "packages:look_at_packages",
    "redis": "servers:look_at_redis",
    "broker": "servers:look_at_broker",
    "addresses": "servers:look_at_addresses",
    "database": "database:look_at_database",
    "workers": "workers:look_at_workers",
    "queues": "queues:look_at_queues",
    "plugins": "plugins:look_at_plugins",
    "celery": "celery_conf:look_at_celery",
    "agents": "agents:look_at_agents",
    "model": "agents:look_at_model",
}
"""What is looked at, in this order; a new look is a line here and a function. Plugins may change Celery, so they
come before it."""
_COLOURS: dict[Verdict, str] = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@options.state_dir
@options.as_json
def doctor(as_json: bool, **flags: object) -> int:
    """Look at settings, servers, workers, packages and agents; fail when work could be lost."""
    settings = options.apply(**flags)
    findings = list(examine(settings))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            verdict = click.style(f"{finding.verdict:<4}", fg=_COLOURS[finding.verdict])
            click.echo(f"{verdict} {finding.about:<12} {hanging(finding.text)}")
    return 1 if any(finding.verdict == "fail" for finding in findings) else 0


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield what each look finds; one that breaks is a finding and hides no other."""
    for about, place in LOOKS.items():
        try:
            for verdict, text in _look(place)(settings):
                yield Finding(about=about, verdict=verdict, text=redact(text))
        except CallboardError as wrong:
            yield Finding(about=about, verdict="fail", text=redact(f"{wrong} [{wrong.code}]"))
        except Exception as wrong:  # a look with a bug must not hide what the others find
            text = redact(f"could not be looked at: {type(wrong).__name__}: {wrong}")
            yield Finding(about=about, verdict="fail", text=text)


def _look(place: str) -> Look:
    module, _, function = place.partition(":")
    look: Look = getattr(import_module(f"web.terminal.looks.{module}"), function)
    return look
