"""The group of commands: lazy, so that --help is quick; and the one place where errors become sentences."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click

from config.errors import CallboardError, Permanent, SettingInvalid, nearest

ROOT = Path(__file__).resolve().parent.parent.parent
SUCCEEDED, FAILED, WRONG_USAGE, CANCELLED = 0, 1, 2, 130

COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("web.terminal.up:up", "Start everything and print the page's address."),
    "run": ("web.terminal.run:run", "Give an agent a sentence, here and now or detached."),
    "watch": ("web.terminal.watch:watch", "Follow a run, from its beginning or from a cursor."),
    "runs": ("web.terminal.runs:runs", "List the runs."),
    "approve": ("web.terminal.approve:approve", "Answer what a run asks."),
    "cancel": ("web.terminal.cancel:cancel", "Stop a run."),
    "agents": ("web.terminal.agents:agents", "List the agents, and check each deeply."),
    "threads": ("web.terminal.threads:threads", "List the threads."),
    "logs": ("web.terminal.logs:logs", "Show what the logger observer wrote."),
    "worker": ("web.terminal.worker:worker", "Keep worker processes running on this machine."),
    "web": ("web.terminal.web:web", "Serve HTTP and the page."),
    "migrate": ("web.terminal.migrate:migrate", "Bring the database to the schema this code needs."),
    "backup": ("web.terminal.backup:backup", "Copy the database to a file while everything runs."),
    "doctor": ("web.terminal.doctor:doctor", "Say what is wrong with this installation, and the remedy."),
    "check": ("web.terminal.check:check", "Format, lint, import rules, types, unit tests."),
    "test": ("web.terminal.test:test", "The check, then everything that needs real processes."),
    "crashtest": ("web.terminal.crashtest:crashtest", "Kill an agent's run at every place, and see what comes of it."),
    "soak": ("web.terminal.soak:soak", "Try for a long time what a test tries for a moment."),
    "bench": ("web.terminal.bench:bench", "Measure Callboard beside the naive ways."),
    "lock": ("web.terminal.lock:lock", "Compile requirements.lock again from pyproject.toml."),
}
"""name -> (where it lives, its line in --help); a new command is a line here and a file."""

CALLER_DIR = Path.cwd()
"""Where the user stands. Commands run from the root; paths the user typed are meant from here."""


class LazyGroup(click.Group):
    """Commands are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            close = nearest(name, COMMANDS)
            hint = f" Did you mean '{close}'?" if close else ""
            raise click.UsageError(f"there is no command '{name[:80]}'.{hint} `./callboard --help` lists them.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


class CallerPath(click.Path):
    """A path as the user meant it: relative to where they stand, not to the root."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        return Path(os.fsdecode(super().convert(CALLER_DIR / str(value), param, ctx)))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, subcommand_metavar="COMMAND …")
def cli() -> None:
    """Callboard: an agent fleet on the Celery and Redis you already run.

    `./callboard up` starts everything; `./callboard COMMAND --help` says more.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and end the process with its status; what goes wrong is one sentence on stderr."""
    status = status_of(list(sys.argv[1:] if arguments is None else arguments))
    if "bus.loop" in sys.modules:  # --help needs none
        import_module("bus.loop").stop_process_loop()
    sys.exit(status)


def status_of(arguments: list[str]) -> int:
    """Run a command and return its exit status: 0 succeeded, 1 failed, 2 wrong usage, 130 cancelled."""
    from config.rooms import require_own_rooms

    try:
        os.chdir(ROOT)
        require_own_rooms(ROOT)
        result = cli.main(arguments or ["--help"], prog_name="./callboard", standalone_mode=False)
        return result if isinstance(result, int) else SUCCEEDED
    except (click.Abort, KeyboardInterrupt):
        return CANCELLED
    except click.UsageError as wrong:
        _complain(wrong.format_message(), wrong.ctx)
        return WRONG_USAGE
    except click.ClickException as wrong:
        _complain(wrong.format_message())
        return wrong.exit_code
    except BrokenPipeError:  # `./callboard runs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCEEDED
    except CallboardError as wrong:
        if _is_debugging():
            raise
        _complain(f"{wrong} [{wrong.code}]")
        return WRONG_USAGE if _is_callers(wrong) else FAILED
    except Exception as wrong:  # a bug; a traceback helps us, not the person in front of the terminal
        if _is_debugging():
            raise
        _complain(
            f"something unexpected went wrong: {type(wrong).__name__}: {wrong}. "
            "Run the same with CALLBOARD_DEBUG=1 for the traceback, and please report it."
        )
        return FAILED


def _complain(sentence: str, context: click.Context | None = None) -> None:
    from config.redaction import redact
    from web.terminal.quoted import hanging

    print(hanging(f"error: {redact(sentence)}"), file=sys.stderr)
    if context is not None and context.command is not cli:
        print(f"       {context.command_path} --help says how it is used.", file=sys.stderr)


def _is_callers(wrong: CallboardError) -> bool:
    """Tell whether what was typed has to change: the errors HTTP answers with 4xx."""
    return isinstance(wrong, SettingInvalid) or (isinstance(wrong, Permanent) and 400 <= wrong.status < 500)


def _is_debugging() -> bool:
    return os.environ.get("CALLBOARD_DEBUG", "").lower() not in ("", "0", "false")
