"""`./callboard grant`: issue a privilege grant for one run; `grants` lists and revokes them."""

from __future__ import annotations

from functools import partial

import click

from agents.registry import AgentRegistry
from bus.identity.credentials import grants as table
from cli import options
from cli.open_runner import open_database_of
from cli.output.json import print_json
from cli.output.table import Column, Form, Row, Table
from config.clock import stamp
from config.database.engine import Database
from config.database.shared_secret import shared_secret


@click.command()
@click.argument("agent", type=options.AGENT)
@click.option("--reason", required=True, metavar="TEXT", help="Why; the audit log and the log of the run show it.")
@click.option(
    "--for", "principal", type=options.NAME, metavar="ID", help="Who may use it; default CALLBOARD_PRINCIPAL."
)
@click.option("--minutes", type=options.WholeNumber(1, table.MAX_LIFETIME_S // 60), default=60, show_default=True)
@options.as_json
@options.state_dir
def grant(agent: str, reason: str, principal: str | None, minutes: int, as_json: bool, **flags: object) -> int:
    """Let one principal start one run of AGENT in privileged mode, and print the grant, once."""
    settings = options.apply(**flags)
    terms = {"principal": principal or settings.principal, "reason": reason}
    terms["agent_id"] = AgentRegistry(settings.agent_folders).get(agent).id
    with open_database_of(settings, create=True) as database:
        form = _form_of(database)
        with database.write() as connection:
            issued, text = table.issue(connection, form, settings.local_principal, **terms, lifetime_s=60 * minutes)
    if as_json:
        print_json(issued.shown() | {"grant": text}, lines=True)
        return 0
    click.echo(text)
    whom = f"for '{issued.principal}', one run of '{issued.agent_id}', {minutes} minutes; it is shown only now"
    click.secho(f"{issued.id} · {whom}", err=True, dim=True)
    return 0


def _form_of(database: Database) -> table.GrantForm:
    form = table.GrantForm(partial(shared_secret, database, table.SECRET_NAME))
    form.open()
    return form


@click.group()
def grants() -> None:
    """List privilege grants, and revoke one."""


def _state(row: Row) -> str:
    if "revoked_at" in row or "run_id" in row:
        return "revoked" if "revoked_at" in row else "used"
    return "expired" if row["expires_at"] < stamp() else "unused"


GRANTS = Table(
    "grant_id",
    (
        Column("GRANT", "grant_id"),
        Column("STATE", _state),
        Column("AGENT", "agent", worth=90),
        Column("FOR", "principal", worth=80),
        Column("BY", "issued_by", worth=50),
        Column("AGE", "created_at", worth=60, is_time=True, is_number=True),
        Column("ENDS", "expires_at", worth=40, is_time=True, is_number=True),
        Column("RUN", "run_id", worth=70),
        Column("REASON", "reason"),
    ),
)


@grants.command("list")
@click.option("--limit", type=options.WholeNumber(1, 1000), default=20, show_default=True)
@options.listing
@options.state_dir
def list_grants(limit: int, form: Form, **flags: object) -> int:
    """List the newest grants of CALLBOARD_TENANT, with the runs that have used them."""
    settings = options.apply(**flags)
    with open_database_of(settings) as database, database.read() as connection:
        rows = [row.shown() for row in table.of_tenant(connection, settings.tenant, limit=limit)]
    GRANTS.print(rows, form, empty="no grants. Issue one: ./callboard grant AGENT --reason TEXT")
    return 0


@grants.command()
@click.argument("grant_id", type=options.GRANT, metavar="ID")
@options.state_dir
def revoke(grant_id: str, **flags: object) -> int:
    """End a grant, and the privilege of its run when a worker picks that up next."""
    settings = options.apply(**flags)
    with open_database_of(settings) as database, database.write() as connection:
        ended = table.revoke(connection, grant_id, settings.local_principal)
    click.echo(f"{ended.id} is revoked.")
    return 0
