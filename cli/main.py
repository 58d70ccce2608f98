"""The command group, which imports commands lazily, and the one place that turns errors into messages."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from cli import COMMANDS, COMPLETION, EXAMPLES, GROUPS
from cli.interrupts import CANCELLED, end_at_once, leave_to_command
from config.at_exit import close_all
from config.errors import CallboardError, Permanent, SettingInvalid
from config.folders import ROOT, require_own_folders
from config.text.names import did_you_mean, nearest

SUCCEEDED, FAILED, WRONG_USAGE = 0, 1, 2

COMPLETES = "_CALLBOARD_COMPLETE"
"""The variable by which a shell asks for completions; `callboard completion SHELL` prints who sets it."""

MAX_COMPLETION_S, MAX_READ_S = 3.0, 0.3
"""Seconds after which a completion is given up, since a person waits for it; and after which its reading is."""
CALLER_DIR = Path.cwd()
"""The caller's working folder, which typed paths are relative to; commands run from the root."""


class LazyGroup(click.Group):
    """Commands are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            if cmd_name.startswith("-"):  # click says that there is no such option
                return None
            hint = did_you_mean(cmd_name, COMMANDS)
            raise click.UsageError(f"there is no command '{cmd_name[:80]}'.{hint} `./callboard --help` lists them.")
        command = _imported(COMMANDS[cmd_name][0])
        assert isinstance(command, click.Command)
        lines = (f"./callboard {line}" if line.split()[0] in COMMANDS else line for line in EXAMPLES[cmd_name])
        command.epilog = "\n  ".join(["\b\nExamples:", *lines])
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", line) for name, (_, line) in commands.items()])


class CallerPath(click.Path):
    """A path relative to the caller's working folder, not to the root."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        return Path(os.fsdecode(super().convert(CALLER_DIR / str(value), param, ctx)))


def _print_version(context: click.Context, _param: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        from config.settings.project import own_version

        click.echo(f"callboard {own_version()}")
        context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, subcommand_metavar="COMMAND …")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def cli() -> None:
    """Callboard: an agent fleet on the Celery and Redis you already run.

    `./callboard up` starts everything; `./callboard COMMAND --help` says more.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and end the process with its status; an error is one message on stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if COMPLETES in os.environ:
        complete()
    if any(word in COMMANDS for word in words):  # --help alone logs nothing, and importing logging takes 3 ms
        _log_errors_only()
    status = status_of(words)
    end_at_once()
    close_all()
    if "bus.loop" in sys.modules:  # --help needs none
        import_module("bus.loop").stop_process_loop()
    sys.exit(status)


def _imported(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def complete() -> NoReturn:
    """Print what the shell may put in, and end this process; nothing where that fails, or takes too long."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    signal.signal(signal.SIGALRM, lambda *_: os._exit(SUCCEEDED))
    signal.setitimer(signal.ITIMER_REAL, MAX_COMPLETION_S)
    try:
        leave_to_command()
        os.chdir(ROOT)
        _imported(COMPLETION)().main([], "./callboard", COMPLETES)
    except SystemExit:
        sys.stdout.flush()
    finally:
        os._exit(SUCCEEDED)


def limit_reading() -> None:
    """Give up a completion whose reading, of files or the database, takes too long from now on."""
    if COMPLETES in os.environ:
        signal.setitimer(signal.ITIMER_REAL, MAX_READ_S)


def status_of(arguments: list[str]) -> int:
    """Run a command and return its exit status: 0 succeeded, 1 failed, 2 wrong usage, 130 cancelled."""
    try:
        leave_to_command()
        os.chdir(ROOT)
        require_own_folders(ROOT)
        colour: dict[str, Any] = {"color": False if wants_no_colour() else None}
        result = cli.main(arguments or ["--help"], "./callboard", standalone_mode=False, **colour)
        return result if isinstance(result, int) else SUCCEEDED
    except (click.Abort, KeyboardInterrupt):
        return CANCELLED
    except click.exceptions.NoArgsIsHelpError as error:  # `./callboard keys`: its message is the help
        print(error.format_message(), file=sys.stderr)
        return WRONG_USAGE
    except click.NoSuchOption as error:  # click suggests --help for --model
        names = [name for name in error.possibilities or () if nearest(error.option_name, [name])]
        _complain(click.NoSuchOption(error.option_name, error.message, names).format_message(), error.ctx)
        return WRONG_USAGE
    except click.UsageError as error:
        _complain(error.format_message(), error.ctx)
        return WRONG_USAGE
    except click.ClickException as error:
        _complain(error.format_message())
        return error.exit_code
    except BrokenPipeError:  # `./callboard runs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCEEDED
    except CallboardError as error:
        if _is_debugging():
            raise
        _complain(f"{error} [{error.code}]")
        return WRONG_USAGE if _is_callers(error) else FAILED
    except Exception as error:  # a bug; the traceback helps developers, not users
        if _is_debugging():
            raise
        _complain(
            f"unexpected error: {type(error).__name__}: {error}. "
            "Run the command again with CALLBOARD_DEBUG=1 for the traceback, and please report it."
        )
        return FAILED


def wants_no_colour() -> bool:
    """Return whether the environment asks for output without colours (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def _log_errors_only() -> None:
    """Keep log warnings off the terminal: a command reports itself what its user has to know.

    Without a handler Python would print each warning. `up`, `web` and workers set up their own log later.
    """
    import logging

    class Redacted(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            from config.redaction import redact

            return redact(super().format(record))

    if not _is_debugging():
        handler = logging.StreamHandler()
        handler.setLevel(logging.ERROR)
        handler.setFormatter(Redacted())
        logging.getLogger().addHandler(handler)


def _complain(sentence: str, context: click.Context | None = None) -> None:
    from cli.output.quoted import hanging
    from config.redaction import redact

    print(hanging(f"error: {redact(sentence)}"), file=sys.stderr)
    if context is not None and context.command is not cli:
        print(f"       See {context.command_path} --help.", file=sys.stderr)


def _is_callers(error: CallboardError) -> bool:
    """Return whether the caller's input is wrong: the errors that HTTP answers with 4xx."""
    return isinstance(error, SettingInvalid) or (isinstance(error, Permanent) and 400 <= error.status < 500)


def _is_debugging() -> bool:
    return os.environ.get("CALLBOARD_DEBUG", "").lower() not in ("", "0", "false")
