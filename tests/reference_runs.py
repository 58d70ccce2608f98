"""Runs of reference: what the model says in each depends on the conversation alone, so a run done again is the same.

The tools are named by their module, since each test has its own that write down what arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.model_server import Call, Turn

Respond = Callable[[Mapping[str, Any]], Turn]
NAMES = ("look_up", "put", "send", "pay", "order", "inquire")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceRun:
    """One scenario."""

    respond: Respond
    """Answers a request by its body."""
    more: str = ""
    """Lines for the agent's file, besides its tools."""
    uses_tools: bool = True
    stop_at: str | None = None
    """A person stops the run when it says this."""
    called: tuple[str, Mapping[str, Any]] | None = None
    """The tool and the arguments of a run of kind ``tool``; its model is not asked."""

    def definition(self, module: str) -> str:
        """Return the lines of the agent's file, with the tools of ``module``."""
        tools = ", ".join(f"{module}:{name}" for name in NAMES)
        return f"tools: [{tools}]\n{self.more}" if self.uses_tools else self.more


def results_in(body: Mapping[str, Any]) -> int:
    """Return how many tool results the conversation holds."""
    return sum(message["role"] == "tool" for message in body["messages"])


def call(name: str, value: str) -> Call:
    return Call(name=name, arguments={"value": value})


def _in_turn(*turns: Turn) -> Respond:
    return lambda body: turns[results_in(body)]


def _at_once(*calls: Call) -> Respond:
    return lambda body: Turn(text="All done.") if results_in(body) else Turn(calls=calls)


def _unasked(_body: Mapping[str, Any]) -> Turn:
    raise AssertionError("a run of kind `tool` asks no model")


def _mended(body: Mapping[str, Any]) -> Turn:
    is_second = "cannot be used" in str(body["messages"][-1]["content"])
    return Turn(text='{"sum": 3}' if is_second else "three")


_SCHEMA = """
output_schema:
  type: object
  properties: {sum: {type: integer}}
  required: [sum]
"""

HELPER = "reference-0"
"""The agent of the first run of reference, to which another one delegates."""


def _delegates(body: Mapping[str, Any]) -> Turn:
    if any(message.get("content") == "Say hello." for message in body["messages"]):
        return Turn(text="Hello to you.")  # where one model answers for both agents
    return _at_once(*[Call(name=HELPER, arguments={"message": "Say hello."})] * 2)(body)


REFERENCE_RUNS: dict[str, ReferenceRun] = {
    "chat": ReferenceRun(uses_tools=False, respond=lambda body: Turn(text="Hello to you.")),
    "two tools in turn": ReferenceRun(
        respond=_in_turn(
            Turn(text="First", calls=[call("look_up", "a")]), Turn(calls=[call("send", "b")]), Turn(text="Done.")
        )
    ),
    "unsafe tool": ReferenceRun(respond=_in_turn(Turn(calls=[call("pay", "5")]), Turn(text="Paid."))),
    "approved call": ReferenceRun(
        more="tool_overrides: {pay: {confirm: true}, send: {confirm: true}}\n",
        respond=_at_once(call("pay", "5"), call("look_up", "a"), call("send", "b")),
    ),
    "sticky approval": ReferenceRun(
        more="tool_overrides: {pay: {confirm: true, sticky: [thread]}}\n",
        respond=_in_turn(Turn(calls=[call("pay", "1")]), Turn(calls=[call("pay", "2")]), Turn(text="Both paid.")),
    ),
    "questions": ReferenceRun(
        more="ask_missing_arguments: true\ntool_overrides: {send: {confirm: true}}\n",
        respond=_at_once(call("inquire", "a"), Call(name="send", arguments={}), call("pay", "c")),
    ),
    "checkable tool": ReferenceRun(respond=_in_turn(Turn(calls=[call("order", "tea")]), Turn(text="Ordered."))),
    "parallel tools": ReferenceRun(
        respond=_at_once(
            call("look_up", "a"), call("put", "b"), call("send", "c"), call("pay", "d"), call("order", "e")
        )
    ),
    "called pure tool": ReferenceRun(respond=_unasked, called=("look_up", {"value": "a"})),
    "called unsafe tool": ReferenceRun(respond=_unasked, called=("pay", {"value": "5"})),
    "called checkable tool": ReferenceRun(respond=_unasked, called=("order", {"value": "tea"})),
    "called and approved": ReferenceRun(
        respond=_unasked, called=("pay", {"value": "5"}), more="tool_overrides: {pay: {confirm: true}}\n"
    ),
    "two unsafe at once": ReferenceRun(respond=_at_once(call("pay", "1"), call("pay", "2"))),
    "structured output": ReferenceRun(uses_tools=False, more=_SCHEMA, respond=_mended),
    "wrong calls": ReferenceRun(respond=_in_turn(Turn(calls=[Call(name="nothing_of_that_name")]), Turn(text="Sorry."))),
    "hand-over": ReferenceRun(  # to the first of these
        uses_tools=False,
        more="tools: [ChangeGoal]\n",
        respond=_in_turn(
            Turn(calls=[Call(name="ChangeGoal", arguments={"goal": "reference-0"})]), Turn(text="Hello to you.")
        ),
    ),
    "delegation": ReferenceRun(uses_tools=False, more=f"tools: ['agent:{HELPER}']\n", respond=_delegates),
    "stop in the middle": ReferenceRun(
        respond=lambda body: (
            Turn(text=["never ", "whole"], stall_after=2) if results_in(body) else Turn(calls=[call("send", "a")])
        ),
        stop_at="never",
    ),
}
