"""What a principal is offered as tools: the agents and workflows that it may start, and the tools of these agents."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp.types import Tool, ToolAnnotations

from agents.prompt import MAX_THREAD_ID
from bus.identity.access import may_start
from config.definitions.agent import AgentDefinition
from config.effects import Changes, Effect, recorded_policy
from config.identity.principal import Principal
from web.mcp.results import run_schema
from web.mcp.service import Acting, Service

FRESH_S = 1.0
"""Seconds for which a principal's tools are kept: a call looks its tool up, and the files and the catalogue are read
for that. Whether the call may be made is decided without it."""
START_S = 15.0
"""Seconds after the first request of a process for which lists wait for the tools of the first worker."""
START_LOOK_S = 0.2
MAX_KEPT = 1000
MAX_NAME = 128
DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""By what arguments are validated."""
EFFECT = "callboard/effect"
"""The member of a tool's `_meta` that has its effect class, for clients that are Callboards. A repeated call with the
same key has the first one's run, so that none is worse than keyed."""
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, kw_only=True, slots=True)
class OfferedTool:
    """One tool as clients see it, and what a call of it does."""

    agent: AgentDefinition
    """The agent or the workflow that is started, or the agent whose tool is called."""
    tool: str | None
    """The tool's own name; None: the agent or the workflow itself is called."""
    mcp_tool: Tool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kept:
    """What a principal was offered lately."""

    at_s: float
    tools: Mapping[str, OfferedTool]
    withheld: Mapping[str, frozenset[str]]
    """By their own names, the tools that the principal may not call, with the roles that may."""
    is_complete: bool
    """Whether there is a tool, also one that the principal may not use, unless no agent names any."""


class Offers:
    """The tools of each principal, by the names under which clients call them."""

    def __init__(self, service: Service, reserved: Iterable[str]) -> None:
        self._service = service
        self._reserved = frozenset(reserved)
        self._kept: dict[Principal, _Kept] = {}
        self._until_s = time.monotonic() + START_S

    async def settled(self, caller: Acting) -> Mapping[str, OfferedTool]:
        """Return what a caller is offered; in the first seconds of the process, once the first worker has its tools.

        The web process answers before the workers have imported theirs, and a client may list its tools only once.
        """
        snapshot = await self._service.act(caller, self._read, caller.principal)
        while not snapshot.is_complete and time.monotonic() < self._until_s:
            await asyncio.sleep(START_LOOK_S)
            snapshot = await self._service.act(caller, self._read, caller.principal)
        return snapshot.tools

    def of(self, principal: Principal) -> Mapping[str, OfferedTool]:
        """Return what a principal is offered. Reads files and SQL."""
        return self._read(principal).tools

    def withheld(self, principal: Principal) -> Mapping[str, frozenset[str]]:
        """Return the tools of the principal's agents that it has no role for, with the roles that may call them."""
        return self._read(principal).withheld

    def _read(self, principal: Principal) -> _Kept:
        now_s = time.monotonic()
        snapshot = self._kept.get(principal)
        if snapshot is not None and now_s - snapshot.at_s < (FRESH_S if snapshot.is_complete else START_LOOK_S / 2):
            return snapshot
        registry = self._service.runner.registry
        agents = [agent for agent in registry.seen_by(principal) if agent.listed and may_start(principal, agent)]
        callable_ids = [agent.id for agent in agents if not agent.is_workflow]  # a node's call may follow an approval
        tools = self._service.tools_of(callable_ids)
        usable = [tool for tool in tools if _is_for(principal, tool)]
        withheld = {
            _clean(entry["name"]): frozenset(entry["roles"]) for entry in tools if not _is_for(principal, entry)
        }
        by_name = offers(agents, usable, self._service.settings.default_agent, self._reserved)
        is_complete = bool(tools) or not any(agent.tools for agent in agents if not agent.is_workflow)
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[principal] = snapshot = _Kept(at_s=now_s, tools=by_name, withheld=withheld, is_complete=is_complete)
        return snapshot


