"""What several commands declare: flags that are settings, --json, and --yes with the question that it answers.

Flags that are settings go into the environment, where this process and its children read them.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import click
import orjson

from cli.main import CALLER_DIR, CallerPath
from cli.output.durations import seconds_of
from cli.output.table import SHORT_ID, Form
from config.definitions.agent import Priority
from config.errors import BadRequest, CallboardError
from config.identity import principal
from config.ids import is_made
from config.settings import Settings, adopt_env_file, read_settings, settings, unknown_settings
from config.text.visible import visible

if TYPE_CHECKING:
    from bus.identity.short_ids import IdKind

_warned: set[str] = set()
Command = TypeVar("Command", bound=Callable[..., Any])
WHOLE_ID = 30
"""Characters of the shortest id that Callboard makes; an id of so many is looked up by no part of it."""
FORMS = [form for form in get_args(Form) if form != "table"]


class WholeNumber(click.IntRange):
    """A whole number between two limits; what is none is refused in plain words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            most = "" if self.max is None else f" to {self.max}"
            limits = f"from {self.min}{most}" if most else f"of at least {self.min}"
            self.fail(f"'{str(value)[:80]}' is not a whole number {limits}.", param, ctx)


state_dir = click.option(
    "--state-dir",
    type=CallerPath(file_okay=False),
    is_eager=True,  # types of ids read its database
    help="Folder of the database, the socket and the logs.",
)
host = click.option("--host", help="Address to serve on; default 127.0.0.1.")
port = click.option("--port", type=WholeNumber(0, 65535), help="TCP port; default 8000, 0 picks a free one.")
no_auth = click.option("--no-auth", is_flag=True, default=None, help="Serve an address that other machines reach.")
tls_certificate = click.option(
    "--tls-certificate", type=CallerPath(dir_okay=False), help="PEM file of a certificate: serve TLS 1.3."
)
tls_key = click.option("--tls-key", type=CallerPath(dir_okay=False), help="PEM file of the certificate's key.")
slots = click.option("--slots", type=WholeNumber(1, 2000), help="Runs that a worker process executes at once.")
queues = click.option("--queues", metavar="A,B", help="Queues the workers serve; default: the deployment's own.")
priority = click.option(
    "--priority", type=click.Choice(get_args(Priority)), help="Before which queued runs of its tenant the run begins."
)
grant = click.option("--grant", metavar="TEXT", help="A privilege grant for the run, as `callboard grant` prints it.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def listing(function: Callable[..., int]) -> Callable[..., int]:
    """Declare ``-o`` and ``--json`` of a command that lists rows, which gets both as ``form``."""

    @as_json
    @click.option(
        "-o",
        "--output",
        type=click.Choice(FORMS),
        help="All columns with whole ids; JSON; or the ids alone, for xargs.",
    )
    @wraps(function)
    def command(*args: Any, as_json: bool, output: Form | None, **values: Any) -> int:
        if as_json and output not in (None, "json"):
            raise click.UsageError("--json is the same as -o json; leave one of both out.")
        return function(*args, form="json" if as_json else output or "table", **values)

    return command


# --- ids


class Id(click.ParamType[str]):
    """An id: whole, or its beginning or its last characters, at least six, where only one has them."""

    def __init__(self, kind: IdKind) -> None:
        self.name, self.kind = str(kind), kind

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if ctx is None or ctx.resilient_parsing or not SHORT_ID <= len(text) < WHOLE_ID:
            return text
        ids = [id_ for id_, _ in self._like(text, ctx)]
        if len(ids) > 1 and text not in ids:
            raise click.UsageError(f"'{visible(text)}' may be several ids; write more of it: {', '.join(ids)}.", ctx)
        return ids[0] if ids and text not in ids else text

    def _like(self, part: str, ctx: click.Context) -> list[tuple[str, str | None]]:
        """Return the ids with this part; none where the database cannot be read, which the command itself reports."""
        folder = ctx.params.get("state_dir")  # a mark of click where the option is not given
        return ids_with(self.kind, part, folder if isinstance(folder, Path) else None)


class NewThreadId(Id):
    """A thread to continue, or a name for a new one: a part of a name is another name, and only ids are shortened."""

    def _like(self, part: str, ctx: click.Context) -> list[tuple[str, str | None]]:
        return [row for row in super()._like(part, ctx) if row[0] == part or is_made("thr", row[0])]


class Definition(click.ParamType[str]):
    """The id of an agent or a workflow, which is the name of its file."""

    def __init__(self, *kinds: Literal["agent", "workflow"]) -> None:
        self.kinds, self.name = kinds, kinds[0]


def ids_with(kind: IdKind, part: str, state_dir: Path | None) -> list[tuple[str, str | None]]:
    """Return the ids with this part; none where the database cannot be read, which the command itself reports."""
    from bus.identity.short_ids import ids_like
    from cli.open_runner import open_database_of

    with suppress(CallboardError):
        chosen = apply(state_dir=state_dir)
        with open_database_of(chosen) as database:
            return ids_like(database, chosen.local_principal, kind, part)
    return []


RUN, THREAD, NEW_THREAD, APPROVAL = Id("run"), Id("thread"), NewThreadId("thread"), Id("approval")
KEY, GRANT, STICKY, SUMMARY, WORKER = Id("key"), Id("grant"), Id("sticky"), Id("summary"), Id("worker")
AGENT, WORKFLOW, AGENT_OR_WORKFLOW = Definition("agent"), Definition("workflow"), Definition("agent", "workflow")


# --- values


class Name(click.ParamType[str]):
    """What a tenant or a principal may be called."""

    name = "name"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if re.fullmatch(principal.NAME, str(value)) is None:
            self.fail(f"'{str(value)[:80]}' has to be {principal.NAME_FORM}.", param, ctx)
        return str(value)


NAME = Name()


class Moment(click.ParamType[int]):
    """A time, or a length back from now, as HTTP takes it: milliseconds since 1970, or a negative number of them."""

    name = "30m|2h|3d|TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        with suppress(BadRequest):
            return -1000 * seconds_of(text)
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"'{text[:40]}' is no time; write how long ago, such as 30m, 2h or 3d, or a time: 2026-11-01T09:30Z.",
                param,
                ctx,
            )
        return round((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * 1000)


MOMENT = Moment()


def _unambiguous(text: str | bytes) -> Any:
    """Return a JSON value; raise ``ValueError`` where it is none, or has a field twice, as HTTP refuses it too."""
    value = orjson.loads(text)
    try:
        json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _once(pairs: list[tuple[str, Any]]) -> None:
    names = set[str]()
    for name, _ in pairs:
        if name in names:
            raise ValueError(f"it has the field '{name[:80]}' twice")
        names.add(name)


class JsonValue(click.ParamType[Any]):
    """A value as JSON."""

    name = "JSON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return _unambiguous(value)
        except ValueError as error:
            self.fail(f"this is no JSON: {error}; write text in quotes, as '\"yes\"'.", param, ctx)


class JsonObject(click.ParamType[dict[str, Any]]):
    """A JSON object: a file that has it, ``-`` for standard input, or the object itself."""

    name = "FILE|-|JSON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        try:
            data = _unambiguous(self._text(str(value), param, ctx))
        except ValueError as error:
            self.fail(f"the input is no JSON: {error}.", param, ctx)
        if not isinstance(data, dict):
            self.fail("the input has to be a JSON object, in braces.", param, ctx)
        return data

    def _text(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if value.lstrip().startswith(("{", "[")):
            return value.encode()
        if value == "-":
            return sys.stdin.buffer.read()
        try:
            return (CALLER_DIR / value).read_bytes()
        except OSError as error:
            self.fail(f"{value} cannot be read: {error.strerror}. Name a file, - or a JSON object.", param, ctx)


yes = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def apply(**flags: object) -> Settings:
    """Return the settings with the given flags applied; child processes inherit them.

    Raises:
        SettingInvalid: a value cannot be used.
    """
    values = {name: value for name, value in flags.items() if value is not None}
    for name, value in values.items():
        os.environ[f"CALLBOARD_{name.upper()}"] = str(value)
    settings.cache_clear()
    adopt_env_file()
    for warning in unknown_settings():
        if warning not in _warned:
            _warned.add(warning)
            click.echo(f"warning: {visible(warning)}", err=True)
    return read_settings()


def confirm(question: str) -> None:
    """Return when the user says yes.

    Raises:
        click.Abort: the user says no.
        click.UsageError: standard input ended, so there is no user to ask.
    """
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():  # Ctrl-C
            raise
        click.echo(err=True)
        raise click.UsageError("standard input has no answer, so nothing was done; --yes does not ask.") from None
    if not agreed:
        raise click.Abort


def _returns(_context: click.Context, _parameter: click.Parameter, waits: bool | None) -> bool:
    """Whether to return once the run waits for a person: if it was not said, where there is no terminal."""
    if waits is not None:
        return not waits
    return not any(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


no_wait = click.option(
    "--wait/--no-wait",
    "no_wait",
    default=None,
    callback=_returns,
    help="Once it waits for a person: keep waiting, or return with status 3. Unsaid, it waits on a terminal only.",
)


class CommandGroup(click.Command):
    """A command that runs a member instead of itself if the first argument names one.

    A click group cannot do this, since the first argument may also be a value: `threads THREAD`.
    """

    def __init__(self, *args: Any, members: dict[str, click.Command], **options: Any) -> None:
        super().__init__(*args, **options)
        self.members = members

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        member = self.members.get(args[0]) if args else None
        if member is not None:
            return member.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, member.get_short_help_str(100)) for name, member in self.members.items()])
        super().format_epilog(ctx, formatter)
