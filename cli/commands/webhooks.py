"""`./callboard webhooks`: list the webhooks that others send, and check each one."""

from __future__ import annotations

from typing import Any

import click

from agents.registry import AgentRegistry
from cli import options
from cli.doctor.agents import does, why_unusable
from cli.output.json import print_json
from config.definitions.webhooks.definition import read_webhooks
from config.text.visible import visible


@click.command()
@options.as_json
def webhooks(as_json: bool) -> int:
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
    if as_json:
        print_json(rows)
    elif not rows:
        folders = ", ".join(str(folder) for folder in settings.webhooks_folders)
        click.echo(f"There are no webhooks in {folders}; add a YAML file, its name is the webhook's.")
    else:
        _print(rows)
    return 1 if any("problem" in row for row in rows) else 0


def _print(rows: list[dict[str, Any]]) -> None:
    usable = [row for row in rows if "name" in row]
    width = max((len(row["path"]) for row in usable), default=0)
    for row in usable:
        mark = click.style("✗", fg="red") if "problem" in row else click.style("✓", fg="green")
        whose = f"for {row['principal']} of {row['tenant']}"
        click.echo(f"{mark} {row['path']:<{width}}  {row['format']:<8}  {row['does']}, {whose}")
    for row in rows:
        if "problem" in row:
            click.echo(f"{click.style('error', fg='red')}: {visible(row['problem'])}", err=True)
