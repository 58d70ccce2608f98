"""`./callboard crashtest`: kill an agent's run at each failpoint it passes, and report the outcome."""

from __future__ import annotations

import os
import random
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli import options
from cli.main import FAILED, SUCCEEDED
from cli.output.json import print_json

if TYPE_CHECKING:
    from cli.crashlab.lab import Case, Lab
    from cli.crashlab.places import Choice
    from cli.crashlab.trial import Subject
    from config.definitions.agent import AgentDefinition
    from config.settings import Settings

COMPARE_HELP = "all: every answer has to equal that of the undisturbed run; the default for demo/… models only."
ROUTES = {"sync": ("sync",), "async": ("async",), "both": ("sync", "async")}


@click.command()
@click.argument("agent")
@click.argument("text")
@click.option("--sample", type=options.WholeNumber(1), metavar="N", help="Kill at N randomly chosen places per route.")
@click.option("--seed", type=int, help="Choose the same places as the run that printed this seed.")
@click.option(
    "--at", "at", multiple=True, metavar="PLACE", help="Kill only at this place, such as commit@3; may be repeated."
)
@click.option("--route", type=click.Choice(list(ROUTES)), default="sync", show_default=True, help="Route of the run.")
@click.option("--model", help="Use this model instead of the agent's own, such as demo/instant.")
@click.option("--compare", type=click.Choice(["all", "rules"]), help=COMPARE_HELP)
@click.option(
    "--trust-overrides", is_flag=True, help="Accept tool_overrides that declare a tool safer than its code does."
)
@options.yes
@options.as_json
def crashtest(agent: str, text: str, route: str, model: str | None, yes: bool, as_json: bool, **flags: Any) -> int:
    """Run AGENT on TEXT, once for each place it passes, and kill the process at that place.

    Another process then resumes the run, as a worker would. The command uses its own folder and database.
    """
    from agents.models.auto import resolve_model
    from agents.prompt import check_objective
    from agents.registry import AgentRegistry
    from cli.crashlab.places import Choice
    from cli.crashlab.trial import Subject

    if not hasattr(os, "fork"):
        raise click.ClickException("the crash lab needs os.fork, which this system lacks; use Linux or macOS.")
    settings = options.apply()
    check_objective(text, settings.max_input_chars)
    definition = AgentRegistry(settings.agent_folders).get(agent)
    model_name = model or resolve_model(definition.model, os.environ)
    if not yes:
        _confirm(model_name, definition.tools)
    compared = flags["compare"] or ("all" if model_name.startswith("demo/") else "rules")
    seed = random.randrange(1_000_000) if flags["seed"] is None else flags["seed"]
    rules = {"is_same_each_time": compared == "all", "trust_overrides": flags["trust_overrides"]}
    subject = Subject(agent_id=definition.id, objective=text, **rules)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the folder is removed and the child ended
    with tempfile.TemporaryDirectory(prefix="callboard-crashtest-") as folder:
        labs = _labs(Path(folder), definition, model_name, subject, ROUTES[route])
        choice = Choice(flags["at"], flags["sample"], seed)
        reports = [_run_lab(route_name, lab, choice, as_json) for route_name, lab in labs.items()]
    is_well = not any(kill["wrong"] for report in reports for kill in report["kills"])
    if as_json:
        head = {"agent": agent, "model": model_name, "compared": compared, "seed": seed}
        print_json({**head, "is_well": is_well, "routes": reports})
    else:
        _print_conclusion(reports, compared == "all")
    return SUCCEEDED if is_well else FAILED


def _confirm(model: str, tools: Sequence[str]) -> None:
    names = ", ".join(tools) or "none"
    sentence = (
        f"This really calls {model} and the agent's tools ({names}): once undisturbed, and once for each "
        "place where the run can be killed: six, and six for each tool call. --sample N limits it."
    )
    click.echo(sentence, err=True)
    options.confirm("Continue?")


def _labs(
    folder: Path, definition: AgentDefinition, model: str, subject: Subject, routes: Sequence[str]
) -> dict[str, Lab]:
    from cli.crashlab.fork_runner import other_threads
    from cli.crashlab.lab import Lab
    from cli.crashlab.setting_up import SqliteTemplate, copy_agent, lab_settings, warm

    settings: Settings = lab_settings(folder, copy_agent(definition, model, folder / "agents"))
    warm(definition, model, settings)
    if started := other_threads():
        what = f"importing the tools started threads ({', '.join(started)}); forked children lack them and may hang."
        click.secho(f"warning: {what}", err=True, fg="yellow")
    template = SqliteTemplate(settings, folder)
    labs = {}
    for route in routes:
        (folder / route).mkdir()
        labs[route] = Lab(replace(subject, is_detached=route == "async"), settings, folder / route, template)
    return labs


# --- running and reporting ----------------------------------------------------------------------------


def _run_lab(route: str, lab: Lab, choice: Choice, as_json: bool) -> dict[str, Any]:
    first = lab.undisturbed
    chosen = choice.of(first.places)
    if not as_json:
        click.echo(
            f"{route}: undisturbed, it ended {first.record.run['status']} in {first.took_s:.1f} s, "
            f"{len(first.record.steps)} steps, {_effects(first.effects)}; killed at {choice.summary(first.places)}:"
        )
    kills = []
    for crash_point in chosen:
        case = lab.kill(crash_point)
        kills.append(_facts(case))
        if not as_json:
            _print_case(case)
    counts = {"steps": len(first.record.steps), "effects": dict(first.effects), "places": len(first.places)}
    return {"route": route, "undisturbed": {"status": first.record.run["status"], **counts}, "kills": kills}


def _facts(case: Case) -> dict[str, Any]:
    kill = {"failpoint": str(case.place), "where": case.place.where, "was_killed": case.was_killed}
    status = case.record.run["status"] if case.record else None
    outcome = {"effects": dict(case.effects), "wrong": list(case.violations)}
    return {**kill, "status": status, "asked": case.asked, **outcome}


def _print_case(case: Case) -> None:
    mark = click.style("FAIL", fg="red", bold=True) if case.violations else click.style("ok  ", fg="green")
    killed = "killed" if case.was_killed else "not killed, it did not pass"
    ended = f"ended {case.record.run['status']}" if case.record is not None else "did not end"
    answers = f"asked {_times(len(case.asked))}: {', '.join(case.asked)}, " if case.asked else ""
    click.echo(f"{mark} {case.place!s:<17} {killed} {case.place.where} … {ended}, {answers}{_effects(case.effects)}")
    for violation in case.violations:
        click.secho(f"       {violation}", fg="red")


def _effects(effects: Any) -> str:
    return "effects: " + (", ".join(f"{name} ×{count}" for name, count in sorted(effects.items())) or "none")


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _print_conclusion(reports: Sequence[dict[str, Any]], is_same: bool) -> None:
    kills = [kill for report in reports for kill in report["kills"]]
    failed = [kill for kill in kills if kill["wrong"]]
    same = "the same end, the same conversation, the same effects"
    other = "an end, and no rule broken; answers of this model vary, so they were not compared"
    if failed:
        places = ", ".join(kill["failpoint"] for kill in failed)
        click.secho(f"{len(failed)} of {len(kills)} kills broke a rule: {places}", fg="red", bold=True)
    else:
        click.secho(
            f"{len(kills)} kills: each time {same if is_same else other}; unsafe effects at most once.", fg="green"
        )
