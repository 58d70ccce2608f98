"""`./callboard doctor`: what is wrong with this installation, before a run finds out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

import click
import orjson

from config.errors import CallboardError, DefinitionInvalid, RedisRefused
from config.settings import SEED_NAMES, Settings, unknown_variables
from web.terminal import options

Verdict = Literal["ok", "warn", "fail"]
TROJANED = {"litellm": ("1.82.7", "1.82.8")}
"""Releases that ran foreign code at interpreter start (March 2026)."""
_COLOURS: dict[Verdict, str] = {"ok": "green", "warn": "yellow", "fail": "red"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One line of the doctor."""

    about: str
    verdict: Verdict
    text: str
    """What was found; with a remedy where the verdict is not ok."""


@click.command()
@options.state_dir
@options.as_json
def doctor(as_json: bool, **flags: object) -> int:
    """Look at settings, folders, Redis, database, packages and agents; fail when one is unusable."""
    settings = options.apply(**flags)
    findings = list(examine(settings))
    if as_json:
        click.echo(orjson.dumps([asdict(finding) for finding in findings], option=orjson.OPT_INDENT_2).decode())
    else:
        for finding in findings:
            verdict = click.style(f"{finding.verdict:<4}", fg=_COLOURS[finding.verdict])
            click.echo(f"{verdict} {finding.about:<12} {finding.text}")
    return 1 if any(finding.verdict == "fail" for finding in findings) else 0


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield what each look finds; one that breaks is a finding and hides no other."""
    for about, look in LOOKS.items():
        try:
            yield from (Finding(about=about, verdict=verdict, text=text) for verdict, text in look(settings))
        except CallboardError as wrong:
            yield Finding(about=about, verdict="fail", text=f"{wrong} [{wrong.code}]")
        except Exception as wrong:  # a look with a bug must not hide what the others find
            yield Finding(about=about, verdict="fail", text=f"could not be looked at: {type(wrong).__name__}: {wrong}")


Found = Iterator[tuple[Verdict, str]]


def _settings(settings: Settings) -> Found:
    strangers = unknown_variables(dict(os.environ))
    yield from (("warn", sentence) for sentence in strangers)
    for earlier, name in SEED_NAMES.items():
        if os.environ.get(earlier):
            yield "ok", f"{earlier} is read as CALLBOARD_{name.upper()}, unless that is set"
    if not strangers:
        yield "ok", f"deployment {settings.deployment}, {settings.workers} workers of {settings.slots} slots"


def _state_folder(settings: Settings) -> Found:
    from config.migrate import make_folder

    make_folder(settings)
    others = settings.state.stat().st_mode & 0o077
    if others:
        yield "warn", f"{settings.state} can be read by others (mode {others:03o}); run chmod 700 {settings.state}"
    else:
        yield "ok", str(settings.state)


def _rooms(_: Settings) -> Found:
    from config.rooms import require_own_rooms, strangers

    require_own_rooms()
    found = strangers()
    for room, file in found.items():
        yield (
            "warn",
            f"{file} has the name of our folder {room}/; ours wins while ./callboard starts things. Uninstall it.",
        )
    if not found:
        yield "ok", "every folder answers to its name"


def _redis(settings: Settings) -> Found:
    from config.redis_server import ask, require_usable
    from web.terminal.embedded_redis import find_running, plan

    url = settings.redis_url or find_running(settings)
    if url is None:
        server = plan(settings)
        if server is None:
            yield "warn", "none; `up` runs everything in one process. Install redis-server, or set CALLBOARD_REDIS_URL."
        else:
            yield "ok", f"`up` starts its own: {server.argv[0]}"
        return
    try:
        facts = require_usable(url)
    except RedisRefused as wrong:
        yield "fail", str(wrong)
        facts = ask(url)
    yield "ok", f"version {facts.version} answers, maxmemory-policy {facts.policy}"
    if not facts.persists:
        yield (
            "warn",
            "keeps no append-only file: after its restart viewers read SQL. `redis-cli config set appendonly yes`",
        )


def _broker(settings: Settings) -> Found:
    from config.redis_server import require_broker

    if settings.broker_url:
        require_broker(settings.broker_url)
        yield "ok", "answers"
    else:
        yield "ok", "is the Redis above"


def _database(settings: Settings) -> Found:
    from config.database import open_database
    from config.migrate import HEAD, current_version, require_current

    database = open_database(settings.database)
    try:
        if current_version(database) is None:
            yield "warn", "has no schema yet; `./callboard up` or `./callboard migrate` makes it"
            return
        require_current(database)
        yield "ok", f"{database.engine.dialect.name} answers, schema {HEAD}"
    finally:
        database.close()


def _packages(_: Settings) -> Found:
    for name, versions in TROJANED.items():
        try:
            installed = version(name)
        except PackageNotFoundError:
            yield "fail", f"{name} is not installed; run ./callboard again, it sets up what is missing"
            continue
        if installed in versions:
            yield (
                "fail",
                f"{name} {installed} is a trojaned release; change every key of this machine, then rm -rf .venv",
            )
        else:
            yield "ok", f"{name} {installed}"


def _agents(settings: Settings) -> Found:
    from agents.checkup import Problem, deep_check, problem_of
    from agents.registry import AgentRegistry

    found = AgentRegistry(settings.agent_folders).all()
    problems: list[Problem] = []
    for definition in found:
        if isinstance(definition, DefinitionInvalid):
            problems.append(problem_of(definition))
        else:
            problems.extend(deep_check(definition, settings))
    yield from (("fail" if problem.severity == "error" else "warn", str(problem)) for problem in problems)
    ids = {definition.id for definition in found if not isinstance(definition, DefinitionInvalid)}
    if found and settings.default_agent not in ids:
        yield (
            "fail",
            f"CALLBOARD_DEFAULT_AGENT is '{settings.default_agent}', which is none of {', '.join(sorted(ids))}",
        )
    if not found:
        yield "warn", f"there are none in {settings.agents_dir}; add a YAML file"
    elif not problems:
        yield "ok", f"{len(found)} can be used"


def _model(_: Settings) -> Found:
    from agents.models.auto import DEMO, resolve_model

    model = resolve_model("auto", os.environ)
    if model == DEMO:
        yield (
            "warn",
            f"auto is {model}, which is not a language model; set OPENAI_API_KEY or another key, or start Ollama",
        )
    else:
        yield "ok", f"auto is {model}"


LOOKS: dict[str, Callable[[Settings], Found]] = {
    "settings": _settings,
    "state folder": _state_folder,
    "rooms": _rooms,
    "redis": _redis,
    "broker": _broker,
    "database": _database,
    "packages": _packages,
    "agents": _agents,
    "model": _model,
}
"""What is looked at, in this order; a new look is a line here and a function."""
