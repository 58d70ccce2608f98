"""`./callboard agents versions | diff | promote | rollback` and `runs upgrade`: which version of an agent runs get."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from cli import options
from cli.open_runner import open_runner
from cli.output.changes import print_changes
from cli.output.json import print_json
from cli.output.table import Column, Form, Row, Table
from config.definitions.behaviour import changes

CANARY_SHARE = 10
"""Percent of the threads that a canary gets where no share is named."""
LATEST = "latest"


class Version(click.ParamType[int | None]):
    """The number of a version; ``latest``: what the file says, without an alias."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value == LATEST:
            return None
        if re.fullmatch(r"[1-9][0-9]{0,8}", str(value)) is None:
            self.fail(f"'{str(value)[:80]}' is no version; write its number, or '{LATEST}'.", param, ctx)
        return int(value)


class Share(click.ParamType[int]):
    """A part of the threads, such as ``10%``."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"([0-9]{1,3})%?", str(value))
        if match is None or not 1 <= int(match[1]) <= 99:
            self.fail(f"'{str(value)[:80]}' is no share; write 1% to 99%.", param, ctx)
        return int(match[1])


def _marks(row: Row) -> str:
    names = [f"{name} {share} %" if share < 100 else name for name, share in row["aliases"].items()]
    return ", ".join([*names, *(["in its file"] if row["is_in_file"] else [])])


VERSIONS = Table(
    "version",
    (
        Column("VERSION", "version", is_number=True),
        Column("AGE", "created_at", worth=80, is_time=True, is_number=True),
        Column("DIGEST", lambda row: row["digest"][:12], worth=50),
        Column("BEHAVIOUR", lambda row: row["behaviour"][:12], worth=60),
        Column("NAMES", _marks),
    ),
)


@click.command("versions")
@click.argument("agent_id", type=options.AGENT, metavar="AGENT")
@options.listing
@options.state_dir
def versions_of(agent_id: str, form: Form, **flags: object) -> int:
    """List the versions of AGENT, newest first, with their aliases."""
    with open_runner(options.apply(**flags)) as runner:
        runner.registry.get_for(runner.principal, agent_id)
        runner.registry.register()
        rows = runner.registry.versions(agent_id)
    VERSIONS.print(rows, form)
    return 0


@click.command("diff")
@click.argument("agent_id", type=options.AGENT, metavar="AGENT")
@click.argument("before", metavar="A", type=options.WholeNumber(1))
@click.argument("after", metavar="B", type=options.WholeNumber(1))
@options.as_json
@options.state_dir
def diff(agent_id: str, before: int, after: int, as_json: bool, **flags: object) -> int:
    """Print what differs between the versions A and B of AGENT."""
    with open_runner(options.apply(**flags)) as runner:
        registry = runner.registry
        registry.register()
        fields = changes(registry.content(agent_id, before), registry.content(agent_id, after))
    if as_json:
        print_json({"agent": agent_id, "before": before, "after": after, "changes": fields}, lines=True)
    else:
        print_changes(fields)
    return 0


@click.command("promote")
@click.argument("agent_id", type=options.AGENT, metavar="AGENT")
@click.argument("version", metavar="VERSION", type=Version())
@click.option("--as", "alias", type=click.Choice(["stable", "canary"]), default="stable", help="Default: stable.")
@click.option("--share", type=Share(), help=f"With --as canary: the part of the threads; default {CANARY_SHARE}%.")
@options.as_json
@options.state_dir
def promote(agent_id: str, version: int | None, alias: str, share: int | None, as_json: bool, **flags: object) -> int:
    """Let new runs of AGENT get VERSION; `latest` ends both aliases, so that its file serves."""
    if share is not None and alias != "canary":
        raise click.UsageError("--share is of a canary; add --as canary, or leave it out.")
    part = (share or CANARY_SHARE) if alias == "canary" else 100
    with open_runner(options.apply(**flags)) as runner:
        runner.registry.require_may_promote(runner.principal, agent_id)
        runner.registry.register()
        versions = runner.journal.stores.agent_versions
        aliases = versions.promote(runner.principal, agent_id, version, alias, part)
    return _print_aliases(agent_id, aliases, as_json)


@click.command("rollback")
@click.argument("agent_id", type=options.AGENT, metavar="AGENT")
@options.as_json
@options.state_dir
def rollback(agent_id: str, as_json: bool, **flags: object) -> int:
    """Take the last promotion of AGENT back: its canary ends, or else the version before is stable."""
    with open_runner(options.apply(**flags)) as runner:
        runner.registry.require_may_promote(runner.principal, agent_id)
        runner.registry.register()
        aliases = runner.journal.stores.agent_versions.roll_back(runner.principal, agent_id)
    return _print_aliases(agent_id, aliases, as_json)


def _print_aliases(agent_id: str, aliases: Mapping[str, Any], as_json: bool) -> int:
    if as_json:
        numbers = {name: {"version": alias.number, "share": alias.share} for name, alias in aliases.items()}
        print_json({"agent": agent_id, "aliases": numbers}, lines=True)
    elif not aliases:
        click.echo(f"New runs of {agent_id} get what its file says.")
    for name, alias in () if as_json else aliases.items():
        threads = "all other threads" if name == "stable" and len(aliases) > 1 else f"{alias.share} % of the threads"
        click.echo(f"{name}: version {alias.number} for new runs of {threads}.")
    return 0


@click.command("upgrade")
@click.argument("run_id", type=options.RUN, metavar="RUN")
@options.yes
@options.as_json
@options.state_dir
def upgrade(run_id: str, yes: bool, as_json: bool, **flags: object) -> int:
    """Move the waiting RUN to today's version of its agent; what was approved is asked again."""
    if as_json and not yes:
        raise click.UsageError("--json asks nothing; add --yes once you have seen what changes.")
    with open_runner(options.apply(**flags)) as runner:
        upgrade = runner.registry.upgrade_of(runner.journal, runner.principal, run_id)
        agent, digest = upgrade.definition.id, upgrade.definition.digest
        if not as_json:
            print_changes(upgrade.changes)
        if not yes:
            click.echo("Its steps stay. What a person approved, and nothing has used yet, is asked again.", err=True)
            options.confirm(f"Move {run_id} to this version of {agent}?")
        written = runner.journal.clients.upgrade(runner.principal, run_id, upgrade.version(digest), by="terminal")
    if as_json:
        facts = {"run_id": run_id, "status": written.status, "definition": digest, "changes": upgrade.changes}
        print_json(facts, lines=True)
    elif written.status == "waiting":
        click.echo(f"{run_id} has this version, and is still paused; ./callboard resume {run_id} continues it.")
    else:
        click.echo(f"{run_id} is {written.status}; ./callboard watch {run_id} shows how it continues.")
    return 0
