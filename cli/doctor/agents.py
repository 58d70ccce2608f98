"""The agents' files, and what `model: auto` means here."""

from __future__ import annotations

import os
from collections.abc import Iterator

from agents.checkup import Problem, deep_check, problem_of
from agents.models.auto import DEMO, resolve_model
from agents.registry import AgentRegistry
from config.definitions import AgentDefinition
from config.errors import DefinitionInvalid
from config.settings import Settings
from web.terminal.looks.finding import Found, Verdict

PARTS = ("connect_s", "first_token_s", "between_chunks_s")
"""Timeouts of one model call, within its ``total_s``."""


def look_at_agents(settings: Settings) -> Found:
    """Yield what is wrong with each agent, and whether the default one is among them."""
    found = AgentRegistry(settings.agent_folders).all()
    problems: list[Problem] = []
    pointless: list[tuple[Verdict, str]] = []
    for definition in found:
        if isinstance(definition, DefinitionInvalid):
            problems.append(problem_of(definition))
        else:
            problems.extend(deep_check(definition, settings))
            pointless.extend(timeouts(definition))
    yield from (("fail" if problem.severity == "error" else "warn", str(problem)) for problem in problems)
    yield from pointless
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


def timeouts(definition: AgentDefinition) -> Iterator[tuple[Verdict, str]]:
    """Yield the timeouts somebody wrote that never pass, since another one ends the call before."""
    written = definition.timeouts
    for name in PARTS:
        value = getattr(written, name)
        if name in written.model_fields_set and value > written.total_s:
            yield (
                "warn",
                f"{definition.file}: timeouts.{name} ({value:g}) is longer than total_s ({written.total_s:g}), which "
                "ends the call before; make it shorter, or total_s longer",
            )


def look_at_model(_: Settings) -> Found:
    """Yield which model `auto` is."""
    model = resolve_model("auto", os.environ)
    if model == DEMO:
        yield (
            "warn",
            f"auto is {model}, which is not a language model; set OPENAI_API_KEY or another key, or start Ollama",
        )
    else:
        yield "ok", f"auto is {model}"
