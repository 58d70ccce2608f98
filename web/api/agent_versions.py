"""Versions of agents: list them, and say which one new runs get; and move a waiting run to the one that serves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

from flask import Blueprint, Response
from pydantic import Field

from agents.errors import AgentUnknown
from bus.identity.errors import AGENT_FORBIDDEN, FORBIDDEN
from bus.journal.errors import ALIAS_REFUSED, UPGRADE_REFUSED, VERSION_UNKNOWN, RunUnknown
from config.definitions.errors import DefinitionInvalid
from config.errors import CallboardError
from web.api.answers import answer
from web.api.runs import NoFields
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Answer, Input
from web.calls.parameters import Whole
from web.process import current_process
from web.schemas.paths import AgentId, RunId, VersionNumber
from web.schemas.run import ControlledRun

if TYPE_CHECKING:
    from bus.journal.stores import Aliases

agent_versions = Blueprint("agent_versions", __name__)

CANARY_SHARE = 10
"""Percent of the threads that a canary gets where no share is named."""
MOST_VERSIONS = 999_999_999


class Promotion(Answer):
    """Who let an alias stand for a version."""

    by: str
    """The principal."""
    at: str


class ListedVersion(Answer):
    """One content that the agent's file has had."""

    version: int
    digest: str
    """SHA-256 of the whole content."""
    behaviour: str
    """SHA-256 of what decides how a run behaves: versions with the same one differ in names and descriptions alone."""
    created_at: str
    aliases: dict[str, int]
    """The aliases that stand for it, each with its share of the threads in percent."""
    promoted: dict[str, Promotion]
    """By alias."""
    is_in_file: bool
    """Whether the agent's file says this now."""


class VersionContent(Answer):
    """What a version says."""

    agent: str
    version: int
    content: dict[str, Any]
    """The fields of the file, with the prompts."""


class VersionList(Answer):
    """The versions of an agent, the newest first."""

    versions: list[ListedVersion]


class ServedVersion(Answer):
    """What an alias stands for."""

    version: int
    share: int
    """Percent of the threads."""


class AgentAliases(Answer):
    """Which versions new runs of an agent get; without an alias they get what its file says."""

    agent: str
    aliases: dict[str, ServedVersion]
    """By ``stable`` and ``canary``."""


class Promote(Input):
    """Which version new runs get."""

    version: Annotated[int, Whole(1, MOST_VERSIONS)] | Literal["latest"] = Field(examples=[2])
    """Its number; ``latest``: both aliases end, and new runs get what the agent's file says."""
    alias: Literal["stable", "canary"] = "stable"
    """``stable``: all threads, and a canary ends. ``canary``: a share of them; a thread stays on its side."""
    share: Annotated[int, Whole(1, 99)] = CANARY_SHARE
    """Of a canary: percent of the threads."""


class UpgradeOffer(Answer):
    """The version that a waiting run may be moved to."""

    run_id: str
    agent: str
    before: str
    """The digest of the definition that the run has."""
    definition: str
    """The digest of the version that serves now; ``POST`` states it."""
    changed: list[str]
    """The fields of the definition that differ."""


class Upgrade(Input):
    """The person's word."""

    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", examples=["0" * 64])]
    """``definition`` as it was shown; another version that serves by now is refused."""


@agent_versions.get("/v1/agents/<agent_id>/versions")
@call({200: VersionList}, problems=(AgentUnknown, DefinitionInvalid))
def versions(agent_id: AgentId) -> Response:
    """List the versions of an agent, the newest first, with their aliases."""
    registry = current_process().runner.registry
    registry.get_for(current_principal(), agent_id)
    with suppress(CallboardError):  # of an agent without a run: else its first start gives the number
        registry.register(agent_id)
    return answer({"versions": registry.versions(agent_id)})


@agent_versions.get("/v1/agents/<agent_id>/versions/<version>")
@call({200: VersionContent}, problems=(AgentUnknown, FORBIDDEN, VERSION_UNKNOWN))
def one(agent_id: AgentId, version: VersionNumber) -> Response:
    """Return what a version of an agent says, with its prompts. For operators and administrators, as ``promote``."""
    registry = current_process().runner.registry
    registry.require_may_promote(current_principal(), agent_id)
    number = int(version) if re.fullmatch(r"[0-9]{1,9}", version, re.ASCII) else 0
    return answer({"agent": agent_id, "version": number, "content": registry.content(agent_id, number)})


@agent_versions.post("/v1/agents/<agent_id>/promote")
@call({200: AgentAliases}, problems=(AgentUnknown, FORBIDDEN, VERSION_UNKNOWN, ALIAS_REFUSED))
def promote(agent_id: AgentId, body: Promote) -> Response:
    """Let new runs of an agent get a version; runs that are open keep theirs. For operators and administrators."""
    principal, process = current_principal(), current_process()
    process.runner.registry.require_may_promote(principal, agent_id)
    number, share = None if body.version == "latest" else body.version, 100 if body.alias == "stable" else body.share
    promoted = process.journal.stores.agent_versions.promote(principal, agent_id, number, body.alias, share)
    return _aliases(agent_id, promoted)


@agent_versions.post("/v1/agents/<agent_id>/rollback")
@call({200: AgentAliases}, problems=(AgentUnknown, FORBIDDEN, ALIAS_REFUSED))
def rollback(agent_id: AgentId, body: NoFields) -> Response:
    """Take the last promotion back: the canary ends, or else the version before is stable. As ``promote``."""
    principal, process = current_principal(), current_process()
    process.runner.registry.require_may_promote(principal, agent_id)
    return _aliases(agent_id, process.journal.stores.agent_versions.roll_back(principal, agent_id))


def _aliases(agent_id: str, aliases: Aliases) -> Response:
    numbers: Mapping[str, object] = {
        name: {"version": alias.number, "share": alias.share} for name, alias in aliases.items()
    }
    return answer({"agent": agent_id, "aliases": numbers})


MOVING = (RunUnknown, AgentUnknown, DefinitionInvalid, AGENT_FORBIDDEN, UPGRADE_REFUSED)


@agent_versions.get("/v1/runs/<run_id>/upgrade")
@call({200: UpgradeOffer}, problems=MOVING)
def upgrade_of(run_id: RunId) -> Response:
    """Return what moving a waiting run to today's version of its agent would change; 409 where it cannot be moved."""
    process = current_process()
    offer = process.runner.registry.upgrade_of(process.journal, current_principal(), run_id)
    facts = {"run_id": run_id, "agent": offer.definition.id, "before": offer.run.definition_digest}
    changed = [change["field"] for change in offer.changes]
    return answer(facts | {"definition": offer.definition.digest, "changed": changed})


@agent_versions.post("/v1/runs/<run_id>/upgrade")
@call({200: ControlledRun}, problems=(*MOVING, FORBIDDEN))
def upgrade(run_id: RunId, body: Upgrade) -> Response:
    """Move a waiting run to today's version of its agent; its steps stay, and what was approved is asked again.

    A repeated request is refused, since the run has moved.
    """
    principal, process = current_principal(), current_process()
    to = process.runner.registry.upgrade_of(process.journal, principal, run_id).version(body.digest)
    written = process.journal.clients.upgrade(principal, run_id, to, by=principal.id)
    return answer({"run_id": run_id, "thread_id": written.thread_id, "status": written.status})
