"""The contracts with other programs: they say what the code does, and no change breaks programs for a release."""

from __future__ import annotations

import subprocess
import sys
from copy import deepcopy
from typing import Any

import jsonschema_rs
import orjson
import pytest
import yaml
from click.testing import CliRunner
from flask import Flask

from bus.messages.run_agent import RunAgentMessage
from bus.payloads import EVENT_TYPES, EndPayload, ResponsePayload, ToolNamePayload, ToolPayload, encode
from cli.dev.contracts import __main__ as command
from cli.dev.contracts.compatibility import incompatibilities
from cli.dev.contracts.contract import CONTRACTS, DIALECT, FOLDER, Contract, Direction, texts
from cli.dev.error_catalogue import catalogue
from config.errors import BadRequest
from config.folders import ROOT
from web.problems import of_error

DOCUMENTS = {contract.name: contract.document for contract in CONTRACTS}


def fits(name: str, value: Any) -> list[str]:
    """Return what of a value is not as its contract says."""
    validator = jsonschema_rs.Draft202012Validator(DOCUMENTS[name])
    return [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(value)]


def test_the_files_are_those_of_the_declarations() -> None:
    written = {file.name: file.read_text() for file in FOLDER.glob("*.json")}

    assert written == {contract.file().name: text for contract, text in texts()}, "run `python -m cli.dev.contracts`"


def test_programs_for_the_last_release_survive_what_was_changed() -> None:
    problems = command.changes_since_release()

    assert problems == [], "\n".join([*problems, command.ON_PURPOSE])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_contract_is_json_schema_and_refers_to_nothing_outside(name: str) -> None:
    document = DOCUMENTS[name]

    assert (document["$schema"], document["$id"]) == (DIALECT, f"urn:callboard:contract:{name}")
    assert document["description"]
    jsonschema_rs.meta.validate(document)
    assert {reference.partition("/")[0] for reference in references(document)} <= {"#"}


