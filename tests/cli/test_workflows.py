"""`workflows`, and `run`, `signal` and `runs` of a workflow, as a person types them, on SQL alone."""

from __future__ import annotations

import io
from pathlib import Path

import orjson
import pytest

from bus.messages.run_agent import RunAgentMessage
from cli.open_runner import open_runner
from config.settings import Settings
from handlers.run_agent import run_agent
from tests.agents.workflows import test_for_each
from tests.cli.test_runs_on_the_terminal import Type, model, type_

__all__ = ["model", "type_"]
pytestmark = pytest.mark.parity

SUMS = """\
name: Sums
description: Adds a number to each of a list.
model: demo/assistant
input:
  type: object
  properties: {numbers: {type: array, description: What is added to.}, by: {type: integer}}
  required: [numbers]
nodes:
  - {id: start, type: START}
  - {id: all, type: FOR_EACH, config: {items: "{{ input.numbers }}", on_item_error: collect}}
  - {id: sum, type: FUNCTION, config: {tool: 'tests.agents.sample_tools:add', arguments: {a: "{{ item }}", b: 1}}}
  - {id: many, type: CHOICE, config: {branches: [{condition: "size(nodes.all) > 3"}]}}
  - {id: paid, type: WAIT, config: {signal: paid, schema: {type: object, properties: {cents: {type: integer}}}}}
  - {id: end, type: END, config: {output: "{{ nodes.all }}"}}
edges:
  - {source: start, target: all}
  - {source: all, target: sum, source_handle: foreach-body}
  - {source: all, target: many}
  - {source: many, target: paid, source_handle: branch-0}
  - {source: many, target: end, source_handle: default}
  - {source: paid, target: end}
"""
DRAWING = """\
○      start  START
○      all    FOR_EACH
│ ┊ ○  sum    FUNCTION
○      many   CHOICE
├─╮
○ │    paid   WAIT           branch-0 (size(nodes.all) > 3)
├─╯
○      end    END            many: default
"""


@pytest.fixture
def sums(type_: Type, tmp_path: Path) -> Type:
    """Types commands where there is a workflow beside the agent."""
    (tmp_path / "agents" / "sums.yaml").write_text(SUMS)
    return type_


