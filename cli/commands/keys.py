"""`./callboard keys`: create, list and revoke the API keys of programs."""

from __future__ import annotations

from functools import partial

import click

from agents.registry import AgentRegistry
from bus.identity.credentials import keys as table
from bus.identity.credentials.key_form import KEY, SECRET_NAME, KeyForm
from bus.identity.credentials.keys import ApiKey
from bus.identity.errors import NAME_RESERVED
from cli import options
from cli.open_runner import open_database_of
from cli.output.durations import seconds_of
from cli.output.json import print_json
from cli.output.table import Column, Form, Row, Table
from config.clock import stamp
from config.database.shared_secret import shared_secret
from config.identity.principal import Principal, Role, Verb

ROLES, VERBS = click.Choice([role.value for role in Role]), click.Choice([verb.value for verb in Verb])


@click.group()
def keys() -> None:
    """Create, list and revoke API keys; each acts as the principal of its name."""


@keys.command()
@click.argument("name", type=options.NAME)
@click.option("--tenant", type=options.NAME, metavar="T", help="The key's tenant; default CALLBOARD_TENANT.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=ROLES,
    help="What it does with runs of others in its tenant: viewer sees, operator also stops, approver also answers; "
    "admin does all of it and manages keys.",
)
@click.option("--agent", "agents", multiple=True, metavar="A", help="Only for this agent; default: all.")
@click.option(
    "--verb",
    "verbs",
    multiple=True,
    type=VERBS,
    help="Only to do this; default: all.",
)
@click.option("--expires", metavar="30d", help="Valid for so long (s, m, h, d); default: until it is revoked.")
@options.as_json
@options.state_dir
def create(
    name: str,
    tenant: str | None,
    roles: tuple[str, ...],
    agents: tuple[str, ...],
    verbs: tuple[str, ...],
    expires: str | None,
    as_json: bool,
    **flags: object,
) -> int:
    """Create a key and print it, once."""
    table.require_useful_scope(tuple(map(Verb, verbs)), agents)
    settings = options.apply(**flags)
    registry = AgentRegistry(settings.agent_folders)
    principal = Principal(
        tenant=tenant or settings.tenant,
        id=name,
        roles=frozenset(map(Role, roles)),
        verbs=frozenset(map(Verb, verbs or Verb)),
        agents=frozenset(registry.get(agent).id for agent in agents) or None,
    )
    if settings.is_local(principal):
        raise NAME_RESERVED(name=principal.id, tenant=principal.tenant)
    lifetime_s = None if expires is None else seconds_of(expires)
    with open_database_of(settings, create=True) as database:
        form = KeyForm(partial(shared_secret, database, SECRET_NAME))
        form.open()
        with database.write() as connection:
            local = settings.local_principal
            key, text = table.create(connection, form, principal, by=local.id, lifetime_s=lifetime_s, local=local)
    _print_new(key, text, as_json)
    return 0


def _print_new(key: ApiKey, text: str, as_json: bool) -> None:
    if as_json:
        print_json(key.shown() | {"key": text}, lines=True)
        return
    click.echo(text)
    click.secho(f"Key {key.id} of '{key.name}' in tenant '{key.tenant}'. It is shown only now.", err=True, dim=True)


def _state(key: Row) -> str:
    if "revoked_at" in key:
        return f"revoked {_minute(key['revoked_at'])}"
    if "expires_at" not in key:
        return "valid"
    return f"{'expired' if key['expires_at'] < stamp() else 'until'} {_minute(key['expires_at'])}"


def _scope(key: Row) -> str:
    parts = [f"{kind} {', '.join(key[kind])}" for kind in ("verbs", "agents") if kind in key]
    return " · ".join([*key["roles"], *parts])


def _minute(stamped: str) -> str:
    return stamped[:16].replace("T", " ")


KEYS = Table(
    "id",
    (
        Column("KEY", "id"),
        Column("PRINCIPAL", lambda key: f"{key['tenant']}/{key['name']}"),
        Column("STATE", _state, worth=90, colour=lambda key: "red" if _state(key)[0] in "re" else "green"),
        Column("AGE", "created_at", worth=50, is_time=True, is_number=True),
        Column("USED", "used_at", worth=60, is_time=True, is_number=True),
        Column("BY", "created_by", is_wide=True),
        Column("SCOPE", _scope),
    ),
)


@keys.command("list")
@click.option("--tenant", type=options.NAME, metavar="T", help="Only those of this tenant.")
@options.listing
@options.state_dir
def list_keys(tenant: str | None, form: Form, **flags: object) -> int:
    """List the keys, newest first, with those that ended."""
    with open_database_of(options.apply(**flags)) as database, database.read() as connection:
        rows = [key.shown() for key in table.of_tenant(connection, tenant)]
    KEYS.print(rows, form, empty="no keys. Create one: ./callboard keys create NAME")
    return 0


@keys.command()
@click.argument("key_id", type=options.KEY, metavar="ID")
@options.as_json
@options.state_dir
def revoke(key_id: str, as_json: bool, **flags: object) -> int:
    """End a key everywhere, within a second; ID may be the key itself. Its runs stay."""
    whole = KEY.fullmatch(key_id)
    key_id = whole[1] if whole else key_id
    settings = options.apply(**flags)
    with open_database_of(settings) as database, database.write() as connection:
        key = table.revoke(connection, key_id, None, by=settings.principal)
    if as_json:
        print_json(key.shown(), lines=True)
    else:
        click.echo(f"Key {key.id} of '{key.name}' is revoked.")
    return 0
