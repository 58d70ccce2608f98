"""Tools with which an agent lists the other agents and hands its conversation over to one of them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from agents.tools.call_context import current_call
from agents.tools.tool import tool


@tool(name="ListAgents", effect="pure", timeout_s=20)
def list_agents() -> dict[str, Any]:
    """List the agents that this user may talk to, with what each is for. Hand over with ChangeGoal."""
    rows = [
        [agent.id, agent.name, agent.category_tag, agent.description] for agent in current_call().agents.startable()
    ]
    return {"columns": ["goal", "name", "category", "description"], "rows": rows}


@tool(name="ChangeGoal", effect="pure", timeout_s=20, hands_over=True)
def change_goal(
    goal: Annotated[str, Field(min_length=1, max_length=64)], reason: Annotated[str, Field(max_length=500)] = ""
) -> str:
    """Hand this conversation over to another agent, which sees all of it and continues at once. Call it by itself.

    Args:
        goal: the id of the agent, as ListAgents has it.
        reason: one sentence for the other agent about what the user wants.
    """
    agent = current_call().agents.hand_over(goal, reason.strip())
    return f"{agent.name} ({agent.id}) continues the conversation from here."
