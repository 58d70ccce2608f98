"""The ids in an address."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from agents.prompt import MAX_THREAD_ID, check_thread_id

RunId = Annotated[str, Field(description="The run's id.", examples=["run_01m7wyc882adz9tga1jxhzbj7w"])]
ThreadId = Annotated[str, Field(description="The conversation's id, or your own name for it.", examples=["sums"])]
AgentId = Annotated[str, Field(description="The agent's id.", examples=["assistant"])]
VersionNumber = Annotated[str, Field(pattern=r"^[0-9]{1,9}$", description="The version's number.", examples=["2"])]
WorkflowId = Annotated[str, Field(description="The workflow's id.", examples=["triage"])]
SignalName = Annotated[
    str, Field(description="The signal's name; inside of a FOR_EACH, `NAME-INDEX`.", examples=["paid"])
]
WebhookName = Annotated[
    str, Field(max_length=64, description="The webhook's name, that of its file.", examples=["shop"])
]
KeyId = Annotated[str, Field(description="The key's id.", examples=["KVCxQwklaisCdNng"])]
GrantId = Annotated[str, Field(description="The grant's id.", examples=["grt_01m7wyc882adz9tga1jxhzbj7w"])]
GrantText = Annotated[str, Field(max_length=200)]
"""The text of a privilege grant."""
ApprovalId = Annotated[str, Field(description="The question's id.", examples=["apr_01m7wyc882adz9tga1jxhzbj7w"])]
StickyId = Annotated[str, Field(description="The sticky approval's id.", examples=["stk_01m7wyc882adz9tga1jxhzbj7w"])]
LinkToken = Annotated[str, Field(max_length=200, description="What the link ends with.", examples=["lnk_01m7….9f2c…"])]
AgentName = Annotated[str, Field(max_length=80, examples=["assistant"])]
"""The id of an agent, in a body."""
WorkflowName = Annotated[str, Field(max_length=80, examples=["triage"])]
"""The id of a workflow, in a body."""
ThreadName = Annotated[
    str,
    Field(max_length=MAX_THREAD_ID, examples=["sums"], json_schema_extra={"format": "thread-id"}),
    AfterValidator(check_thread_id),
]
"""A name for a conversation."""
Sentence = Annotated[str, Field(examples=["What is 17 * 23?"], json_schema_extra={"minLength": 1, "pattern": r"\S"})]
"""A message to an agent: not only blanks, and as long as the deployment allows."""
