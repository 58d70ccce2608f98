"""`./callboard principals`: list those that have had a credential; disable one, or enable it again."""

from __future__ import annotations

import click

from bus.identity import principals as table
from cli import options
from cli.open_runner import open_database_of
from cli.output.table import Column, Form, Table
from config.errors import BadRequest


@click.group()
def principals() -> None:
    """List, disable and enable principals: the names of keys, and the people and services that signed in."""


PRINCIPALS = Table(
    "id",
    (
        Column("STATE", lambda row: "disabled" if row["disabled"] else "enabled"),
        Column("AGE", "created_at", worth=50, is_time=True, is_number=True),
        Column("PRINCIPAL", lambda row: f"{row['tenant']}/{row['id']}"),
    ),
)


@principals.command("list")
@click.option("--tenant", type=options.NAME, metavar="T", help="Only those of this tenant.")
@options.listing
@options.state_dir
def list_principals(tenant: str | None, form: Form, **flags: object) -> int:
    """List the principals, by tenant and name."""
    with open_database_of(options.apply(**flags)) as database, database.read() as connection:
        rows = table.known(connection, tenant)
    PRINCIPALS.print(rows, form, empty="no principal has had a credential yet.")
    return 0


@principals.command()
@click.argument("principal_id", type=options.NAME, metavar="ID")
@click.option("--tenant", type=options.NAME, metavar="T", help="Its tenant; default CALLBOARD_TENANT.")
@options.state_dir
def disable(principal_id: str, tenant: str | None, **flags: object) -> int:
    """Refuse every credential of a principal, within a second; its runs wait until it is enabled."""
    return _change(principal_id, tenant, flags, disabled=True)


@principals.command()
@click.argument("principal_id", type=options.NAME, metavar="ID")
@click.option("--tenant", type=options.NAME, metavar="T", help="Its tenant; default CALLBOARD_TENANT.")
@options.state_dir
def enable(principal_id: str, tenant: str | None, **flags: object) -> int:
    """Accept the valid credentials of a principal again."""
    return _change(principal_id, tenant, flags, disabled=False)


def _change(principal_id: str, tenant: str | None, flags: dict[str, object], *, disabled: bool) -> int:
    settings = options.apply(**flags)
    chosen = tenant or settings.tenant
    if disabled and settings.auth != "required" and (chosen, principal_id) == (settings.tenant, settings.principal):
        raise BadRequest(
            f"'{principal_id}' in tenant '{chosen}' is this installation's own principal, which CALLBOARD_AUTH="
            f"{settings.auth} serves whatever this table says; CALLBOARD_AUTH=required serves only other credentials."
        )
    with open_database_of(settings) as database, database.write() as connection:
        table.disable(connection, chosen, principal_id, by=settings.principal, disabled=disabled)
    click.echo(f"'{principal_id}' in tenant '{chosen}' is {'disabled' if disabled else 'enabled'}.")
    return 0
