"""REDUCE: what each reducer makes of a list, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from agents.models.scripted import Turn
from agents.testing import AgentKit
from bus.payloads import ErrorPayload
from config.definitions.errors import DefinitionInvalid
from tests.agents.workflows.flows import chain, events, labels, node, wait_until

LARGEST = 2**63 - 1


def reduced(kit: AgentKit, items: Any, **config: Any) -> Any:
    """Return what a REDUCE comes to, or the code and the sentence with which it fails."""
    kit.workflow(**chain(node("r", "REDUCE", items="{{ input.items }}", **config)))
    handle = kit.start("flow", {"items": items})
    if handle.result(5).status == "succeeded":
        return handle.result(5).output
    error = [event for event in events(kit, handle) if isinstance(event, ErrorPayload)][-1]
    return error.code, error.message


SALES = [{"kind": "a", "n": 1}, {"kind": "b", "n": 2}, {"kind": "a", "n": 3.5}]


@pytest.mark.parametrize(
    ("items", "config", "value"),
    [
        (SALES, {"reducer": "sum", "by": "item.n"}, 6.5),
        ([], {"reducer": "sum"}, 0),
        ([LARGEST - 1, 1], {"reducer": "sum"}, LARGEST),
        (["a", "b"], {"reducer": "concat", "separator": ", "}, "a, b"),
        ([[1], [], [2, 3]], {"reducer": "concat", "separator": ", "}, [1, 2, 3]),
        ([], {"reducer": "concat"}, ""),
        ([{"a": 1, "b": 1}, {"b": 2}], {"reducer": "merge"}, {"a": 1, "b": 2}),
        ([], {"reducer": "merge"}, {}),
        (SALES, {"reducer": "group", "by": "item.kind"}, {"a": [SALES[0], SALES[2]], "b": [SALES[1]]}),
        ([1, 1.0, 2.5], {"reducer": "group", "by": "item"}, {"1": [1, 1.0], "2.5": [2.5]}),
        ([1, 5], {"reducer": "group", "by": "item > 3"}, {"false": [1], "true": [5]}),
        ([], {"reducer": "group", "by": "item"}, {}),
        ([7, 8], {"reducer": "first"}, 7),
        ([1, 5, "six"], {"reducer": "first", "by": "item > 3"}, 5),
        ([1, 2], {"reducer": "first", "by": "item > 3"}, None),
        ([1, 2, 3], {"expression": "total * 10 + item + index", "initial": 5}, 5135),
        ([], {"expression": "total + item"}, None),
    ],
)
def test_a_reducer_makes_one_value(kit: AgentKit, items: Any, config: dict[str, Any], value: Any) -> None:
    assert reduced(kit, items, **config) == value


@pytest.mark.parametrize(
    ("items", "config", "words"),
    [
        ([1, True], {"reducer": "sum"}, "needs a number, and item 1 is true or false"),
        ([{"n": 1}, {}], {"reducer": "sum", "by": "item.n"}, "`by` of item 1: Key not found"),
        ([LARGEST, 1], {"reducer": "sum"}, "64 bits"),
        ([-LARGEST, -2], {"reducer": "sum"}, "64 bits"),
        ([1e308, 1e308], {"reducer": "sum"}, "64 bits"),
        ([1, 2], {"expression": f"total + item * {LARGEST}", "initial": 0}, "overflow"),
        ([1e308], {"expression": "item * 10.0"}, "beyond 64 bits"),
        ([1e308], {"expression": "{'a': [item * 10.0]}"}, "beyond 64 bits"),
        (["a", 1], {"reducer": "concat"}, "a text, or all are lists, and item 1 is a number"),
        ([["a"], "b"], {"reducer": "concat"}, "a text, or all are lists, and item 0 is a list"),
        ([{}, []], {"reducer": "merge"}, "a mapping, and item 1 is a list"),
        ([{"k": []}], {"reducer": "group", "by": "item.k"}, "in `by`, and item 0 is a list"),
        ([{"k": "1"}, {"k": 1}], {"reducer": "group", "by": "item.k"}, "item 0 is a text, and item 1 is a number"),
        ([{"k": 1}, {}], {"reducer": "group", "by": "item.k"}, "`by` of item 1: Key not found"),
        ([1, {"n": 2}], {"reducer": "first", "by": "item.n"}, "`by` of item 0"),
        ([{"n": 2}], {"reducer": "first", "by": "item.n"}, "neither true nor false"),
    ],
)
def test_an_item_that_a_reducer_cannot_take_fails_the_node(
    kit: AgentKit, items: Any, config: dict[str, Any], words: str
) -> None:
    code, sentence = reduced(kit, items, **config)

    assert (code, words in sentence) == ("expression_failed", True), sentence


def test_the_first_reducer_refuses_what_is_no_condition_when_the_file_is_read(kit: AgentKit) -> None:
    with pytest.raises(DefinitionInvalid, match="has to be true or false"):
        reduced(kit, [], reducer="first", by="'item.n'")


@pytest.mark.parametrize("items", ["text", None, {"a": 1}])
@pytest.mark.parametrize("config", [{"reducer": "sum"}, {"reducer": "llm", "prompt": "Sum up."}])
def test_what_is_no_list_is_not_reduced(kit: AgentKit, items: Any, config: dict[str, Any]) -> None:
    assert reduced(kit, items, **config)[0] == "items_refused"


def test_a_model_reduces_a_list_that_it_sees_and_its_answer_is_a_models(kit: AgentKit) -> None:
    kit.model.respond = lambda call: Turn(text=[f"Of {call.messages[-1]['content']}"])
    config: dict[str, Any] = {"reducer": "llm", "prompt": "{{ items }} in one word"}
    kit.workflow(**chain(node("r", "REDUCE", items=["a", "b"], **config), node("w", "WAIT", signal="go")))
    handle = kit.start()
    wait_until(lambda: "w" in labels(kit, handle), "the model does not answer")

    assert labels(kit, handle)["r"] == ["model"]
    handle.cancel()
    assert reduced(kit, ["a", "b"], **config) == 'Of ["a","b"] in one word'
