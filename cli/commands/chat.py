"""`./callboard chat`: a conversation with an agent on a terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from agents.errors import WORKFLOW_MISSED
from agents.handle import RunHandle
from agents.runner import Runner
from cli import options
from cli.commands.approve import typed_answer
from cli.commands.run import settle_run
from cli.open_runner import open_runner
from cli.output.following import follow, print_delivery
from cli.output.quoted import hanging
from cli.output.transcript import WAITING, Transcript
from config.errors import CallboardError
from config.private_files import open_private
from config.text.names import did_you_mean
from config.text.visible import visible

COMMANDS = {
    "/help": "lists these commands",
    "/new": "begins another thread",
    "/open": "prints how to open the last run on the page",
    "/quit": "leaves; Ctrl-D does, too",
}
MOST_LINES = 1000
"""Lines of the history that are kept."""
HISTORY = "chat-history"
PROMPT = "> "


@click.command()
@click.argument("agent_id", type=options.AGENT, metavar="[AGENT]", required=False)
@click.option("--thread", "thread_id", type=options.NEW_THREAD, metavar="ID", help="Continue this thread, or name one.")
@options.state_dir
def chat(agent_id: str | None, thread_id: str | None, **flags: object) -> int:
    """Talk with AGENT, or the default one. Ctrl-C stops a run and stays, Ctrl-D leaves, /help lists commands.

    A line is a message; after a backslash at its end it continues in the next line. A run's questions are asked here.
    """
    settings = options.apply(**flags)
    agent = agent_id or settings.default_agent
    # Threads inherit the mask: a Ctrl-C that another thread got would not end the wait for a key.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    with open_runner(settings, create=True) as runner:
        runner.journal.loop.run(asyncio.sleep(0))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        if runner.registry.get_for(runner.principal, agent).is_workflow:
            raise WORKFLOW_MISSED(problem=f"'{agent}' is a workflow; `./callboard run {agent} --input FILE` runs it.")
        with _history(settings.state / HISTORY):
            conversation = Conversation(runner, agent, thread_id)
            conversation.hold()
        settle_run(runner, says_more=sys.stderr.isatty())
    return 0


class Conversation:
    """What is said in one terminal with one agent, in one thread after the other."""

    def __init__(self, runner: Runner, agent: str, thread_id: str | None) -> None:
        self._runner = runner
        self._agent = agent
        self._thread_id = thread_id
        self._run_id: str | None = None

    def hold(self) -> None:
        """Take messages and commands until the input ends."""
        if sys.stdin.isatty():
            _say(f"{self._agent} · Ctrl-C stops an answer, Ctrl-D leaves, /help lists commands")
        while True:
            try:
                text = _message()
            except KeyboardInterrupt:
                click.echo(err=True)
                continue
            except EOFError:
                break
            if text.startswith("/") and self._command(text):
                break
            if text and not text.startswith("/"):
                self._send(text)
        if self._thread_id is not None:
            _say(f"\ncontinue: ./callboard chat {self._agent} --thread {self._thread_id}")

    def _command(self, text: str) -> bool:
        """Do what a command says; returns whether it ends the conversation."""
        name = text.split(maxsplit=1)[0]
        if name == "/help":
            for command, about in COMMANDS.items():
                _say(f"  {command:<6} {about}")
        elif name == "/new":
            self._thread_id = None
            _say("the next message begins a thread.")
        elif name == "/open":
            _say(f"./callboard open {self._run_id}" if self._run_id else "there is no run yet.")
        elif name != "/quit":
            _say(visible(f"there is no command '{name[:40]}'.{did_you_mean(name, COMMANDS)} /help lists them."))
        return name == "/quit"

    def _send(self, text: str) -> None:
        """Run the agent on the message, and show the run until its end; what is wrong with it is said."""
        try:
            handle = self._runner.run(text, self._agent, thread_id=self._thread_id)
            self._thread_id, self._run_id = handle.thread_id, handle.run_id
            print_delivery(handle)
            status = follow(
                handle, is_stoppable=True, answer=lambda: _answered(handle), transcript=Transcript(handle.run_id)
            )
            if status == WAITING:
                _say(f"the run waits; ./callboard approve {handle.run_id} answers it.")
        except CallboardError as error:
            click.echo(hanging(f"error: {error} [{error.code}]"), err=True)
        except KeyboardInterrupt:  # the second one
            _say("\nthe run is being stopped.")


def _answered(handle: RunHandle) -> bool:
    """Ask the run's open questions; returns whether all of them were answered."""
    for question in handle.approvals():
        try:
            answer = typed_answer(question)
        except click.Abort:
            answer = None
        if answer is None:
            return False
        try:
            handle.decide(question["approval_id"], answer, by="terminal")
        except CallboardError as error:  # such as that another person was first
            click.echo(hanging(f"error: {error} [{error.code}]"), err=True)
    return True


def _message() -> str:
    """Return the next message, without blanks around it.

    Raises:
        EOFError: the input ended.
    """
    lines = [_line(PROMPT)]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        lines.append(_line("  "))
    return "\n".join(lines).strip()


def _line(prompt: str) -> str:
    if sys.stdin.isatty():
        return input(prompt)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _say(text: str) -> None:
    click.secho(text, err=True, dim=True)


@contextmanager
def _history(path: Path) -> Iterator[None]:
    """Give the prompt arrow keys, completion of commands, and the messages of earlier conversations."""
    if not sys.stdin.isatty():
        yield
        return
    import readline

    def complete(text: str, state: int) -> str | None:
        names = [name for name in COMMANDS if text and name.startswith(text)]
        return names[state] if state < len(names) else None

    with os.fdopen(open_private(path, os.O_RDONLY), errors="replace") as file:
        for line in file.read().splitlines()[-MOST_LINES:]:
            readline.add_history(line)
    readline.set_completer(complete)
    readline.set_completer_delims(" ")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        count = readline.get_current_history_length()
        lines = [readline.get_history_item(number) or "" for number in range(max(1, count - MOST_LINES + 1), count + 1)]
        with os.fdopen(open_private(path, os.O_WRONLY | os.O_TRUNC), "w", errors="replace") as file:
            file.write("".join(f"{line}\n" for line in lines))
