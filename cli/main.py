"""The command group, which imports commands lazily, and the one place that turns errors into messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click

from cli.interrupts import CANCELLED, end_at_once, leave_to_command
from config.at_exit import close_all
from config.errors import CallboardError, Permanent, SettingInvalid
from config.folders import ROOT, require_own_folders
from config.text.names import did_you_mean, nearest

SUCCEEDED, FAILED, WRONG_USAGE = 0, 1, 2

USERS: dict[str, tuple[str, str]] = {
    "up": ("cli.commands.up:up", "Start everything and print the page's address."),
    "run": ("cli.commands.run:run", "Run an agent or a workflow, in this process or detached."),
    "watch": ("cli.commands.watch:watch", "Follow a run, from its beginning or from a cursor."),
    "runs": ("cli.commands.runs:runs", "List the runs."),
    "approve": ("cli.commands.approve:approve", "Answer a run's approval request."),
    "cancel": ("cli.commands.control:cancel", "Stop a run."),
    "steer": ("cli.commands.control:steer", "Give a running run a message."),
    "signal": ("cli.commands.control:signal", "Give a workflow the signal that a node waits for."),
    "set": ("cli.commands.control:set", "Change limits of an open run."),
    "pause": ("cli.commands.control:pause", "Leave a run between two steps, without a worker."),
    "resume": ("cli.commands.control:resume", "Continue a paused run."),
    "agents": ("cli.commands.agents:agents", "List the agents, and check each one."),
    "workflows": ("cli.commands.workflows:workflows", "List the workflows, draw and check them."),
    "webhooks": ("cli.commands.webhooks:webhooks", "List the webhooks that others send, and check each one."),
    "tools": ("cli.commands.tools:tools", "List the agents' tools, and call one."),
    "mcp": ("cli.commands.mcp:mcp", "List and try MCP servers; serve agents and tools to MCP clients."),
    "capability": ("cli.commands.capability:capability", "List and check the capabilities, and write a new one."),
    "workers": ("cli.commands.workers:workers", "List the living workers."),
    "threads": ("cli.commands.threads:threads", "List the threads."),
    "keys": ("cli.commands.keys:keys", "Create, list and revoke API keys."),
    "principals": ("cli.commands.principals:principals", "List, disable and enable principals."),
    "grant": ("cli.commands.grant:grant", "Let a principal start one run in privileged mode."),
    "grants": ("cli.commands.grant:grants", "List and revoke privilege grants."),
    "logs": ("cli.commands.logs:logs", "Show what the logger observer wrote."),
    "observe": ("cli.commands.observe:observe", "Feed observers from the log, in a process of their own."),
    "observers": ("cli.commands.observers:observers", "List the observers that tail the log, pause and reset them."),
    "worker": ("cli.commands.worker:worker", "Keep worker processes running on this machine."),
    "web": ("cli.commands.web:web", "Serve HTTP and the page."),
    "discord": ("cli.commands.discord:discord", "Answer persons on Discord with an agent."),
    "slack": ("cli.commands.slack:slack", "Answer persons on Slack with an agent."),
    "email": ("cli.commands.email:email", "Answer the mails of a mailbox with an agent."),
    "policy": ("cli.commands.policy:policy", "Check the policy, and try it on recorded runs."),
    "audit": ("cli.commands.audit:audit", "List, verify and export the audit log."),
    "migrate": ("cli.commands.database:migrate", "Bring the database to the schema this code needs."),
    "backup": ("cli.commands.database:backup", "Copy the database to a file while everything runs."),
    "doctor": ("cli.commands.doctor:doctor", "Report problems of this installation, with remedies."),
    "crashtest": ("cli.commands.crashtest:crashtest", "Kill an agent's run at each failpoint, and check the outcome."),
}
"""name -> (module:attribute, its line in --help); a new command is a line here and a file in ``cli/commands``."""
DEVELOPERS: dict[str, tuple[str, str]] = {
    "check": ("cli.dev.commands.check:check", "Format, lint, import rules, types, unit tests."),
    "test": ("cli.dev.commands.test:test", "The check, then the tests that need real processes."),
    "bench": ("cli.dev.commands.apart:bench", "Measure Callboard beside naive alternatives."),
    "soak": ("cli.dev.commands.apart:soak", "Run randomized tests for a long time."),
    "lock": ("cli.dev.commands.lock:lock", "Compile both requirements locks again from pyproject.toml."),
}
"""The commands that develop Callboard, in ``cli/dev/commands``; ``--help`` lists them apart."""
COMMANDS = USERS | DEVELOPERS

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
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in (("Commands", USERS), ("Developing Callboard", DEVELOPERS)):
            with formatter.section(title):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()])


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
    if any(word in COMMANDS for word in words):  # --help alone logs nothing, and importing logging takes 3 ms
        _log_errors_only()
    status = status_of(words)
    end_at_once()
    close_all()
    if "bus.loop" in sys.modules:  # --help needs none
        import_module("bus.loop").stop_process_loop()
    sys.exit(status)


def status_of(arguments: list[str]) -> int:
    """Run a command and return its exit status: 0 succeeded, 1 failed, 2 wrong usage, 130 cancelled."""
    try:
        leave_to_command()
        os.chdir(ROOT)
        require_own_folders(ROOT)
        result = cli.main(arguments or ["--help"], prog_name="./callboard", standalone_mode=False)
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
