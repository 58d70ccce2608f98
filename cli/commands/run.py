"""`./callboard run`: start a run in this process, or detached on the workers."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from agents.errors import AgentUnknown
from agents.handle import RunHandle
from agents.models.auto import resolve_model
from agents.models.call import is_in_process
from agents.models.providers import require_possible_provider
from agents.registry import AgentRegistry
from agents.runner import Runner
from bus.journal.clients import IfBusy
from cli import options
from cli.doctor.settings import broken_plugins
from cli.open_runner import open_runner
from cli.output.following import follow, leave_to_workers, print_delivery
from cli.output.quoted import fit, hanging
from cli.output.transcript import WAITING
from cli.output.wait_reasons import print_turn
from config.definitions.agent import AGENT_ID, Priority
from config.definitions.errors import DefinitionInvalid
from config.definitions.loading import is_of_workflow
from config.settings import Settings
from config.text.visible import visible

IF_BUSY = ("enqueue", "reject", "interrupt", "rollback", "merge", "steer")
END_S = 5.0
"""Seconds to wait for what follows the end of a run."""
SUMMARY_S = 60.0
"""Seconds to wait for a summary of the thread, once the answer is shown."""
MAX_SHOWN_CHARS = 200
"""Characters of the input that an error message repeats."""


@click.command()
@click.argument("agent", type=options.AGENT_OR_WORKFLOW)
@click.argument("words", metavar="[TEXT]", nargs=-1)
@click.option("--input", "data", type=options.JsonObject(), help="Of a workflow: its input, a JSON object.")
@click.option(
    "--thread",
    "thread_id",
    type=options.NEW_THREAD,
    metavar="ID",
    help="Continue this thread, or create one with this id.",
)
@click.option("--detach", is_flag=True, help="Leave the run to the workers, print its id and return.")
@click.option("--on-disconnect", metavar="POLICY", help="Without viewers: continue, stop:30 or pause:30 (seconds).")
@click.option("--if-busy", type=click.Choice(IF_BUSY), help="What to do where the thread has an open run.")
@options.priority
@options.no_wait
@options.grant
@options.as_json
@options.state_dir
def run(
    agent: str,
    words: tuple[str, ...],
    data: dict[str, Any] | None,
    thread_id: str | None,
    detach: bool,
    on_disconnect: str | None,
    if_busy: IfBusy | None,
    priority: Priority | None,
    no_wait: bool,
    grant: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Run AGENT on TEXT, or on standard input if there is no TEXT; or run a workflow with --input.

    The answer goes to standard output, progress to standard error. Ctrl-C stops the run.
    """
    settings = options.apply(**flags)
    start = _subject(agent, words, data, settings, {"if_busy": if_busy, "on_disconnect": on_disconnect})
    for sentence in broken_plugins(settings):
        click.secho(f"warning: {visible(sentence)}", err=True, fg="yellow")
    if not detach:
        _require_possible_model(agent, settings)
        if not as_json and sys.stderr.isatty():
            click.secho("starting …", err=True, dim=True)  # LiteLLM takes seconds to import
    with open_runner(settings, create=True) as runner:
        handle = start(runner, thread_id=thread_id, detached=detach, grant=grant, priority=priority)
        _warn_of_file(runner, agent)
        print_delivery(handle)
        is_behind_question = thread_id is not None and print_turn(runner, handle.run_id)
        if detach:
            return leave_to_workers(runner, handle, as_json)
        if is_behind_question and no_wait:
            click.secho(f"  the run is accepted; follow it: ./callboard watch {handle.run_id}", err=True, fg="yellow")
            return WAITING
        return _follow(runner, handle, agent, as_json=as_json, no_wait=no_wait)


def _subject(
    agent: str, words: tuple[str, ...], data: dict[str, Any] | None, settings: Settings, policies: dict[str, Any]
) -> Callable[..., RunHandle]:
    """Return what starts a run with the text or the input that was typed.

    Raises:
        click.UsageError: it cannot be used; ``policies`` are of agents alone.
    """
    if data is not None or _is_workflow(agent, settings):
        _require_no_message(agent, words, policies)
        return partial(Runner.run_workflow, workflow_id=agent, data=data or {})
    _require_one_text(agent, words, settings)
    return partial(Runner.run, objective=_objective(words[0] if words else None), agent_id=agent, **policies)


def _is_workflow(agent_id: str, settings: Settings) -> bool:
    """Return whether the id is a workflow's; also where its file cannot be used, and a version of it may serve."""
    try:
        return AgentRegistry(settings.agent_folders).get(agent_id).is_workflow
    except AgentUnknown:
        return False
    except DefinitionInvalid as error:
        return is_of_workflow(error)


