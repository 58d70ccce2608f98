"""Capabilities of a folder are tools: found by their ids, with everything that their files say."""

import asyncio
import sys

import pytest

from agents.capabilities.folder import create_capability_registry
from agents.catalogue import tools_of
from agents.steps.call_record import version_of
from agents.testing import AgentKit, Call, Turn
from agents.tools.isolation.errors import CONTAINERS_DISABLED, CapabilityFailed
from bus.journal.approvals import Decision
from bus.payloads import ToolResultPayload
from config.definitions.errors import DefinitionInvalid, ToolUnknown
from config.effects import Effect
from tests.agents.tools.runners.machines import eventually
from tests.raising import raises


def test_a_file_becomes_a_tool_with_its_metadata(declare, find):
    declare(
        classification="PUBLIC",
        roles=["operator"],
        output_schema={"type": "object"},
        secrets={"TOKEN": "env:COUNT_TOKEN"},
        timeout_s=7,
        labels=["untrusted"],
    )

    tool = find()

    assert (tool.name, tool.version, tool.maintainer, str(tool.kind)) == (
        "count_words",
        "1.2.0",
        "team@example.org",
        "transformer",
    )
    assert (tool.effect, str(tool.classification), tool.timeout_s) == (Effect.PURE, "PUBLIC", 7)
    assert tool.roles == {"operator"}
    assert tool.secrets == {"TOKEN": "env:COUNT_TOKEN"}
    assert tool.labels == {"untrusted"}
    assert not tool.needs_approval


ENDPOINT = {"type": "http", "url": "https://api.example.org/count"}
CONTAINER = {"type": "container", "image": "tools/count:1.0"}


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        ({}, set()),
        ({"kind": "connector"}, {"untrusted"}),
        ({"kind": "connector", "labels": ["trusted"]}, set()),
        ({"runner": ENDPOINT}, {"untrusted"}),
        ({"runner": ENDPOINT, "labels": ["trusted"]}, set()),
        ({"runner": CONTAINER}, set()),
        ({"runner": CONTAINER, "hosts": ["*"]}, {"untrusted"}),
        ({"runner": CONTAINER, "hosts": ["*"], "labels": ["trusted"]}, set()),
    ],
)
def test_what_it_reads_from_another_system_is_untrusted_unless_the_file_says_otherwise(declare, find, changes, read):
    declare(**changes)

    assert find().result_labels == read


def test_restricted_data_needs_an_approval(declare, find):
    declare(classification="RESTRICTED")

    assert find().needs_approval


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"version": "x"}, "cannot be used: .*count_words.yaml:.* version"),
        ({"retired": "use count_all instead"}, "is retired: use count_all instead. Name another one"),
        ({"runner": {"type": "process", "command": ["./gone.py"]}}, "names ./gone.py, which is not beside"),
        ({"runner": {"type": "function", "path": "os:getcwd"}, "input_schema": None}, "'os:getcwd' is not allowed"),
    ],
)
def test_a_capability_that_cannot_be_used_breaks_its_own_agent_with_a_sentence(declare, find, changes, sentence):
    declare(**changes)
    declare("other")

    with pytest.raises(ToolUnknown, match=sentence):
        find()

    assert find("other").name == "other"


def test_two_files_with_one_id_are_refused(declare, find):
    declare()
    declare(ending=".yml")

    with pytest.raises(ToolUnknown, match="has the id 'count_words', as"):
        find()


def test_the_id_of_a_shipped_tool_cannot_be_taken(declare, find):
    declare("calculator")

    with pytest.raises(ToolUnknown, match="also the name of the tool agents"):
        find("calculator")


def test_an_unknown_id_is_told_from_the_known_ones(declare, find):
    declare()

    with pytest.raises(ToolUnknown, match="Did you mean 'count_words'"):
        find("count_wrods")


@pytest.mark.parametrize("hosts", [None, ["api.example.org", "10.0.0.0/8"]])
def test_an_endpoint_gets_the_hosts_of_its_file_and_no_others(declare, find, hosts):
    declare(runner=ENDPOINT, hosts=hosts)

    assert list(find().function.__self__.hosts) == (hosts or [])


@pytest.mark.parametrize(
    ("runner", "keeps_hosts"),
    [(ENDPOINT, True), (CONTAINER, False), ({"type": "process", "command": ["true"]}, False)],
)
def test_only_what_callboard_asks_itself_takes_narrower_hosts(declare, find, runner, keeps_hosts):
    declare(runner=runner)

    assert find().keeps_hosts is keeps_hosts


def test_a_container_is_refused_at_the_call_where_containers_are_off(declare, find):
    declare(runner={"type": "container", "image": "tools/count:1.0"})
    tool = find()

    with raises(CONTAINERS_DISABLED) as caught:
        asyncio.run(tool.function(text="a"))

    assert caught.value.seed_name == "DAGGER_E2E_DISABLED"


def test_a_functions_config_is_set_and_hidden_from_the_model(folder, declare, find, settings, monkeypatch):
    (folder / "shop_measures.py").write_text(
        'def convert(length: float, unit: str) -> str:\n    """Convert."""\n    return f"{length} {unit}"\n'
    )
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr("config.settings.agents.AgentSettings.tool_module_names", ("shop_measures",))
    declare(runner={"type": "function", "path": "shop_measures:convert"}, input_schema=None, config={"unit": "cm"})

    tool = find()

    assert list(tool.parameters["properties"]) == ["length"]
    assert tool.parameters["required"] == ["length"]
    assert tool.function(length=2.5) == "2.5 cm"
    assert tool.description == "Count the words of a text."