def references(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {reference for subschema in schema for reference in references(subschema)}
    if not isinstance(schema, dict):
        return set()
    own = {schema["$ref"]} if isinstance(schema.get("$ref"), str) else set()
    return own | {reference for subschema in schema.values() for reference in references(subschema)}


@pytest.mark.parametrize("more", [{}, {"queue": "slow", "grant_id": "grt_1", "detached": True}])
def test_a_message_fits_its_contract(more: dict[str, Any]) -> None:
    message = RunAgentMessage(run_id="run_1", agent_id="a", thread_id="t", **more)

    assert fits("run-agent-message", message.to_wire()) == []
    assert RunAgentMessage.from_wire(message.to_wire()) == message


EVENTS = [
    ToolNamePayload(seq=1, at="2026-11-23T12:00:00.000Z", call_id="c", name="clock"),
    ToolPayload(seq=2, at="2026-11-23T12:00:00.000Z", call_id="c", name="clock", arguments={"zone": None}),
    ResponsePayload(seq=3, at="2026-11-23T12:00:00.000Z", content="12", message_id="m"),
    EndPayload(seq=4, at="2026-11-23T12:00:00.000Z", status="succeeded", output=["12"], usage={"input": 3}),
]


@pytest.mark.parametrize("payload", EVENTS, ids=lambda payload: type(payload).__name__)
def test_an_event_fits_its_contract(payload: Any) -> None:
    assert fits("event", orjson.loads(encode(payload, "run_1", "sums"))) == []


def test_every_event_type_and_every_code_is_in_a_contract() -> None:
    types = {
        subschema["properties"]["type"]["const"]
        for subschema in DOCUMENTS["event"]["$defs"].values()
        if "properties" in subschema
    }
    codes = {subschema["const"] for subschema in DOCUMENTS["problem"]["$defs"]["Code"]["oneOf"]}

    assert types == EVENT_TYPES.keys()
    assert codes == {code for code, entry in catalogue().items() if entry.status is not None}


def test_a_problem_fits_its_contract() -> None:
    with Flask(__name__).test_request_context("/"):
        body = of_error(BadRequest()).get_json()

    assert fits("problem", body) == []
    assert fits("problem", {**body, "code": "no_such_code"}) != []


@pytest.mark.parametrize(
    "file", sorted((ROOT / "docs/examples/capabilities").glob("*.yaml")), ids=lambda file: file.stem
)
def test_the_example_capabilities_fit_their_contract(file: Any) -> None:
    assert fits("capability", yaml.safe_load(file.read_text())) == []


@pytest.mark.parametrize("file", sorted((ROOT / "config/workflows").glob("*.yaml")), ids=lambda file: file.stem)
def test_the_shipped_workflows_fit_their_contract(file: Any) -> None:
    assert fits("workflow", yaml.safe_load(file.read_text())) == []


@pytest.mark.parametrize(
    "node",
    [
        {"id": "a", "type": "LLM"},
        {"id": "a", "type": "LLM", "config": {"prompt": "Hi", "tool": "x"}},
        {"id": "a", "type": "WAIT", "on_eror": "fail"},
        {"id": "1", "type": "MINE", "config": {"any": 1}},
    ],
)
def test_a_node_fits_the_contract_by_its_type(node: dict[str, Any]) -> None:
    assert fits("workflow", {"name": "W", "nodes": [node], "edges": []})
    right = {"id": "a", "type": "MINE", "config": {"any": 1}}
    assert not fits("workflow", {"name": "W", "nodes": [right], "edges": []})


@pytest.mark.parity
def test_the_contracts_need_no_broker_database_or_web_server() -> None:
    code = (
        "import sys\nfrom cli.dev.contracts.contract import texts\nassert len(list(texts())) > 3\n"
        "held = {'celery', 'kombu', 'redis', 'sqlalchemy', 'flask', 'litellm', 'mcp'} & set(sys.modules)\n"
        "assert not held, held"
    )

    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr


# --- what a change may be ---------------------------------------------------------------------------------------------

BOOK: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 80},
        "kind": {"type": "string", "enum": ["novel", "comic"]},
        "pages": {"type": "integer", "default": 0},
        "price": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
        "facts": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {},
        "variant": {"oneOf": [{"$ref": "#/$defs/Print"}, {"$ref": "#/$defs/Film"}]},
    },
    "required": ["title"],
    "$defs": {
        "Part": {"type": "object", "properties": {"inner": {"$ref": "#/$defs/Part"}, "n": {"type": "integer"}}},
        "Print": {"type": "object", "properties": {"type": {"const": "print"}, "ink": {"type": "string"}}},
        "Film": {"type": "object", "properties": {"type": {"const": "film"}}},
    },
}
GONE = object()


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the schema with something else at a path, or without it."""
    schema = deepcopy(BOOK)
    *parents, last = path.split("/")
    target: Any = schema
    for part in parents:
        target = target[part]
    if value is GONE:
        del target[last]
    else:
        target[last] = value
    return schema


def problems(direction: Direction, released: Any, present: Any) -> list[str]:
    return incompatibilities(Contract(name="book", direction=direction, schema=dict), released, present)


IN, OUT = Direction.INPUT, Direction.OUTPUT
FILM_AND_PRINT = [{"$ref": "#/$defs/Film"}, {"$ref": "#/$defs/Print"}]
PLAY = {"type": "object", "properties": {"type": {"const": "play"}}}
FREE: list[tuple[str, Any, Direction]] = [
    ("properties/new", {"type": "string"}, IN),
    ("properties/new", {"type": "string"}, OUT),
    ("properties/title/description", "New words.", IN),
    ("properties/title/maxLength", 90, IN),
    ("properties/title/maxLength", GONE, IN),
    ("properties/kind/enum", ["novel", "comic", "play"], IN),
    ("properties/kind/enum", ["novel", "comic", "play"], OUT),
    ("properties/kind/enum", GONE, IN),
    ("properties/pages/type", "number", IN),
    ("properties/pages", {"default": 0}, IN),
    ("properties/tags/items", {"type": ["string", "null"]}, IN),
    ("required", [], IN),
    ("required", ["title", "pages"], OUT),
    ("properties/variant/oneOf", FILM_AND_PRINT, OUT),
    ("properties/variant/oneOf", [*FILM_AND_PRINT, PLAY], OUT),
    ("$defs/Part/properties/new", {"type": "string"}, OUT),
]


@pytest.mark.parametrize(("path", "value", "direction"), FREE)
def test_a_change_that_others_survive_is_free(path: str, value: Any, direction: Direction) -> None:
    assert problems(direction, BOOK, changed(path, value)) == []


REFUSED: list[tuple[str, Any, Direction, str]] = [
    ("required", ["title", "pages"], IN, "pages is required now; make it optional, with a default"),
    ("required", [], OUT, "title may be absent now; write it always, as before."),
    ("properties/pages", GONE, OUT, "pages was removed; keep it, and say in its description what replaces it."),
    ("properties/pages", GONE, IN, "pages was removed"),
    ("properties/pages/type", "string", IN, "pages may no longer be 'integer'; accept it as before"),
    ("properties/pages/type", "string", OUT, "pages may no longer be 'integer'; keep it"),
    ("properties/pages/type", "number", OUT, "pages may no longer be 'integer'"),
    ("properties/pages", {}, OUT, "pages may be anything now, which its readers do not expect"),
    ("properties/pages/default", 1, IN, "pages has another default; keep the one"),
    ("properties/price", {"type": "number"}, IN, "price may no longer be null; accept it as before"),
    ("properties/price", {"type": "number"}, OUT, "price may no longer be null; keep it"),
    ("properties/title/type", ["string", "null"], OUT, "title may be null now, which its readers do not expect"),
    ("properties/kind/enum", ["novel"], IN, "kind lost the value 'comic'; keep it, and describe it as an old one."),
    ("properties/kind/enum", ["novel"], OUT, "kind lost the value 'comic'"),
    ("properties/kind/enum", GONE, OUT, "kind may have any value now; keep the list of values."),
    ("properties/title/enum", ["Emma"], IN, "title has only some values now; accept it as before"),
    ("properties/title/maxLength", 70, IN, "title: maxLength 70 was 80; accept what was accepted."),
    ("properties/title/pattern", "^x", IN, "title: pattern '^x' is new; accept what was accepted."),
    ("properties/tags/minItems", 1, IN, "tags: minItems 1 is new"),
    ("properties/tags/items", {"type": "integer"}, IN, "tags[] may no longer be 'string'"),
    ("properties/facts/additionalProperties", {"type": "null"}, OUT, "facts.* may no longer be 'string'"),
    ("additionalProperties", False, IN, "the whole refuses fields that it took before"),
    ("properties/any", {"type": "string"}, IN, "any may no longer be anything"),
    ("properties/variant/oneOf", [{"$ref": "#/$defs/Print"}], OUT, "variant may no longer be 'film'; keep it"),
    ("$defs/Print/properties/ink", GONE, OUT, "variant<print>.ink was removed"),
    ("$defs/Part/properties/n", GONE, OUT, "parts[].n was removed"),
]


@pytest.mark.parametrize(("path", "value", "direction", "sentence"), REFUSED)
def test_a_change_that_breaks_others_is_refused_with_what_to_do(
    path: str, value: Any, direction: Direction, sentence: str
) -> None:
    [problem] = problems(direction, BOOK, changed(path, value))

    assert problem.startswith(f"book: {sentence}")
    assert problem.endswith(".")


def test_a_message_between_two_versions_is_compared_both_ways() -> None:
    mistakes = problems(Direction.BOTH, BOOK, changed("required", ["pages"]))

    assert [problem.split(";")[0] for problem in mistakes] == [
        "book: pages is required now",
        "book: title may be absent now",
    ]


def test_a_class_may_be_renamed() -> None:
    renamed = deepcopy(BOOK)
    renamed["$defs"]["Movie"] = renamed["$defs"].pop("Film")
    renamed["properties"]["variant"]["oneOf"][1] = {"$ref": "#/$defs/Movie"}

    assert problems(OUT, BOOK, renamed) == []


@pytest.mark.parity
def test_the_command_refuses_until_the_break_is_released(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "contracts"
    monkeypatch.setattr(command, "FOLDER", folder)
    monkeypatch.setattr(command, "RELEASED", folder / "released")
    run = CliRunner().invoke
    assert run(command.main, ["--release"]).exit_code == 0
    file = folder / "released" / "event.json"
    file.write_text(file.read_text().replace('"duration_ms"', '"duration_s"'))
    (folder / "released" / "old.json").write_text("{}")

    refused, released = run(command.main, ["--check"]), run(command.main, ["--release"])

    assert refused.exit_code == 1
    assert "event: <end>.duration_s was removed; keep it" in refused.output
    assert "old: the contract was removed" in refused.output
    assert "--release" in refused.output
    assert released.exit_code == run(command.main, ["--check"]).exit_code == 0
