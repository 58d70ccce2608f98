"""`./callboard webhooks`: list the webhooks that others send, and check each one."""

from __future__ import annotations

from typing import Any

import click

from agents.registry import AgentRegistry
from cli import options
from cli.doctor.agents import does, why_unusable
from cli.output.table import Column, Form, Table
from config.definitions.webhooks.definition import read_webhooks
from config.text.visible import visible

WEBHOOKS = Table(
    "name",
    (
        Column(
            "", lambda row: "✗" if "problem" in row else "✓", colour=lambda row: "red" if "problem" in row else "green"
        ),
        Column("PATH", "path"),
        Column("FORMAT", "format", worth=60),
        Column("FOR", lambda row: f"{row['principal']} of {row['tenant']}", worth=70),
        Column("DOES", "does"),
    ),
)


@click.command()
@options.listing
def webhooks(form: Form) -> int:
    """List the webhooks with their addresses, and check the file, the secret and the agent or workflow of each."""
    settings = options.apply()
    definitions, broken = read_webhooks(settings.webhooks_folders)
    registry, rows = AgentRegistry(settings.agent_folders), list[dict[str, Any]]()
    for webhook in definitions.values():
        row = {"name": webhook.name, "format": webhook.format, "path": f"/v1/webhooks/{webhook.name}"}
        row |= {"tenant": webhook.who.tenant, "principal": webhook.who.id, "does": does(webhook)}
        problem = why_unusable(webhook, registry)
        rows.append(row | ({"problem": problem} if problem is not None else {}))
    rows += [{"file": str(error.facts["file"]), "problem": str(error)} for error in broken]
    folders = ", ".join(str(folder) for folder in settings.webhooks_folders)
    empty = f"There are no webhooks in {folders}; add a YAML file, its name is the webhook's."
    WEBHOOKS.print(
        rows if form == "json" else [row for row in rows if "name" in row], form, empty="" if rows else empty
    )
    for row in rows if form in ("table", "wide") else ():
        if "problem" in row:
            click.echo(f"{click.style('error', fg='red')}: {visible(row['problem'])}", err=True)
    return 1 if any("problem" in row for row in rows) else 0
