"""`./callboard audit`: list the audit log, export it, and verify that nothing of it was changed or removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import orjson

from bus.identity.audit import chain
from bus.identity.audit.anchors import SECRET_NAME, Anchor, Anchors, anchors_in
from bus.journal.readers import unseal_originals
from bus.sealing import sealer_of
from cli import options
from cli.main import FAILED, SUCCEEDED, CallerPath
from cli.open_runner import open_database_of
from cli.options import CommandGroup
from cli.output.json import print_json, print_json_line
from cli.output.table import Column, Form, Row, Table
from config.clock import stamp
from config.database.shared_secret import known_secret
from config.settings import Settings
from config.text.visible import visible

tenant_option = click.option(
    "--tenant", type=options.NAME, metavar="T", help="Of this tenant; default CALLBOARD_TENANT."
)


@click.command()
@click.option("--tenant", type=options.NAME, metavar="T", help="Only this tenant's chain; default: all.")
@click.option(
    "--anchors",
    multiple=True,
    type=CallerPath(exists=True, dir_okay=False),
    help="Also compare with the heads in FILE.",
)
@options.as_json
@options.state_dir
def verify(tenant: str | None, anchors: tuple[Path, ...], as_json: bool, **flags: object) -> int:
    """Compute every digest again, and compare with the heads in this machine's log files; status 1 if any differs."""
    settings = options.apply(**flags)
    with open_database_of(settings) as database:
        secret = known_secret(database, SECRET_NAME)
        own = anchors_in(_log_files(settings), secret)
        named = [(path, anchors_in([path], secret)) for path in anchors]
        all_anchors = [*own.signed, *(anchor for _, heads in named for anchor in heads.signed)]
        chosen = [tenant] if tenant else sorted({*chain.tenants(database), *(anchor.tenant for anchor in all_anchors)})
        chains = [chain.verify(database, verified, all_anchors) for verified in chosen]
    may_lack = bool(all_anchors) or not own.skipped
    is_proven = [_is_proven("the log files", own, may_lack), *(_is_proven(path, heads, False) for path, heads in named)]
    if as_json:
        print_json([_facts(verified) for verified in chains])
    elif not chains:
        click.echo("the audit log has no entries.")
    else:
        for verified in chains:
            _print_verified(verified, all_anchors)
    is_whole = all(verified.broken is None for verified in chains)
    return SUCCEEDED if is_whole and all(is_proven) else FAILED


def _is_proven(where: Path | str, heads: Anchors, may_lack: bool) -> bool:
    """Say how many lines were skipped, and return whether a signed one is left, unless it may be lacking."""
    if heads.skipped:
        lines = "1 line" if heads.skipped == 1 else f"{heads.skipped} lines"
        why = "the form of a head without this installation's signature, skipped"
        click.secho(f"warning: {where}: {lines} with {why}.", err=True, fg="yellow")
    is_proven = bool(heads.signed) or may_lack
    if not is_proven:
        why = "no line with a head that this installation signed; remove what a collector put before its lines"
        click.secho(f"{where}: {why}.", err=True, fg="red", bold=True)
    return is_proven


def _log_files(settings: Settings) -> list[Path]:
    """Return the log files of this machine's state folder, rotated ones included."""
    return sorted(path for path in (settings.state / "logs").glob("*.log*") if not path.name.endswith(".lock"))


def _facts(verified: chain.Verified) -> dict[str, Any]:
    facts: dict[str, Any] = {name: getattr(verified, name) for name in ("tenant", "entries", "digest", "anchors")}
    if verified.broken is not None:
        facts |= {"broken": verified.broken, "problem": verified.problem}
    return facts


def _print_verified(verified: chain.Verified, anchors: list[Anchor]) -> None:
    if verified.broken is not None:
        sentence = f"tenant {verified.tenant}: entry {verified.broken} is the first that is broken: {verified.problem}."
        click.secho(sentence, fg="red", bold=True)
        return
    heads = "1 head" if verified.anchors == 1 else f"{verified.anchors} heads"
    click.echo(f"tenant {verified.tenant}: {verified.entries} entries, whole; compared with {heads} in log files.")
    if not verified.anchors:
        why = "no log file has a head of it, so entries missing at the end, or a chain built anew, would not show"
        click.secho(f"warning: {why}; name collected log files with --anchors.", err=True, fg="yellow")


@click.command()
@tenant_option
@click.option("--after", type=options.WholeNumber(0), default=0, metavar="N", help="Only entries behind this number.")
@options.state_dir
def export(tenant: str | None, after: int, **flags: object) -> int:
    """Print the entries as JSON lines, the oldest first; docs/audit.md says how to verify them elsewhere."""
    settings = options.apply(**flags)
    with open_database_of(settings) as database:
        for entry in chain.entries(database, tenant or settings.tenant, after=after):
            print_json_line(entry.line())
    return SUCCEEDED


@click.command()
@click.argument("run_id", type=options.RUN, metavar="RUN")
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is recorded.")
@options.as_json
@options.state_dir
def unseal(run_id: str, reason: str, as_json: bool, **flags: object) -> int:
    """Print the originals of what guardrails removed from a run; that they were read is recorded first."""
    settings = options.apply(**flags)
    if not reason.strip():
        raise click.BadParameter("it may not be empty", param_hint="--reason")
    with open_database_of(settings) as database:
        originals = unseal_originals(database, sealer_of(settings), settings.local_principal, run_id, reason.strip())
    if as_json:
        print_json(
            [{"what": sealed.what, "at": stamp(sealed.created_ms), "original": sealed.value} for sealed in originals]
        )
    elif not originals:
        click.echo(f"run {visible(run_id)} has no sealed originals.")
    for sealed in () if as_json else originals:
        text = sealed.value if isinstance(sealed.value, str) else orjson.dumps(sealed.value).decode()
        click.echo(f"{stamp(sealed.created_ms)}  {visible(sealed.what)}\n{visible(text)}\n")
    return SUCCEEDED


def _who(entry: Row) -> str:
    return f"{entry['principal'] or '-'} ({':'.join(filter(None, (entry['credential'], entry['credential_id'])))})"


def _facts_text(entry: Row) -> str:
    return " ".join(f"{name}={orjson.dumps(value).decode()}" for name, value in entry["facts"].items())


ENTRIES = Table(
    "number",
    (
        Column("ENTRY", "number", is_number=True),
        Column("AGE", "at", worth=80, is_time=True, is_number=True),
        Column("WHO", _who, worth=90),
        Column("DID", lambda entry: f"{entry['action']} {entry['target']}".rstrip()),
        Column("TO", "target_id", worth=70),
        Column("OUTCOME", "outcome", worth=60, colour=lambda entry: None if entry["outcome"] == "done" else "yellow"),
        Column("FACTS", _facts_text),
    ),
)


@click.command(cls=CommandGroup, members={"verify": verify, "export": export, "unseal": unseal})
@tenant_option
@click.option("--limit", type=options.WholeNumber(1, 1000), default=20, show_default=True)
@options.listing
@options.state_dir
def audit(tenant: str | None, limit: int, form: Form, **flags: object) -> int:
    """List the newest entries of the audit log, the newest first."""
    settings = options.apply(**flags)
    with open_database_of(settings) as database:
        entries = chain.newest(database, tenant or settings.tenant, limit=limit)
    rows = [{**entry.content(), "digest": entry.digest} for entry in entries]
    ENTRIES.print(rows, form, empty=f"the audit log of tenant '{tenant or settings.tenant}' has no entries.")
    return SUCCEEDED
