"""The commands as click knows them, with their words alone: click's own completion walks them."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from cli import COMMANDS
from cli.completion.reading import Found, ids_for_shell, read_places
from cli.main import CallerPath, limit_reading
from config.text.visible import visible

if TYPE_CHECKING:
    from bus.identity.short_ids import IdKind

FILE = Path(__file__).with_name("commands.json")
Items = list[CompletionItem[str]]
Sketch = Mapping[str, Any]


class Sketched(click.Command):
    """A command or, with members, one whose first argument may name one of them."""

    def __init__(self, name: str, sketch: Sketch, statements: Mapping[str, str]) -> None:
        parameters = [_parameter(each, statements) for each in sketch["parameters"]]
        super().__init__(name, params=parameters, help=sketch["help"])
        members = sketch.get("members", {})
        self.members = {member: Sketched(member, each, statements) for member, each in members.items()}

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        member = self.members.get(args[0]) if args else None
        if member is not None:
            return member.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> Items:
        return [*_named(self.members_with_help(), incomplete), *super().shell_complete(ctx, incomplete)]

    def members_with_help(self) -> dict[str, str]:
        return {name: member.help or "" for name, member in self.members.items()}


class Commands(click.Group):
    """All commands, each sketched when the line names it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        file = json.loads(FILE.read_text(encoding="utf-8"))
        if cmd_name not in file["commands"]:
            raise click.UsageError(f"there is no command '{cmd_name[:80]}'.")
        return Sketched(cmd_name, file["commands"][cmd_name], file["ids"])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> Items:
        lines = {name: line for name, (_, line) in COMMANDS.items()}
        return [*_named(lines, incomplete), *click.Command.shell_complete(self, ctx, incomplete)]


class Ids(click.ParamType[str]):
    """Ids of a kind."""

    def __init__(self, kind: IdKind, statements: Mapping[str, str], *, is_name: bool) -> None:
        self.name: IdKind = kind
        self._statements, self._is_name = statements, is_name

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        folder = ctx.params.get("state_dir")  # a mark of click where the option is not given
        state_dir = folder if isinstance(folder, Path) else None
        rows: Found = []
        with suppress(sqlite3.Error):
            rows = ids_for_shell(self._statements, self.name, incomplete, state_dir, is_made_here=self._is_name)
        items = [CompletionItem(id_, help=_one_line(title)) for id_, title in rows]
        return [*_members(ctx, param, incomplete), *items]


class Words(click.ParamType[str]):
    """Any text; the members of a command that may stand in its place."""

    name = "text"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        return _members(ctx, param, incomplete)


class Definitions(click.ParamType[str]):
    """The ids of agents or workflows, which are the names of their files."""

    name = "definition"

    def __init__(self, kinds: Iterable[str]) -> None:
        self._kinds = frozenset(kinds)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        places = read_places()
        limit_reading()
        files = [path for folder in places.agent_folders for path in sorted(folder.glob("*.y*ml"))]
        ids = [path.stem for path in files if path.stem.startswith(incomplete) and self._is_of_kind(path)]
        return [*_members(ctx, param, incomplete), *map(CompletionItem, dict.fromkeys(ids))]

    def _is_of_kind(self, path: Path) -> bool:
        """Return whether a file is of one of the kinds, without reading all of its YAML, which takes long."""
        is_workflow = re.search(r"^(nodes|blueprint):", path.read_text(errors="replace"), re.MULTILINE)
        return ("workflow" if is_workflow else "agent") in self._kinds


def sketched() -> click.Group:
    """Return the commands, for click's completion."""
    version = click.Option(["--version"], is_flag=True, help="Print the version.")
    return Commands("callboard", params=[version], context_settings={"help_option_names": ["-h", "--help"]})


def _parameter(sketch: Sketch, statements: Mapping[str, str]) -> click.Parameter:
    kind = _type(sketch, statements)
    many: dict[str, Any] = {"nargs": sketch.get("nargs", 1)}
    if "argument" in sketch:
        return click.Argument([sketch["argument"]], type=kind, required=False, **many)
    facts: dict[str, Any] = {"is_flag": sketch.get("is_flag", False), "help": sketch.get("help")}
    if not facts["is_flag"]:
        facts |= {"type": kind, "multiple": sketch.get("multiple", False), **many}
    if sketch.get("may_be_bare"):
        facts["flag_value"] = ""
    return click.Option([sketch["option"], *sketch["words"]], **facts)


def _type(sketch: Sketch, statements: Mapping[str, str]) -> click.ParamType[Any]:
    if "choices" in sketch:
        return click.Choice(sketch["choices"])
    if "ids" in sketch:
        return Ids(sketch["ids"], statements, is_name=sketch.get("is_name", False))
    if "definitions" in sketch:
        return Definitions(sketch["definitions"])
    if "path" in sketch:
        return CallerPath(file_okay=sketch["path"] == "file")
    return Words()


def _members(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Return the members that the first argument of a command may name in place of a value."""
    is_first = isinstance(param, click.Argument) and not ctx.params.get(param.name or "")
    command = ctx.command
    return _named(command.members_with_help(), incomplete) if is_first and isinstance(command, Sketched) else []


def _named(names: Mapping[str, str], incomplete: str) -> Items:
    return [CompletionItem(name, help=line) for name, line in names.items() if name.startswith(incomplete)]


def _one_line(title: str | None) -> str | None:
    return None if title is None else visible(" ".join(title.split()))[:80]
