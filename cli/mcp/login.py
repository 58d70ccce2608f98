"""`./callboard mcp login` and `logout`: a person's account at an MCP server that is reached by HTTP."""

from __future__ import annotations

import asyncio
import webbrowser
from typing import Any

import click

from agents.errors import McpServerDown
from bus.sealing import Sealer, sealer_of
from cli import options
from cli.open_runner import open_database_of
from config.settings import Settings

_tenant = click.option("--tenant", type=options.NAME, metavar="T", help="Whose login; default CALLBOARD_TENANT.")


@click.command()
@click.argument("server")
@_tenant
@click.option("--no-browser", is_flag=True, help="Print the address where to sign in, and open nothing.")
@click.option(
    "--port", type=options.WholeNumber(1, 65535), help="The port of this machine to which the browser comes back."
)
@click.option("--timeout", "timeout_s", type=options.WholeNumber(1, 3600), default=300, help="Seconds to sign in.")
@options.state_dir
def login(server: str, tenant: str | None, no_browser: bool, port: int | None, timeout_s: int, **flags: Any) -> None:
    """Sign in at an MCP server in the browser; workers use the login, sealed, until it is ended.

    The browser comes back to 127.0.0.1 of this machine. From another machine, forward the port:
    `ssh -L 8765:127.0.0.1:8765 HOST` and `--port 8765 --no-browser`.
    """
    from cli.mcp.servers import known_server

    settings = options.apply(**flags)
    definition = known_server(server, settings)
    if definition.oauth is None or not definition.oauth.needs_login:
        problem = "has no `oauth:` with `grant: authorization_code`, so there is no login"
        raise click.ClickException(f"the MCP server {server} {problem}. See docs/mcp-servers.md.")
    sealer = _sealer(settings)

    def show(url: str) -> None:
        click.echo(f"Sign in at:\n\n{url}\n")
        if not no_browser and not _opened(url):
            click.echo("There is no browser here: open the address yourself.", err=True)

    with open_database_of(settings, create=True) as database:
        from agents.tools.mcp.oauth.login import keep_login, log_in  # takes half a second
        from bus.journal.stores import McpLogins

        account = asyncio.run(log_in(definition, show, port=port, timeout_s=timeout_s))
        of_tenant = tenant or settings.tenant
        keep_login(McpLogins(database), sealer, of_tenant, definition, account, by=settings.principal)
    click.echo(f"The agents of {of_tenant} are logged in at {server}.")


@click.command()
@click.argument("server")
@_tenant
@options.state_dir
def logout(server: str, tenant: str | None, **flags: Any) -> None:
    """End the login at an MCP server, and revoke its tokens. Workers stop using it within five seconds."""
    from cli.mcp.servers import known_server

    settings = options.apply(**flags)
    definition, of_tenant = known_server(server, settings), tenant or settings.tenant
    with open_database_of(settings) as database:
        from agents.tools.mcp.oauth.login import log_out
        from bus.journal.stores import McpLogins

        logins, sealer = McpLogins(database), sealer_of(settings) or Sealer(())
        done = asyncio.run(log_out(logins, sealer, of_tenant, definition, by=settings.principal))
    if done is None:
        raise McpServerDown(f"{of_tenant} has no login at the MCP server {server}.")
    click.echo(f"The agents of {of_tenant} are logged out at {server}. {done}")


def _sealer(settings: Settings) -> Sealer:
    sealer = sealer_of(settings)
    if sealer is None:
        raise click.ClickException(
            "a login is kept encrypted, and CALLBOARD_SEAL_KEYS is not set: make a key with `openssl rand -base64 32`, "
            "and set it for the workers too."
        )
    return sealer


def _opened(url: str) -> bool:
    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False