def test_a_failed_attempt_is_repeated_as_the_file_says(declare, find, monkeypatch):
    attempts = []

    async def call(self, **arguments):
        attempts.append(arguments)
        if len(attempts) < 3:
            raise CapabilityFailed("not yet.")
        return "done"

    monkeypatch.setattr("agents.tools.runners.calling.ProcessRunner.call", call)
    declare(retry={"attempts": 3, "delay_s": 0.001})

    assert asyncio.run(find().function(text="a")) == "done"
    assert len(attempts) == 3


@pytest.mark.parity
def test_an_agent_cannot_call_it_unsafe_where_it_is_repeated(declare, folder):
    declare(retry={"attempts": 2})
    with AgentKit(settings={"capabilities_dir": str(folder)}) as kit:
        kit.agent(tools=["count_words"], tool_overrides={"count_words": {"effect": "unsafe"}})
        definition = kit.runner.registry.get("tester")

        with pytest.raises(DefinitionInvalid, match="`retry` would repeat an unsafe call"):
            tools_of(definition, kit.settings)


def test_an_approval_does_not_hold_for_another_command(declare, find):
    declare()
    before = version_of(find())
    declare(runner={"type": "process", "command": [sys.executable, "./count.py", "--all"]})

    assert version_of(find()) != before


@pytest.mark.parity
def test_an_agent_calls_a_capability_by_its_id(declare, folder):
    declare(output_schema={"type": "object", "properties": {"words": {"type": "integer"}}, "required": ["words"]})
    with AgentKit(settings={"capabilities_dir": str(folder)}) as kit:
        kit.agent(tools=["count_words"])
        kit.model.script(
            Turn(calls=[Call(name="count_words", arguments={"text": "one two three"})]), Turn(text="Three.")
        )

        played = kit.play()

    assert played.results("count_words") == [{"words": 3}]


@pytest.mark.parity
def test_an_output_that_does_not_fit_its_schema_is_kept_back(declare, folder):
    declare(output_schema={"type": "object", "required": ["letters"]})
    with AgentKit(settings={"capabilities_dir": str(folder)}) as kit:
        kit.agent(tools=["count_words"])
        kit.model.script(Turn(calls=[Call(name="count_words", arguments={"text": "one two three"})]), Turn(text="Oh."))

        played = kit.play()

    (result,) = played.of(ToolResultPayload)
    assert result.outcome == "failed"
    assert "does not fit its output schema" in result.result


@pytest.mark.parity
def test_a_secret_that_a_program_writes_is_redacted(declare, folder, monkeypatch):
    (folder / "tell.py").write_text("import json, os\nprint(json.dumps({'words': os.environ['TOKEN']}))\n")
    monkeypatch.setenv("COUNT_TOKEN", "quietly-1234567890")
    declare(runner={"type": "process", "command": [sys.executable, "./tell.py"]}, secrets={"TOKEN": "env:COUNT_TOKEN"})
    with AgentKit(settings={"capabilities_dir": str(folder)}) as kit:
        kit.agent(tools=["count_words"])
        kit.model.script(Turn(calls=[Call(name="count_words", arguments={"text": "a"})]), Turn(text="Done."))

        played = kit.play()

    assert "quietly-1234567890" not in repr(played.events)


@pytest.mark.parity
def test_a_secret_that_is_not_there_fails_the_call_before_anything_is_started(declare, folder, tmp_path):
    (folder / "mark.py").write_text(f"open({str(tmp_path / 'started')!r}, 'w')\nprint(1)\n")
    declare(runner={"type": "process", "command": [sys.executable, "./mark.py"]}, secrets={"TOKEN": "env:NOT_SET_HERE"})
    with AgentKit(settings={"capabilities_dir": str(folder)}) as kit:
        kit.agent(tools=["count_words"])
        kit.model.script(Turn(calls=[Call(name="count_words", arguments={"text": "a"})]), Turn(text="Done."))

        played = kit.play()

    (result,) = played.of(ToolResultPayload)
    assert result.outcome == "failed"
    assert "TOKEN" in result.result
    assert not (tmp_path / "started").exists()


@pytest.mark.parity
def test_a_restricted_capability_waits_for_a_person_and_is_called_once_approved(declare, folder):
    declare(classification="RESTRICTED")
    with AgentKit(settings={"capabilities_dir": str(folder)}) as kit:
        kit.agent(tools=["count_words"])
        kit.model.script(Turn(calls=[Call(name="count_words", arguments={"text": "a b"})]), Turn(text="Two."))
        run = kit.run()
        (approval,) = eventually_asked(run)

        run.decide(approval["approval_id"], Decision(decision="approve"))

        assert run.result(20).status == "succeeded"
        outcomes = [event.result for event in run.events() if isinstance(event, ToolResultPayload)]
    assert outcomes == [{"words": 2}]


def eventually_asked(run):
    assert eventually(run.approvals)
    return run.approvals()


def test_the_registry_of_the_first_design_has_the_tools_that_can_be_called(declare, settings):
    declare()
    declare("broken", runner=None)

    registry = create_capability_registry(settings)

    assert {name: tool.name for name, tool in registry.items()} == {"count_words": "count_words"}
