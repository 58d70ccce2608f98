"""What several commands declare: flags that are settings, --json, and --yes with the question that it answers.

Flags that are settings go into the environment, where this process and its children read them.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar, get_args

import click
import orjson

from cli.main import CALLER_DIR, CallerPath
from config.definitions.agent import Priority
from config.identity import principal
from config.settings import Settings, adopt_env_file, read_settings, settings, unknown_settings
from config.text.visible import visible

_warned: set[str] = set()
Command = TypeVar("Command", bound=Callable[..., Any])


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
    "--state-dir", type=CallerPath(file_okay=False), help="Folder of the database, the socket and the logs."
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


class Name(click.ParamType[str]):
    """What a tenant or a principal may be called."""

    name = "name"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if re.fullmatch(principal.NAME, str(value)) is None:
            self.fail(f"'{str(value)[:80]}' has to be {principal.NAME_FORM}.", param, ctx)
        return str(value)


NAME = Name()


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
        self._members = members

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        member = self._members.get(args[0]) if args else None
        if member is not None:
            return member.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, member.get_short_help_str(100)) for name, member in self._members.items()])
        super().format_epilog(ctx, formatter)