def test_workflows_are_listed_apart_from_agents(sums: Type, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agents" / "broken.yaml").write_text("name: Broken\nnodes: []\n")

    assert (sums("workflows"), sums("agents", "--quick")) == (1, 0)

    output = capsys.readouterr()
    assert output.out.splitlines()[:2] == [
        "✗\tbroken\t\tdoes not load",
        "✓\tsums\t6 nodes\tAdds a number to each of a list.",
    ]
    assert "there is no START node" in output.err
    assert "tester" in output.out.splitlines()[2]


def test_one_is_shown_with_its_input_nodes_edges_and_signals(sums: Type, capsys: pytest.CaptureFixture[str]) -> None:
    assert sums("workflows", "sums") == 0

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "Sums (sums)"
    assert {"numbers  a list: What is added to.", "by       a whole number, optional"} <= set(lines)
    assert {"all    FOR_EACH", "sum    FUNCTION  tests.agents.sample_tools:add"} <= set(lines)
    assert {"all → sum    foreach-body", "paid  node paid, with cents"} <= set(lines)
    assert max(map(len, lines)) <= 80


def test_the_graph_is_drawn_with_rails(sums: Type, capsys: pytest.CaptureFixture[str]) -> None:
    sums("workflows", "sums", "--graph")

    assert capsys.readouterr().out.partition("\n\n")[2] == DRAWING


def test_one_as_json_is_as_over_http(sums: Type, capsys: pytest.CaptureFixture[str]) -> None:
    sums("workflows", "sums", "--json")

    workflow = orjson.loads(capsys.readouterr().out)
    assert (workflow["id"], workflow["edges"][0], workflow["problems"]) == (
        "sums",
        {"source": "start", "target": "all"},
        [],
    )


@pytest.mark.parametrize(("command", "instead"), [("workflows", "agents tester"), ("agents", "workflows sums")])
def test_the_other_kind_is_named(command: str, instead: str, sums: Type, capsys: pytest.CaptureFixture[str]) -> None:
    assert sums(command, instead.split()[1]) == 2
    assert f"`./callboard {instead}`" in capsys.readouterr().err


# --- running


@pytest.mark.parametrize("way", ["file", "-", "text"])
def test_a_workflow_is_run_with_an_input_and_its_nodes_are_lines(
    way: str, sums: Type, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '{"numbers": [1, "x"]}'
    (tmp_path / "input.json").write_text(text)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    source = {"file": str(tmp_path / "input.json"), "-": "-", "text": text}[way]

    assert sums("run", "sums", "--input", source) == 0

    output = capsys.readouterr()
    assert orjson.loads(output.out)[0] == 2
    lines = [" ".join(line.split()) for line in output.err.splitlines()]
    assert lines[0] == "✓ start START"
    assert any(line.startswith("✓ all FOR_EACH") and line.endswith("2 items, 1 failed") for line in lines)
    assert any(line.startswith("✕ item 1 sum:") for line in lines)
    assert {"✓ many CHOICE → default", "– paid: not reached", "✓ end END"} <= set(lines)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "sums", "Add one."), "takes no text but an input: ./callboard run sums --input FILE.json"),
        (("run", "sums"), '"numbers" is a required property'),
        (("run", "tester", "--input", "{}"), "'tester' is an agent and no workflow"),
        (("run", "sums", "--input", '{"a": }'), "the input is no JSON"),
        (("run", "sums", "--input", '{"a": 1, "a": 2}'), "it has the field 'a' twice"),
        (("run", "sums", "--input", "[1]"), "has to be a JSON object"),
        (("signal", "run_x", "paid", '{"a": 1, "a": 2}'), "it has the field 'a' twice"),
        (("run", "sums", "--input", "/nowhere.json"), "cannot be read: No such file"),
        (("run", "sums", "--input", "{}", "--if-busy", "reject"), "--if-busy is of agents"),
        (("signal", "run_x", "paid", "yes"), "this is no JSON"),
        (("signal", "run_x", "paid"), "run_x"),
    ],
)
def test_wrong_usage_is_said_with_the_remedy(
    words: tuple[str, ...], says: str, sums: Type, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sums(*words) == 2
    assert says in capsys.readouterr().err


def test_a_signal_is_given_once_and_runs_are_listed_by_name(sums: Type, capsys: pytest.CaptureFixture[str]) -> None:
    assert sums("run", "sums", "--input", '{"numbers": [1, 2, 3, 4]}', "--detach") == 0
    run_id = capsys.readouterr().out.strip()

    statuses = [sums("signal", run_id, *rest) for rest in (("gone",), ("paid", "5"), ("paid", "{}"), ("paid", "{}"))]

    output = capsys.readouterr()
    assert statuses == [2, 2, 0, 2]
    assert "was asked to take a signal" in output.out
    for words in ("waits for the signal 'gone'", "do not fit", "was given before"):
        assert words in output.err
    sums("runs")
    assert "Sums: numbers 1, 2, 3, 4" in capsys.readouterr().out


# --- retrying

DOUBLES = """\
name: Doubles
input: {type: object, properties: {numbers: {type: array}}}
tools: [DOUBLE]
nodes:
  - {id: start, type: START}
  - {id: first, type: FUNCTION, config: {tool: DOUBLE, arguments: {n: 1}}}
  - {id: all, type: FOR_EACH, config: {items: "{{ input.numbers }}", on_item_error: collect, at_once: 1}}
  - {id: each, type: FUNCTION, config: {tool: DOUBLE, arguments: {n: "{{ item }}"}}}
  - {id: last, type: FUNCTION, config: {tool: DOUBLE, arguments: {n: 9}}}
  - {id: end, type: END, config: {output: "{{ nodes.all }}"}}
edges:
  - {source: start, target: first}
  - {source: first, target: all}
  - {source: all, target: each, source_handle: foreach-body}
  - {source: all, target: last}
  - {source: last, target: end}
""".replace("DOUBLE", "'tests.agents.workflows.test_for_each:double'")


@pytest.mark.parametrize(
    ("broken", "flags", "made_again", "output"),
    [
        ({9}, [], [9], [4, 6]),
        ({9}, ["--from-failed"], [9], [4, 6]),
        ({3, 9}, ["--from-failed"], [3, 9], [4, 6]),
        ({3}, ["--failed-items"], [3, 9], [4, 6]),
    ],
)
def test_a_retry_makes_again_what_failed_and_what_follows_from_it(
    broken: set[int],
    flags: list[str],
    made_again: list[int],
    output: list[int],
    sums: Type,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "agents" / "doubles.yaml").write_text(DOUBLES)
    monkeypatch.setattr(test_for_each, "BROKEN", broken)
    calls: list[int] = []
    monkeypatch.setattr(test_for_each, "CALLS", calls)
    status = sums("run", "doubles", "--input", '{"numbers": [2, 3]}')
    assert (status, calls) == (int(9 in broken), [1, 2, 3, 9])
    capsys.readouterr()
    sums("runs", "--json")
    run_id = orjson.loads(capsys.readouterr().out)[0]["run_id"]
    calls.clear()
    broken.clear()

    assert sums("runs", "retry", run_id, *flags, "--json") == 0
    [retry] = orjson.loads(capsys.readouterr().out)
    work_on(retry["run_id"])

    assert retry["retry_of"] == run_id
    assert calls == made_again
    assert sums("watch", retry["run_id"], "--json") == 0
    assert orjson.loads(capsys.readouterr().out.splitlines()[-1])["output"] == output


def test_a_retry_of_both_kinds_is_none(sums: Type, capsys: pytest.CaptureFixture[str]) -> None:
    assert sums("runs", "retry", "run_x", "--from-failed", "--failed-items") == 2
    assert "keep one of both" in " ".join(capsys.readouterr().err.split())


def work_on(run_id: str) -> None:
    """Be the worker that gets a run's wake-up."""
    with open_runner(Settings()) as runner:
        row = runner.journal.readers.runs.row(runner.principal, run_id)
        run_agent(RunAgentMessage(run_id=run_id, agent_id=row.agent_id, thread_id=row.thread_id).to_wire())
        runner.settle(10)


# --- child runs


def test_child_runs_are_listed_where_they_are_asked_for_and_never_watched_by_themselves(
    sums: Type, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "agents" / "sums.yaml").write_text(SUMS.replace("on_item_error", "spread: 1, on_item_error"))
    assert sums("run", "sums", "--input", '{"numbers": [1, "x", 3]}') == 0
    assert "3 items, 1 failed" in capsys.readouterr().err

    counts = []
    for words in ((), ("--children",), ("--agent", "sums")):
        assert sums("runs", "--json", *words) == 0
        counts.append(len(orjson.loads(capsys.readouterr().out)))
    assert sums("watch") == 0

    assert counts == [1, 4, 1]
    assert orjson.loads(capsys.readouterr().out)[::2] == [2, 4]
