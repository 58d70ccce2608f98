"""Runs of reference: what the model says in each depends on the conversation alone, so a run done again is the same.

The tools are named by their module, since each test has its own that write down what arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cli.crashlab.trial import Reply
from tests.model_server import Call, Turn

Respond = Callable[[Mapping[str, Any]], Turn]
PROMPT = "system_prompt: You are a test.\n"
NAMES = ("look_up", "put", "send", "pay", "order", "inquire", "be_steered", "be_paused")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceRun:
    """One scenario."""

    respond: Respond
    """Answers a request by its body."""
    more: str = ""
    """Lines for the agent's file, besides its tools."""
    uses_tools: bool = True
    act_at: str | None = None
    """A person acts when the run says this."""
    reply: Reply | None = None
    """What the person sends then, or without ``act_at`` in place of an answer; None: the run is stopped."""
    is_resumed: bool = False
    """Whether the model server, which has stopped in its answer, sends the rest once the reply was sent."""
    then: Sequence[str] = ()
    """Messages for the thread, each sent when the run before it has ended."""
    output: Any = None
    """What the last run returns; None: it does not matter, since each kill has to lead to the same."""
    routes: Sequence[str] = ("sync", "async")
    called: tuple[str, Mapping[str, Any]] | None = None
    """The tool and the arguments of a run of kind ``tool``; its model is not asked."""
    workflow_input: Mapping[str, Any] | None = None
    """What a workflow is started with, of which ``more`` has all lines."""
    signals: Mapping[str, Any] = field(default_factory=dict)
    """What a person gives a workflow that waits for a signal; with none, the run is stopped then."""

    @property
    def is_alone(self) -> bool:
        """Whether it is one run, of which a person at most answers what it asks."""
        return self.reply is None and self.act_at is None and not self.then

    def definition(self, module: str) -> str:
        """Return the lines of the agent's file, with the tools of ``module``."""
        if self.workflow_input is not None:
            return self.more
        tools = ", ".join(f"{module}:{name}" for name in NAMES) if self.uses_tools else ""
        return f"{PROMPT}tools: [{tools}]\n{self.more}" if self.uses_tools else f"{PROMPT}{self.more}"


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


NOTE, RATHER = "Leave out the tea.", "Rather some tea."
"""Texts for a run that is under way."""
STALLED = Turn(text=["never ", "whole"], stall_after=2)
"""An answer during which a person acts."""


def _times(body: Mapping[str, Any], text: str) -> int:
    """Return how often a user says this."""
    return sum(message["role"] == "user" and message.get("content") == text for message in body["messages"])


def _steered(body: Mapping[str, Any]) -> Turn:
    """Say behind how many results of the two calls the text stands, which comes during the first one."""
    messages = body["messages"]
    places = [results_in({"messages": messages[:at]}) for at, its in enumerate(messages) if its.get("content") == NOTE]
    calls = [call("be_steered", NOTE), call("send", "b")][results_in(body) :]
    return Turn(calls=calls[:1]) if calls else Turn(text=f"The text came behind {places} results.")


def _steered_at_the_end(body: Mapping[str, Any]) -> Turn:
    if not results_in(body):
        return Turn(calls=[call("send", "a")])
    times = _times(body, NOTE)
    return Turn(text=f"The text came {times} times.") if times else STALLED


def _failing(body: Mapping[str, Any]) -> Turn:
    """Fail, since both answers are of another form, and answer the text that came during the second one."""
    if _times(body, NOTE):
        return Turn(text=f'{{"sum": {_times(body, NOTE)}}}')
    return STALLED if "cannot be used" in str(body["messages"][-1]["content"]) else Turn(text="three")


def _interrupted(body: Mapping[str, Any]) -> Turn:
    """Begin an answer without an end, and say in the next turn what the model is shown of the first one."""
    if _times(body, RATHER):
        return Turn(text=f"After {_times(body, 'Do it.')} messages with {results_in(body)} results.")
    return STALLED if results_in(body) else Turn(calls=[call("send", "a")])


# --- a long thread

WORDS = " ".join(f"word{number}" for number in range(40))
"""More than an eighth of the history of an agent whose threads are long."""


def _talked(body: Mapping[str, Any]) -> Turn:
    """Call two tools in each turn but the last, with many words."""
    messages = body["messages"]
    if messages[0]["content"].startswith("You write the summary"):
        return Turn(text="They looked things up.")
    questions = [number for number, message in enumerate(messages) if message["role"] == "user"]
    results = sum(message["role"] == "tool" for message in messages[questions[-1] :])
    question = messages[questions[-1]]["content"]
    calls = [] if question == "And more?" else [call("look_up", question), call("send", question)]
    return Turn(text=WORDS, calls=[calls[results]]) if results < len(calls) else Turn(text=f"{question} Done.")


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
        respond=lambda body: STALLED if results_in(body) else Turn(calls=[call("send", "a")]),
        act_at="never",
    ),
    "steer": ReferenceRun(respond=_steered, output="The text came behind [1] results."),
    "steer at the end": ReferenceRun(
        respond=_steered_at_the_end,
        act_at="never",
        reply=Reply(NOTE, "steer"),
        is_resumed=True,
        output="The text came 1 times.",
    ),
    "steer and a failure": ReferenceRun(
        uses_tools=False,
        more=_SCHEMA,
        respond=_failing,
        act_at="never",
        reply=Reply(NOTE, "steer"),
        is_resumed=True,
        output={"sum": 1},
    ),
    "interrupt": ReferenceRun(
        respond=_interrupted,
        act_at="never",
        reply=Reply(RATHER, "interrupt"),
        output="After 1 messages with 1 results.",
    ),
    "rollback": ReferenceRun(
        respond=_interrupted,
        act_at="never",
        reply=Reply(RATHER, "rollback"),
        output="After 0 messages with 0 results.",
    ),
    "interrupted question": ReferenceRun(
        more="tool_overrides: {send: {confirm: true}}\n",
        respond=_interrupted,
        reply=Reply(RATHER, "interrupt"),
        output="After 1 messages with 1 results.",
    ),
    "pause": ReferenceRun(
        respond=_in_turn(Turn(calls=[call("be_paused", "a")]), Turn(calls=[call("send", "b")]), Turn(text="Done."))
    ),
    "compaction": ReferenceRun(
        more="history_chars: 1200\n", respond=_talked, then=("And then?", "And more?"), routes=("async",)
    ),
}
