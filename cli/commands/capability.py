"""`./callboard capability`: list and check the capabilities, and write a new one with its test."""

from __future__ import annotations

import keyword
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli import options
from cli.capability_files import KINDS, files_of
from cli.main import CALLER_DIR
from cli.output.json import print_json
from cli.output.table import Column, Form, Row, Table
from config.definitions.errors import DefinitionInvalid
from config.errors import BadRequest
from config.folders import FOLDERS, ROOT
from config.settings import Settings
from config.text.visible import visible

if TYPE_CHECKING:
    from config.definitions.capability import CapabilityDefinition


@click.group()
def capability() -> None:
    """List and check the capabilities, and write a new one."""


@capability.command()
@click.argument("name")
@click.option("--runner", type=click.Choice(KINDS), default="process", show_default=True, help="What carries it out.")
@click.option(
    "--image", default="docker.io/library/busybox:stable", show_default=True, help="The image of a container."
)
def new(name: str, runner: str, image: str) -> int:
    """Write the capability NAME with its test, which passes at once."""
    settings = options.apply()
    _refuse_name(name, settings)
    folder = settings.capability_folders[0]
    written = files_of(runner, name, folder, ROOT, image)
    there = [path for path in written if path.exists()]
    if there:
        raise BadRequest(f"{_shown(there[0])} is there already; choose another name, or remove the file.")
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        click.echo(f"wrote {_shown(path)}")
    test = next(path for path in written if path.name.startswith("test_"))
    hint = f"Name it in an agent's `tools: [{name}]`; docs/testing.md says how to run {_shown(test)}."
    click.secho(hint, dim=True)
    return 0


def _state(row: Row) -> str:
    return "cannot be read" if "problem" in row else "retired" if row["retired"] else "ready"


CAPABILITIES = Table(
    "id",
    (
        Column("CAPABILITY", "id"),
        Column("VERSION", "version", worth=70),
        Column("RUNNER", "runner", worth=80),
        Column("EFFECT", "effect", worth=90),
        Column("CLASS", "classification", worth=60),
        Column("STATE", _state),
        Column("MAINTAINER", "maintainer"),
    ),
)


@capability.command("list")
@options.listing
def list_capabilities(form: Form) -> int:
    """List the capabilities of the folders; their files are read and nothing is imported."""
    rows = [_row(capability_id, definition) for capability_id, definition in _found(options.apply()).items()]
    CAPABILITIES.print(rows, form, empty="no capabilities; `./callboard capability new NAME` writes one.")
    return 0


@capability.command()
@click.argument("ids", metavar="[NAME]...", nargs=-1)
@options.as_json
def check(ids: tuple[str, ...], as_json: bool) -> int:
    """Check that this machine can call each capability: its file, what it names, its image and its secrets."""
    from agents.checkup import problems_of, warnings_of

    settings = options.apply()
    definitions = _found(settings)
    unknown = [name for name in ids if name not in definitions]
    if unknown:
        name_text = visible(unknown[0])[:80]
        raise BadRequest(f"there is no capability '{name_text}'; `./callboard capability list` lists them.")
    rows = [
        {"id": name, "problems": problems_of(name, settings), "warnings": warnings_of(name, settings)}
        for name in ids or definitions
    ]
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            _say(row)
    return 1 if any(row["problems"] for row in rows) else 0


def _say(row: dict[str, Any]) -> None:
    click.echo(f"{'fails' if row['problems'] else 'ok':<6} {visible(row['id'])}")
    for problem in row["problems"]:
        click.secho(f"       {visible(problem)}", fg="red")
    for warning in row["warnings"]:
        click.secho(f"       {visible(warning)}", fg="yellow")


def _found(settings: Settings) -> dict[str, CapabilityDefinition | DefinitionInvalid]:
    from agents.capabilities.folder import declared

    return dict(declared(settings))


def _row(capability_id: str, definition: CapabilityDefinition | DefinitionInvalid) -> dict[str, Any]:
    if isinstance(definition, DefinitionInvalid):
        return {"id": capability_id, "problem": str(definition)}
    names = ("name", "version", "maintainer", "kind", "effect", "classification", "retired", "file")
    return {"id": capability_id, "runner": definition.runner.type} | {name: getattr(definition, name) for name in names}


def _refuse_name(name: str, settings: Settings) -> None:
    """Refuse what is no name, and names of others: a file ``json.py`` would hide Python's own from its neighbours."""
    from agents.catalogue import TOOLS
    from config.definitions.capability import CAPABILITY_ID

    name_text = visible(name)[:80]
    if not CAPABILITY_ID.fullmatch(name) or "-" in name:
        problem = "write letters, digits and '_', at most 64, beginning with a letter."
        raise BadRequest(f"'{name_text}' is no name: {problem}")
    if keyword.iskeyword(name) or name in sys.stdlib_module_names or name in FOLDERS:
        raise BadRequest(f"'{name_text}' is a word or a module of Python or Callboard; choose another name.")
    if name in TOOLS.entries(settings):
        raise BadRequest(f"'{name_text}' is the name of a tool already; choose another name.")


def _shown(path: Path) -> str:
    return str(path.relative_to(CALLER_DIR)) if path.is_relative_to(CALLER_DIR) else str(path)
