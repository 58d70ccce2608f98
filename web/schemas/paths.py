"""The ids in an address."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

RunId = Annotated[str, Field(description="The run's id.", examples=["run_01m7wyc882adz9tga1jxhzbj7w"])]
ThreadId = Annotated[str, Field(description="The conversation's id, or your own name for it.", examples=["sums"])]
AgentId = Annotated[str, Field(description="The agent's id.", examples=["assistant"])]
KeyId = Annotated[str, Field(description="The key's id.", examples=["KVCxQwklaisCdNng"])]
ApprovalId = Annotated[str, Field(description="The question's id.", examples=["apr_01m7wyc882adz9tga1jxhzbj7w"])]
ThreadName = Annotated[str, Field(max_length=128, json_schema_extra={"format": "thread-id"})]
"""A name for a conversation; `agents/runner.py` says which it takes."""
Sentence = Annotated[str, Field(json_schema_extra={"minLength": 1, "pattern": r"\S"})]
"""A message to an agent: not only blanks, and as long as the deployment allows."""