def _require_no_message(workflow_id: str, words: tuple[str, ...], options_of_agents: Mapping[str, object]) -> None:
    """Return if nothing was given that is for an agent.

    Raises:
        click.UsageError: a text, or an option, was.
    """
    if words:
        typed = f"./callboard run {workflow_id} --input FILE.json"
        raise click.UsageError(f"'{workflow_id}' is a workflow, which takes no text but an input: {typed}")
    for name, value in options_of_agents.items():
        if value is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} is of agents; leave it out for a workflow.")


def _warn_of_file(runner: Runner, agent: str) -> None:
    """Print a warning where the agent's file cannot be used, so that an earlier version of it serves."""
    definition = runner.registry.get(agent)
    if definition.problem:
        text = f"the last version that could be used serves, because its file cannot: {definition.problem}"
        click.secho(hanging(f"warning: {text}"), err=True, fg="yellow")


def _follow(runner: Runner, handle: RunHandle, agent: str, *, as_json: bool, no_wait: bool) -> int:
    """Print the run's events until it ends, and return the exit status."""
    says_more = not as_json and sys.stderr.isatty()
    if says_more:  # if this process dies, the user still has the run's id
        click.secho(f"{handle.run_id} · Ctrl-C stops it", err=True, dim=True)
    status = follow(handle, as_json=as_json, is_stoppable=True, no_wait=no_wait)
    if status != WAITING:  # a run that waits for a person has nothing to settle
        settle_run(runner, says_more=says_more)
    if says_more and status == 0 and not runner.registry.get(agent).is_workflow:
        click.secho(f'  continue: ./callboard run {agent} --thread {handle.thread_id} "…"', err=True, dim=True)
    return status


def settle_run(runner: Runner, *, says_more: bool) -> None:
    """Wait for what follows the run in this process, but not for imports under way.

    A summary of the thread gets a minute, since its model call is paid for in any case; Ctrl-C ends the wait.
    """
    from agents.memory.compaction import compactions  # with all of the agent loop, which the answer needs first

    with contextlib.suppress(TimeoutError):
        return runner.settle(END_S)
    if compactions().is_busy:
        if says_more:
            click.secho("the long thread is summarised; Ctrl-C leaves that to its next run", err=True, dim=True)
        with contextlib.suppress(TimeoutError, KeyboardInterrupt):
            runner.settle(SUMMARY_S)


def _require_one_text(agent: str, words: tuple[str, ...], settings: Settings) -> None:
    """Return if the arguments are one agent and at most one text.

    Raises:
        click.UsageError: the text is given in place of the agent, or as several arguments.
        AgentUnknown: only an agent was given, and there is none of this name.
    """
    registry = AgentRegistry(settings.agent_folders)
    if len(words) > 1:
        is_named = agent in registry.ids()
        sentence = " ".join(words if is_named else (agent, *words))
        typed = _typed(agent if is_named else settings.default_agent, sentence)
        raise click.UsageError(f"the text needs quotes around it: {typed}")
    if words:
        return
    if not AGENT_ID.fullmatch(agent):
        typed = _typed(settings.default_agent, agent)
        raise click.UsageError(f"the agent is missing: {typed} (`./callboard agents` lists the agents)")
    if agent not in registry.ids():
        raise registry.unknown(agent)


def _require_possible_model(agent: str, settings: Settings) -> None:
    """Return if the agent's model can exist; checked before LiteLLM is imported, which takes seconds.

    Raises:
        AgentUnknown, MODEL_UNKNOWN: the run would fail.
    """
    try:
        definition = AgentRegistry(settings.agent_folders).get(agent)
    except DefinitionInvalid:  # an earlier version may serve, which the runner knows
        return
    if not definition.asks_model:
        return
    model = resolve_model(definition.model, os.environ)
    if not is_in_process(model):
        require_possible_provider(definition, model)


def _typed(agent: str, sentence: str) -> str:
    """Return the command with shell quoting."""
    sentence = fit(visible(sentence), MAX_SHOWN_CHARS)
    quoted = f'"{sentence}"' if not set(sentence) & set('"$`\\!') else shlex.quote(sentence)
    return f"./callboard run {agent} {quoted}"


def _objective(text: str | None) -> str:
    if text is not None and text != "-":
        return text
    if text is None and sys.stdin.isatty():
        raise click.UsageError('the text is missing; give it as an argument, run AGENT "…", or pipe it in.')
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        what = f"standard input is not UTF-8 text (byte {error.start + 1:,}); convert it to UTF-8."
        raise click.UsageError(what) from error