def offers(
    agents: Sequence[AgentDefinition], tools: Sequence[Mapping[str, Any]], default: str, reserved: frozenset[str]
) -> dict[str, OfferedTool]:
    """Return agents, workflows and tools by name; a tool whose name has another meaning too is called ``AGENT_NAME``.

    A tool that several agents use alike is called with the overrides of the default agent if that has it, otherwise
    with those of the first.
    """
    by_name: dict[str, OfferedTool] = {}
    for agent in agents:
        name = _free(agent.id, f"agent_{agent.id}", by_name, reserved)
        mcp_tool = _workflow_shown(name, agent) if agent.is_workflow else _agent_shown(name, agent)
        by_name[name] = OfferedTool(agent=agent, tool=None, mcp_tool=mcp_tool)
    used = list(_used(agents, tools, default))
    counted = Counter(_clean(tool["name"]) for _, tool in used)
    taken = reserved | by_name.keys()
    for agent, tool in used:
        plain = _clean(tool["name"])
        prefixed = _clean(f"{agent.id}_{plain}")
        name = _free(prefixed if counted[plain] > 1 else plain, prefixed, by_name, taken)
        by_name[name] = OfferedTool(agent=agent, tool=tool["name"], mcp_tool=_tool_shown(name, tool))
    return by_name


def _used(
    agents: Sequence[AgentDefinition], tools: Sequence[Mapping[str, Any]], default: str
) -> Iterator[tuple[AgentDefinition, Mapping[str, Any]]]:
    """Yield each tool with the agent as whose tool it is called."""
    order = sorted(agents, key=lambda agent: agent.id != default)
    for tool in tools:
        users = [agent for agent in order if agent.id in tool["agents"]]
        if users:
            yield users[0], tool


def _is_for(principal: Principal, tool: Mapping[str, Any]) -> bool:
    roles = set(tool["roles"])
    return not roles or not roles.isdisjoint(principal.roles)


def _clean(name: str) -> str:
    return _NOT_IN_A_NAME.sub("_", name)[:MAX_NAME]


def _free(name: str, other: str, *taken: Iterable[str]) -> str:
    """Return the name, or the other one if it is taken, with a number where that is taken too."""
    names = {entry for names in taken for entry in names}
    if name not in names:
        return name
    numbered = (other[: MAX_NAME - len(f"_{number}")] + f"_{number}" for number in range(2, len(names) + 3))
    return next(candidate for candidate in (other[:MAX_NAME], *numbered) if candidate not in names)


def _agent_shown(name: str, agent: AgentDefinition) -> Tool:
    about = agent.description or f"The agent {agent.name}."
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "input": {"type": "string", "minLength": 1, "description": "The message for the agent."},
            "thread_id": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_THREAD_ID,
                "description": "The conversation to continue, or a name for a new one; absent: a new one.",
            },
        },
        "required": ["input"],
        "additionalProperties": False,
    }
    return Tool(
        name=name,
        title=agent.name,
        description=f"{about} An agent: it gets the message and answers when it is done.",
        input_schema=schema,
        output_schema=run_schema(agent.output_schema),
        annotations=ToolAnnotations(read_only_hint=False, open_world_hint=True),
        _meta={EFFECT: Effect.KEYED},
    )


def _workflow_shown(name: str, workflow: AgentDefinition) -> Tool:
    about = workflow.description or f"The workflow {workflow.name}."
    return Tool(
        name=name,
        title=workflow.name,
        description=f"{about} A workflow: it is started, and run_status has its result.",
        input_schema={"$schema": DIALECT, **(workflow.input_schema or {})},
        output_schema=run_schema(None, of_workflow=True),
        annotations=ToolAnnotations(read_only_hint=False, open_world_hint=True),
        _meta={EFFECT: Effect.KEYED},
    )


def _tool_shown(name: str, tool: Mapping[str, Any]) -> Tool:
    changes = recorded_policy(tool["effect"]).changes
    approval = " A person has to approve each call." if tool["needs_approval"] else ""
    return Tool(
        name=name,
        description=f"{tool['description']}{approval}",
        input_schema={"$schema": DIALECT, "type": "object", **tool["input_schema"]},
        output_schema=run_schema(tool["output_schema"]),
        annotations=ToolAnnotations(
            read_only_hint=changes is Changes.NEVER,
            destructive_hint=changes is Changes.EACH_CALL,
            idempotent_hint=changes is not Changes.EACH_CALL,
        ),
        _meta={EFFECT: Effect.KEYED if changes is Changes.EACH_CALL else tool["effect"]},
    )
