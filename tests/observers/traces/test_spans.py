"""The spans of a run follow from its log and its steps: one for the run, one for each step, and each has its parent."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import orjson
import pytest
from sqlalchemy import delete, insert, select

from agents.models.call import ModelCall
from agents.testing import AgentKit, Call, Turn
from agents.tools import tool
from bus.journal.tailing import RunReader
from bus.payloads import (
    EndPayload,
    ErrorPayload,
    HandoverPayload,
    MessagePayload,
    NodePayload,
    StatusPayload,
    ToolPayload,
    ToolResultPayload,
    UnknownPayload,
)
from config.clock import stamp
from config.database.tables import events, runs, steps
from config.tracing import span_id_of, traced
from observers.traces.conventions import MAX_CONTENT, MAX_LABEL
from observers.traces.spans import MAX_EVENTS, MAX_OPERATIONS, SpanValue, spans_of
from tests.agents.workflows.flows import END, START, edges, node
from tests.observers.traces.conftest import BEGAN_MS, TracedLog

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET = "sk-abcdefghijklmnop1234"


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def at(second: float) -> str:
    return stamp(BEGAN_MS + round(second * 1000))


def the_end(seq: int = 9, **fields) -> EndPayload:
    return EndPayload(seq=seq, at=at(10), status="succeeded", **fields)


def named(spans: list[SpanValue], name: str) -> SpanValue:
    (span,) = [span for span in spans if span.name == name]
    return span


def test_a_run_of_an_agent_has_a_span_for_itself_and_one_for_each_call(kit: AgentKit):
    kit.agent(tools=[add])
    kit.model.script(Turn(calls=[Call(name="add", arguments={"a": 1, "b": 2})]), Turn(text="It is 3."))
    with traced(TRACE, parent_span=PARENT):
        run = kit.run("What is 1 + 2?")
    assert run.result(30).status == "succeeded"

    reader = RunReader(kit.runner.journal.database)
    spans = [*spans_of(reader, run.run_id, has_content=False)]

    *calls, root = spans
    model = calls[0].name  # the kit numbers the models of a process
    assert [span.name for span in spans] == [model, "execute_tool add", model, "invoke_agent Tester"]
    assert model.startswith("chat ")
    assert (root.trace_id, root.parent_id, root.span_id) == (TRACE, PARENT, span_id_of(run.run_id))
    assert {span.parent_id for span in calls} == {root.span_id}
    assert {span.trace_id for span in calls} == {TRACE}
    assert root.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert root.attributes["gen_ai.usage.input_tokens"] == 20
    assert calls[1].attributes["gen_ai.tool.name"] == "add"
    assert not any("messages" in name or "arguments" in name for span in spans for name in span.attributes)
    assert spans == [*spans_of(reader, run.run_id, has_content=False)], "made again they are the same"


def test_content_is_there_where_it_is_wanted_without_secrets_and_whole_as_json(kit: AgentKit):
    kit.agent(tools=[add])
    kit.model.script(Turn(calls=[Call(name="add", arguments={"a": 1, "b": 2})]), Turn(text=f"It is 3. {SECRET}"))
    run = kit.run(f"What is 1 + 2? {SECRET}")
    assert run.result(30).status == "succeeded"

    _, call, answer, root = spans_of(RunReader(kit.runner.journal.database), run.run_id, has_content=True)

    assert call.attributes["gen_ai.tool.call.arguments"] == '{"a":1,"b":2}'
    assert call.attributes["gen_ai.tool.call.result"] == "3"
    (message,) = json.loads(str(answer.attributes["gen_ai.output.messages"]))
    assert (message["role"], message["finish_reason"]) == ("assistant", "stop")
    assert message["parts"][0]["content"].startswith("It is 3. ")
    (asked,) = json.loads(str(root.attributes["gen_ai.input.messages"]))
    assert asked["parts"][0]["content"].startswith("What is 1 + 2? ")
    assert SECRET not in repr((call, answer, root))


def test_a_private_run_has_no_content(log: TracedLog):
    run = log.traced_run(private=True)
    step_id = log.step(run, 1)
    call = ToolPayload(seq=2, at=at(1), call_id="call_1", name="add", arguments={"a": 1}, step_id=step_id)
    log.write(run, call, the_end(output="all of it"))

    assert "gen_ai.tool.call.arguments" not in repr(log.spans(run, has_content=True))
    assert "all of it" not in repr(log.spans(run, has_content=True))


def test_a_childs_parent_is_the_call_that_delegated_it(log: TracedLog):
    parent = log.traced_run()
    step_id = log.step(parent, 1, name="ask_helper")
    log.write(parent, the_end())
    child = log.traced_run(parent_id=parent, parent_step=step_id)
    log.write(child, the_end())

    (root,) = log.spans(child)

    assert root.parent_id == span_id_of(step_id) == named(log.spans(parent), "execute_tool ask_helper").span_id


def test_the_nodes_of_a_workflow_contain_what_is_in_them(log: TracedLog):
    run = log.traced_run(kind="workflow", agent_name="Order")
    paths = ["items/0/charge", "items/1/charge"]
    step = {path: log.step(run, 3 + n, name="charge", node=path) for n, path in enumerate(paths)}
    items = [log.step(run, 5 + n, kind="item", name="items", node=f"items/{n}") for n in range(2)]
    whole = log.step(run, 7, kind="node", name="FOR_EACH", node="items")
    paid = log.step(run, 8, kind="tool", name="pay", node="pay")
    log.write(run, NodePayload(seq=2, at=at(1), node_id="items", node_type="FOR_EACH", status="started"), the_end())

    spans = {span.span_id: span for span in log.spans(run)}

    parents = {id_: spans[span_id_of(id_)].parent_id for id_ in (*step.values(), *items, whole, paid)}
    root = span_id_of(run)
    assert parents == {
        step["items/0/charge"]: span_id_of(items[0]),
        step["items/1/charge"]: span_id_of(items[1]),
        **dict.fromkeys(items, span_id_of(whole)),
        whole: root,
        paid: root,
    }
    assert spans[root].name == "invoke_workflow Order"
    assert spans[span_id_of(whole)].start_ms == BEGAN_MS + 1000, "when the node began, not when its end was written"
    assert spans[span_id_of(items[1])].start_ms == BEGAN_MS + 4000


def test_a_further_owner_and_a_retry_are_events_and_no_spans(log: TracedLog):
    run = log.traced_run()
    step_id = log.step(run, 1, attempt=3)
    log.write(
        run,
        StatusPayload(seq=1, at=at(0), status="queued"),
        StatusPayload(seq=2, at=at(1), status="running", attempt=1),
        StatusPayload(seq=3, at=at(2), status="running", attempt=2),
        ErrorPayload(seq=4, at=at(3), code="tool_failed", message="No.", attempt=1, call_id="call_1"),
        HandoverPayload(seq=5, at=at(4), from_agent="a", to_agent="b"),
        the_end(),
    )

    step, root = log.spans(run)

    assert [event.name.removeprefix("callboard.") for event in root.events] == [
        *("queued", "running", "running", "error", "handover")
    ]
    assert root.events[2].attributes == {"callboard.owner": 2}
    assert "callboard.message" not in root.events[3].attributes, "a sentence is content"
    assert (step.span_id, step.attributes["callboard.step.attempts"]) == (span_id_of(step_id), 3)


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        ("done", None, None),
        ("failed", "tool_failed", "tool_failed"),
        ("refused", None, "refused"),
        ("cancelled", "x", None),
    ],
)
def test_a_step_is_an_error_where_it_failed(log: TracedLog, status: str, code: str | None, error: str | None):
    run = log.traced_run()
    step_id = log.step(run, 1, status=status)
    facts: dict[str, Any] = {"call_id": "call_1", "name": "add", "outcome": status, "code": code, "step_id": step_id}
    log.write(run, ToolResultPayload(seq=2, at=at(2), **facts), the_end())

    step, root = log.spans(run)

    assert (step.error, step.attributes.get("error.type")) == (error, error)
    assert root.error is None


def test_a_failed_run_says_why_and_a_stopped_one_is_no_error(log: TracedLog):
    failed, stopped = log.traced_run(), log.traced_run()
    log.write(failed, replace(the_end(), status="failed", reason="model_unavailable"))
    log.write(stopped, replace(the_end(), status="cancelled", reason="stopped"))

    (root,), (other,) = log.spans(failed), log.spans(stopped)

    assert (root.error, root.attributes["error.type"]) == ("model_unavailable", "model_unavailable")
    assert (other.error, other.attributes["callboard.run.reason"]) == (None, "stopped")


def test_a_call_of_an_mcp_servers_tool_has_the_attributes_of_mcp(log: TracedLog):
    run = log.traced_run()
    step_id = log.step(run, 1, name="search")
    facts: dict[str, Any] = {"call_id": "call_1", "name": "search", "arguments": {}, "step_id": step_id}
    log.write(run, ToolPayload(seq=2, at=at(2), identity="mcp:web/search", **facts), the_end())

    step, _ = log.spans(run)

    assert step.is_client
    assert step.attributes["mcp.method.name"] == "tools/call"
    assert step.attributes["callboard.tool.identity"] == "mcp:web/search"


def test_what_a_call_did_is_below_it_and_addresses_are_bare_without_content(log: TracedLog):
    url = "https://example.org/a?q=private"
    operations = [
        {"kind": "http", "name": "GET example.org", "started_at": at(1), "duration_ms": 5.5, "span_id": PARENT}
        | {"method": "GET", "url": url, "status": 503},
        {"kind": "sql", "name": "SELECT", "started_at": at(1), "duration_ms": 1, "statement": "SELECT 1"},
        {"kind": "file", "name": "read notes.txt", "path": "notes.txt", "mode": "r", "error": "OSError"},
        {"kind": "left_out", "name": "7 more", "count": 7},
    ]
    run = log.traced_run()
    step_id = log.step(run, 1, spans_json=orjson.dumps(operations).decode())
    log.write(run, the_end())

    step, http, sql, file, _ = log.spans(run)
    whole = log.spans(run, has_content=True)

    assert {span.parent_id for span in (http, sql, file)} == {step.span_id} == {span_id_of(step_id)}
    assert (http.span_id, http.name, http.error, http.end_ms - http.start_ms) == (PARENT, "GET", "503", 5.5)
    assert http.attributes["url.full"] == "https://example.org/a"
    assert "db.query.text" not in sql.attributes
    assert (file.name, file.error, file.attributes["file.path"]) == ("read", "OSError", "notes.txt")
    assert step.attributes["callboard.operations.left_out"] == 7
    assert len({span.span_id for span in (http, sql, file)}) == 3
    assert whole[1].attributes["url.full"] == url
    assert whole[2].attributes["db.query.text"] == "SELECT 1"


# --- bad input


def test_hostile_names_and_content_of_a_megabyte_are_bounded_lines(log: TracedLog):
    hostile, long = "a\x01b\u202ec\nd" + "x" * 1000, "y" * 1_000_000
    run = log.traced_run(agent_name=hostile, model=f"p/{hostile}", correlation_id="c\x1b[31m")
    step_id = log.step(run, 1, name=hostile, spans_json='{"no": "list"}', usage_json="[1]")
    log.write(
        run,
        ToolPayload(seq=2, at="no time", call_id="c", name="t", arguments={"text": long}, step_id=step_id),
        MessagePayload(seq=3, at=at(2), role="assistant", content=long, step_id=step_id),
        the_end(output=long),
    )

    step, root = log.spans(run, has_content=True)

    for name in (step.name, root.name, root.attributes["callboard.correlation_id"]):
        assert len(str(name)) <= MAX_LABEL
        assert str(name).isprintable()
    assert all(len(str(value)) <= MAX_CONTENT + 200 for span in (step, root) for value in span.attributes.values())
    assert json.loads(str(step.attributes["gen_ai.output.messages"]))
    assert json.loads(str(root.attributes["gen_ai.output.messages"]))


def test_a_secret_that_is_in_a_row_leaves_in_no_attribute(log: TracedLog):
    run = log.traced_run(agent_name=f"Ann {SECRET}", correlation_id=SECRET)
    operation = {"kind": "http", "name": f"GET {SECRET}", "url": f"https://example.org/{SECRET}", "method": "GET"}
    step_id = log.step(run, 1, name=f"add {SECRET}", spans_json=orjson.dumps([operation]).decode())
    call = ToolPayload(seq=2, at=at(1), call_id="call_1", name="add", arguments={"key": SECRET}, step_id=step_id)
    outcome = ToolResultPayload(seq=3, at=at(2), call_id="call_1", name="add", outcome="done", result=SECRET)
    log.write(run, call, replace(outcome, step_id=step_id), the_end(output={"key": SECRET}))

    spans = log.spans(run, has_content=True)

    assert len(spans) == 3
    assert "[redacted]" in repr(spans)
    assert SECRET not in repr(spans)


def test_a_run_whose_log_has_expired_has_its_steps_and_its_end(log: TracedLog):
    run = log.traced_run()
    log.step(run, 1)
    log.write(run, StatusPayload(seq=1, at=at(0), status="queued"), the_end())
    with log.database.write() as connection:
        connection.execute(delete(events).where(events.c.run_id == run, events.c.type != "end"))

    assert [span.name for span in log.spans(run)] == ["execute_tool add", "invoke_agent Atlas"]


def test_a_run_without_any_log_is_as_its_row_says(log: TracedLog):
    run = log.traced_run(reason="done", trace_id=None)

    (root,) = log.spans(run)

    assert root.attributes["callboard.run.status"] == "succeeded"
    assert len(root.trace_id) == 32


def test_a_removed_run_has_no_spans(log: TracedLog):
    run = log.traced_run()
    with log.database.write() as connection:
        connection.execute(delete(runs).where(runs.c.id == run))

    assert log.spans(run) == []


def test_an_event_of_a_later_release_says_nothing(log: TracedLog):
    run = log.traced_run()
    log.write(run, UnknownPayload(seq=2, at=at(2), unknown_type="dance", extra={"step_id": "x"}), the_end())

    assert len(log.spans(run)) == 1


def test_no_span_ends_before_it_begins(log: TracedLog):
    run = log.traced_run()
    log.place(run, BEGAN_MS, BEGAN_MS - 5_000)
    log.step(run, 1, started_ms=BEGAN_MS, ended_ms=BEGAN_MS - 60_000)
    log.step(run, 2, ended_ms=None, status="started")
    operation = {"kind": "sql", "name": "SELECT", "started_at": "yesterday", "duration_ms": -5}
    log.step(run, 3, spans_json=orjson.dumps([operation]).decode())
    log.write(run, the_end())

    spans = log.spans(run)

    assert len(spans) == 5
    assert all(span.end_ms >= span.start_ms for span in spans)


@pytest.mark.parity
def test_ten_thousand_steps_and_events_are_sent_and_the_runs_own_span_is_bounded(log: TracedLog):
    run, count = log.traced_run(kind="workflow"), 10_000
    fields = {"run_id": run, "kind": "tool", "name": "t", "status": "done", "attempt": 1, "fence": 1}
    fields |= {"arguments_digest": "", "idempotency_key": "", "started_ms": BEGAN_MS, "ended_ms": BEGAN_MS}
    operations = orjson.dumps([{"kind": "sql", "name": "SELECT"}] * 2).decode()
    fields["spans_json"] = operations
    rows = [{"id": f"step_{n}", "number": n, "node": f"items/{n}/x", **fields} for n in range(1, count + 1)]
    with log.database.write() as connection:
        connection.execute(insert(steps), rows)
    owners = (StatusPayload(seq=n, at=at(1), status="running", attempt=n) for n in range(1, 1001))
    log.write(run, *owners, the_end(seq=1001))

    spans = log.spans(run)
    names, root = Counter(span.name for span in spans), spans[-1]

    assert names == {"execute_tool t": count, "SELECT": MAX_OPERATIONS, "invoke_workflow Atlas": 1}
    assert (len(root.events), root.attributes["callboard.events.left_out"]) == (MAX_EVENTS, 1000 - MAX_EVENTS)
    assert root.attributes["callboard.operations.left_out"] == 2 * count - MAX_OPERATIONS


# --- runs of the real engine


def whole_tree(kit: AgentKit) -> dict[str, str | None]:
    """Return the name of each span's parent by its own name, over all runs; each span is there once."""
    reader = RunReader(kit.runner.journal.database)
    with kit.runner.journal.database.read() as connection:
        run_ids = connection.execute(select(runs.c.id)).scalars().all()
    spans = [span for run_id in run_ids for span in spans_of(reader, run_id, has_content=False)]
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    assert len({span.trace_id for span in spans}) == 1
    parents = {span.name: None if span.parent_id is None else by_id[span.parent_id].name for span in spans}
    return parents


