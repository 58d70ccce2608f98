"""Checks of the agents' and the webhooks' files, of the policy, and of the model that `model: auto` selects."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing, suppress

from agents.checkup import Problem, deep_check, problem_of, vocabulary_of
from agents.governance.policy.checks import warnings_of
from agents.governance.policy.errors import PolicyInvalid
from agents.governance.policy.policy_yaml import read_policy
from agents.models.auto import DEMO, OLLAMA, has_model, offer_of, resolve_model
from agents.models.call import ModelCall, is_in_process
from agents.models.cost import cost_of
from agents.models.fallbacks import Models
from agents.models.streams.chunk import Usage
from agents.registry import AgentRegistry
from bus.identity.access import may_start, sees_agent
from bus.journal.stores import AgentVersions
from bus.loop import process_loop
from cli.doctor.workflows import check_workflow
from config.database.engine import open_database
from config.database.migrate import require_current
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid
from config.definitions.model_fields import Fallback
from config.definitions.webhooks.definition import WebhookDefinition, read_webhooks
from config.definitions.workflows.fields import WorkflowDefinition
from config.errors import CallboardError
from config.settings import Settings
from web.doctor import Verdicts, fail, ok, warn
from web.doctor.agents import hidden_files
from web.doctor.database import is_there

PROBE, PROBE_TOKENS = "Reply with the word: yes", 64
"""What a probe asks, and the tokens that a model may think and answer with."""
PARTS = ("connect_s", "first_token_s", "between_chunks_s")
"""Timeouts of one model call that ``total_s`` includes."""


def check_agents(settings: Settings) -> Verdicts:
    """Yield the problems of each agent, and whether the default agent exists."""
    registry = AgentRegistry(settings.agent_folders)
    definitions, serving = registry.all(), _serving(settings)
    problems: list[Problem] = []
    for definition in definitions:
        if isinstance(definition, DefinitionInvalid):
            problems.append(problem_of(definition))
        elif isinstance(definition, WorkflowDefinition):
            problems.extend(check_workflow(definition, settings, serving))
        else:
            problems.extend(deep_check(definition, settings, None, serving))
    yield from (("fail" if problem.severity == "error" else "warn", str(problem)) for problem in problems)
    yield from hidden_files(registry)
    usable = [definition for definition in definitions if isinstance(definition, AgentDefinition)]
    for definition in usable:
        yield from timeouts(definition)
    ids = {definition.id for definition in usable} | serving.keys()
    if definitions and settings.default_agent not in ids:
        yield fail(
            f"CALLBOARD_DEFAULT_AGENT is '{settings.default_agent}', which does not exist; set it to one of "
            f"{', '.join(sorted(ids))}"
        )
    if not definitions:
        yield warn(f"there are none in {settings.agents_dir}; add a YAML file")
    elif not problems:
        yield ok(f"{len(definitions)} can be used")


def check_webhooks(settings: Settings) -> Verdicts:
    """Yield what is wrong with each webhook that others send; nothing where there is none."""
    webhooks, broken = read_webhooks(settings.webhooks_folders)
    registry = AgentRegistry(settings.agent_folders)
    for error in broken:
        yield fail(str(error))
    for webhook in webhooks.values():
        problem = why_unusable(webhook, registry)
        yield ok(f"{webhook.name}: {does(webhook)}") if problem is None else fail(problem)


def _serving(settings: Settings) -> dict[str, int]:
    """Return the versions that serve in place of what files say, by agent; none where no database can be read."""
    if is_there(settings):
        with suppress(CallboardError), closing(open_database(settings.database)) as database:
            require_current(database)
            return AgentRegistry(settings.agent_folders, settings.local_principal, AgentVersions(database)).serving()
    return {}


def timeouts(definition: AgentDefinition) -> Verdicts:
    """Yield the configured timeouts that have no effect because ``total_s`` ends the call first."""
    written = definition.timeouts
    for name in PARTS:
        value = getattr(written, name)
        if name in written.model_fields_set and value > written.total_s:
            yield warn(
                f"{definition.file}: timeouts.{name} ({value:g}) is longer than total_s ({written.total_s:g}), which "
                "ends the call first; shorten it, or raise total_s"
            )


def check_model(_: Settings) -> Verdicts:
    """Yield the model that `auto` selects."""
    model = resolve_model("auto", os.environ)
    if model == DEMO:
        yield warn(
            f"auto is {model}, which is not a language model; set OPENAI_API_KEY or another key, or start Ollama"
        )
    elif model == OLLAMA and not has_model():
        yield warn(f"auto is {model}, and Ollama does not have that model. {offer_of(model)}")
    else:
        yield ok(f"auto is {model}")


def probed_models(settings: Settings) -> list[Fallback]:
    """Return each model that an agent may ask over a network, its fallbacks included, once."""
    models: dict[tuple[str, str | None, str | None], Fallback] = {}
    for definition in AgentRegistry(settings.agent_folders).usable():
        if definition.asks_model:
            candidates = Models(definition, resolve_model(definition.model, os.environ))
            for model in (candidates.current, *candidates.others):
                models[model.model, model.api_base, model.api_key_env] = model
    return [model for model in models.values() if not is_in_process(model.model)]


def probe_models(models: Sequence[Fallback]) -> Verdicts:
    """Ask each model for one word, and yield how long its first token took and what the call cost."""
    for model in models:
        call = ModelCall(
            **dict(model), messages=[{"role": "user", "content": PROBE}], params={"max_tokens": PROBE_TOKENS}
        )
        where = f"{model.model} at {model.api_base}" if model.api_base else model.model
        try:
            first_s, usage = process_loop().run(_ask(call))
        except CallboardError as error:
            yield fail(f"{where}: {error}")
            continue
        cost = cost_of(model.model, usage)
        price = "its price is not known" if cost is None else f"${cost:.6f}"
        tokens = f"{usage.input_tokens} + {usage.output_tokens} tokens, " if usage is not None else ""
        yield ok(f"{where}: first token after {first_s:.2f} s; {tokens}{price}")


async def _ask(call: ModelCall) -> tuple[float, Usage | None]:
    """Return the seconds until the first token, and what the whole answer used."""
    from agents.models.open import open_stream  # with LiteLLM, which the other checks do not need
    from agents.steps.streaming import StreamedResponseWrapper

    began = time.monotonic()
    first_s: float | None = None
    async with StreamedResponseWrapper(await open_stream(call)) as stream:
        async for _ in stream:
            first_s = time.monotonic() - began if first_s is None else first_s
    return first_s or time.monotonic() - began, stream.usage


def check_policy(settings: Settings) -> Verdicts:
    """Yield what is wrong with the policy, and what is suspicious about it."""
    try:
        policy = read_policy(settings.policy_places)
    except PolicyInvalid as error:
        yield fail(str(error))
        return
    warnings = warnings_of(policy, vocabulary_of(settings))
    yield from (warn(warning) for warning in warnings)
    if not warnings:
        yield ok(f"rules: {len(policy.rules)}, version {policy.version}")


def why_unusable(webhook: WebhookDefinition, registry: AgentRegistry) -> str | None:
    """Return why every delivery of a webhook would be refused, as a sentence; None where nothing is known."""
    start = webhook.start
    try:
        webhook.keys()
        if start is None:
            return None
        definition = registry.get(str(start.agent or start.workflow))
    except CallboardError as error:
        return str(error) if str(error).startswith(webhook.file) else f"{webhook.file}: {error}"
    kind = "workflow" if definition.is_workflow else "agent"
    if (start.workflow is not None) != definition.is_workflow:
        return f"{webhook.file}: start: '{definition.id}' is of the kind {kind}; write `{kind}: {definition.id}`."
    if not sees_agent(webhook.who, definition) or not may_start(webhook.who, definition):
        whose = f"'{webhook.who.id}' of tenant '{webhook.who.tenant}'"
        return f"{webhook.file}: start: the `access` of '{definition.id}' does not let {whose} start it; add it there."
    return None


def does(webhook: WebhookDefinition) -> str:
    """Return what a webhook's deliveries do, in a few words."""
    start = webhook.start
    if start is None:
        return "gives a signal"
    return f"starts agent {start.agent}" if start.agent is not None else f"starts workflow {start.workflow}"
