"""`./callboard crashtest`: kill an agent's run at every place there is, and say what came of it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from web.terminal import options
from web.terminal.cli import FAILED, SUCCEEDED
from web.terminal.crashlab.choice import Choice
from web.terminal.printed_json import print_json
from web.terminal.removing import agree, unasked

if TYPE_CHECKING:
    from config.definitions import AgentDefinition
    from config.settings import Settings
    from web.terminal.crashlab.lab import Case, Lab

ROUTES = {"sync": ("sync",), "async": ("async",), "both": ("sync", "async")}


@click.command()
@click.argument("agent")
@click.argument("text")
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Kill at N places a route, chosen at random.")
@click.option("--seed", type=int, help="Choose the same places as the run that printed this seed.")
@click.option("--at", "at", multiple=True, metavar="PLACE", help="Kill here only, such as commit@3; may be repeated.")
@click.option("--route", type=click.Choice(list(ROUTES)), default="sync", show_default=True, help="How it is run.")
@click.option("--model", help="Ask this model instead of the agent's own, such as demo/instant.")
@click.option(
    "--compare", type=click.Choice(["all", "rules"]),
    help="all: every answer has to be as in the run that was never killed; the default for demo/… models only.",
)  # fmt: skip
@click.option("--trust-overrides", is_flag=True, help="Believe tool_overrides that call a tool safer than it does.")
@unasked
@options.as_json
def crashtest(
    agent: str, text: str, sample: int | None, seed: int | None, at: tuple[str, ...], route: str, model: str | None,
    compare: str | None, trust_overrides: bool, yes: bool, as_json: bool,
) -> int:  # fmt: skip
    """Give AGENT a sentence, and kill the process that works it off at every place there is, once each.

    Each time another process goes on with the run, as a worker would. It uses a folder and a database of its own.
    """
    from agents.models.auto import resolve_model
    from agents.registry import AgentRegistry
    from agents.runner import check_objective

    if not hasattr(os, "fork"):
        raise click.ClickException("the crash lab forks processes, which this system cannot.")
    settings = options.apply()
    check_objective(text, settings.max_input_chars)
    definition = AgentRegistry(settings.agent_folders).get(agent)
    asked = model or resolve_model(definition.model, os.environ)
    _ask(yes, definition, asked)
    is_same = compare == "all" if compare else asked.startswith("demo/")
    seed = seed if seed is not None else random.randrange(1_000_000)
    with _ended_in_order(), tempfile.TemporaryDirectory(prefix="callboard-crashtest-") as folder:
        labs = _labs(Path(folder), definition, asked, text, ROUTES[route], is_same, trust_overrides)
        choice = Choice(at, sample, seed)
        reports = [_play(its, lab, choice, as_json) for its, lab in labs.items()]
    is_well = not any(kill["wrong"] for report in reports for kill in report["kills"])
    if as_json:
        document = {"agent": agent, "model": asked, "compared": "all" if is_same else "rules", "seed": seed,
                    "is_well": is_well, "routes": reports}  # fmt: skip
        print_json(document)
    else:
        _conclude(reports, is_same)
    return SUCCEEDED if is_well else FAILED


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does: its folder goes, and the child with it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _ask(is_unasked: bool, definition: AgentDefinition, model: str) -> None:
    """Return when somebody agrees: what the tools do, they do for real."""
    if is_unasked:
        return
    tools = ", ".join(definition.tools) or "none"
    click.echo(
        f"This calls {model} and the agent's tools ({tools}) for real: once undisturbed, and once more for each place "
        "the run can be killed at: six, and six for each tool call. --sample N bounds it.", err=True,
    )  # fmt: skip
    agree("Go on?")


def _labs(
    folder: Path, definition: AgentDefinition, model: str, text: str, routes: Sequence[str], is_same: bool,
    trust_overrides: bool,
) -> dict[str, Lab]:  # fmt: skip
    from web.terminal.crashlab.lab import Lab, Subject
    from web.terminal.crashlab.nursery import threads_here
    from web.terminal.crashlab.setting_up import SqliteTemplate, copy_agent, lab_settings, warm

    settings: Settings = lab_settings(folder, copy_agent(definition, model, folder / "agents"))
    warm(definition, settings)
    if started := threads_here():
        click.secho(f"warning: importing the tools started threads ({', '.join(started)}); children are forked without "
                    "them, and may hang for it.", err=True, fg="yellow")  # fmt: skip
    template = SqliteTemplate(settings, folder)
    labs = {}
    for route in routes:
        (folder / route).mkdir()
        subject = Subject(
            agent_id=definition.id, objective=text, is_detached=route == "async", is_same_each_time=is_same,
            trust_overrides=trust_overrides,
        )  # fmt: skip
        labs[route] = Lab(subject, settings, folder / route, template)
    return labs


# --- playing and telling ------------------------------------------------------------------------------


def _play(route: str, lab: Lab, choice: Choice, as_json: bool) -> dict[str, Any]:
    from web.terminal.crashlab.lab import LabFailed

    try:
        first = lab.undisturbed
    except LabFailed as wrong:
        raise click.ClickException(str(wrong)) from wrong
    chosen = choice.of(first.places)
    if not as_json:
        click.echo(
            f"{route}: never killed, it ended {first.found.run['status']} in {first.took_s:.1f} s, "
            f"{len(first.found.steps)} steps, {_effects(first.effects)}; killed at {choice.told(first.places)}:"
        )
    kills = []
    for place in chosen:
        case = lab.kill(place)
        kills.append(_facts(case))
        if not as_json:
            _tell(case)
    undisturbed = {"status": first.found.run["status"], "steps": len(first.found.steps),
                   "effects": dict(first.effects), "places": len(first.places)}  # fmt: skip
    return {"route": route, "undisturbed": undisturbed, "kills": kills}


def _facts(case: Case) -> dict[str, Any]:
    return {
        "failpoint": str(case.place), "where": case.place.where, "was_killed": case.was_killed,
        "status": case.found.run["status"] if case.found else None, "asked": case.asked,
        "effects": dict(case.effects), "wrong": list(case.wrong),
    }  # fmt: skip


def _tell(case: Case) -> None:
    mark = click.style("FAIL", fg="red", bold=True) if case.wrong else click.style("ok  ", fg="green")
    killed = "killed" if case.was_killed else "not killed, it did not come by"
    ended = f"ended {case.found.run['status']}" if case.found is not None else "did not end"
    asked = f"asked {_times(len(case.asked))}: {', '.join(case.asked)}, " if case.asked else ""
    click.echo(f"{mark} {case.place!s:<17} {killed} {case.place.where} … {ended}, {asked}{_effects(case.effects)}")
    for wrong in case.wrong:
        click.secho(f"       {wrong}", fg="red")


def _effects(effects: Any) -> str:
    return "effects: " + (", ".join(f"{name} ×{count}" for name, count in sorted(effects.items())) or "none")


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _conclude(reports: Sequence[dict[str, Any]], is_same: bool) -> None:
    kills = [kill for report in reports for kill in report["kills"]]
    wrong = [kill for kill in kills if kill["wrong"]]
    looked = (
        "the same end, the same conversation, the same effects" if is_same else
        "an end, and no rule broken; answers of this model differ, so they were not compared"
    )  # fmt: skip
    if wrong:
        click.secho(f"{len(wrong)} of {len(kills)} kills left something wrong: "
                    f"{', '.join(kill['failpoint'] for kill in wrong)}", fg="red", bold=True)  # fmt: skip
    else:
        click.secho(f"{len(kills)} kills: each time {looked}; unsafe effects at most once.", fg="green")