def doubling(**config: Any) -> dict[str, Any]:
    each = node("each", "FOR_EACH", items="{{ input.numbers }}", **config)
    call = node("one", "FUNCTION", tool="add", arguments={"a": "{{ item }}", "b": 1})
    return {"nodes": [START, each, call, END], "edges": edges("start each", "each one foreach-body", "each end")}


@pytest.mark.parametrize("spread", [0, 2])
def test_a_list_is_one_tree_also_where_child_runs_work_on_it(kit: AgentKit, spread: int):
    kit.workflow(tools=[add], **doubling(**({"spread": spread} if spread else {})))
    run = kit.start("flow", {"numbers": [1, 2, 3]})
    assert run.result(20).output == [2, 3, 4]

    tree = whole_tree(kit)

    assert tree["execute_tool add"] == "item each"
    assert tree["node each"] == "invoke_workflow Flow"
    assert tree["item each"] in ("node each", "invoke_workflow Flow")


def test_an_agent_that_another_one_asks_is_below_the_call(kit: AgentKit):
    kit.agent(tools=["agent:helper"], name="Boss")
    kit.agent("helper", description="Helps.", tools=[add], name="Helper")

    def respond(call: ModelCall) -> Turn:
        if any(message["role"] == "tool" for message in call.messages):
            return Turn(text="Done.")
        is_helper = any("Go." in str(message["content"]) for message in call.messages)
        name, arguments = ("add", {"a": 1, "b": 2}) if is_helper else ("helper", {"message": "Go."})
        return Turn(calls=[Call(name=name, arguments=arguments)])

    kit.model.respond = respond
    assert kit.run("Hello").result(20).status == "succeeded"

    tree = whole_tree(kit)

    assert tree["execute_tool add"] == "invoke_agent Helper"
    assert tree["invoke_agent Helper"] == "execute_tool helper"
    assert (tree["execute_tool helper"], tree["invoke_agent Boss"]) == ("invoke_agent Boss", None)


def test_a_call_of_a_tool_by_itself_is_below_its_run(kit: AgentKit):
    kit.agent(tools=[add])
    assert kit.runner.call_tool("add", {"a": 1, "b": 2}, agent_id="tester").result(10).output == 3

    assert whole_tree(kit) == {"execute_tool add": "run_tool Tester", "run_tool Tester": None}
