"""A capability's file: what it may say, and the sentence about everything else."""

import pytest
import yaml

from config.definitions.capability import load_capability
from config.definitions.errors import DefinitionInvalid
from config.definitions.runner_spec import ContainerSpec, ProcessSpec

WHOLE = {
    "name": "Count words",
    "description": "Count the words of a text.",
    "version": "1.0.0",
    "maintainer": "team@example.org",
    "kind": "transformer",
    "effect": "pure",
    "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
    "runner": {"type": "process", "command": ["cat"]},
}
CONTAINER = {"type": "container", "image": "tools/count:1.0"}
HTTP = {"type": "http", "url": "https://example.org/count"}
FUNCTION = {"type": "function", "path": "shop.tasks:count"}


@pytest.fixture
def load(tmp_path):
    def load(text=None, **changes):
        path = tmp_path / "count_words.yaml"
        fields = {name: value for name, value in (WHOLE | changes).items() if value is not None}
        path.write_text(text if text is not None else yaml.safe_dump(fields, sort_keys=False, allow_unicode=True))
        return load_capability(path)

    return load


def test_a_file_with_the_fewest_fields_is_a_capability(load):
    capability = load()

    assert (capability.id, capability.classification, capability.timeout_s) == ("count_words", "INTERNAL", 60)
    assert isinstance(capability.runner, ProcessSpec)
    assert capability.runner.limits.memory_mb == 1024


def test_a_container_says_everything(load):
    capability = load(
        runner=CONTAINER | {"command": ["/count"], "user": "1000:1000", "limits": {"memory_mb": 64, "processes": 8}},
        classification="RESTRICTED",
        roles=["operator"],
        secrets={"TOKEN": "env:COUNT_TOKEN"},
        config={"unit": "cm"},
        config_schema={"type": "object", "properties": {"unit": {"enum": ["cm", "in"]}}},
        hosts=["*"],
        retry={"attempts": 3},
    )

    assert isinstance(capability.runner, ContainerSpec)
    assert capability.runner.limits.processes == 8
    assert capability.secrets == {"TOKEN": "env:COUNT_TOKEN"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"versoin": "1"}, "Did you mean 'version'"),
        ({"version": "one"}, "version: has to be three numbers"),
        ({"kind": "machine"}, "kind: has to be 'connector', 'transformer' or 'commander'"),
        ({"classification": "SECRET"}, "classification: has to be 'PUBLIC', 'INTERNAL' or 'RESTRICTED'"),
        ({"roles": ["chief"]}, "roles"),
        ({"input_schema": {"type": "strign"}}, "input_schema: it is not a JSON Schema"),
        ({"input_schema": {"type": "object", "$ref": "https://example.org/a.json"}}, "is not local"),
        ({"input_schema": {"type": "array"}}, "input_schema: `input_schema` needs `type: object`"),
        ({"input_schema": None}, "needs `type: object`"),
        ({"output_schema": {"properties": 5}}, "output_schema: it is not a JSON Schema"),
        ({"config": {"unit": 5}, "config_schema": {"properties": {"unit": {"type": "string"}}}}, "does not fit"),
        ({"secrets": {"TOKEN": "sk-live-1234567890"}}, "never the secret itself"),
        ({"secrets": {"TO KEN": "env:TOKEN"}}, "secrets"),
        ({"secrets": {"CALLBOARD_RUN_ID": "env:TOKEN"}}, "has a meaning already"),
        ({"effect": "checkable"}, "cannot be checkable"),
        ({"effect": "unsafe", "retry": {"attempts": 2}}, "would repeat an unsafe call"),
        ({"hosts": ["example.org"]}, "cannot be enforced for a process"),
        ({"hosts": ["exa mple"]}, "is not a host"),
        ({"runner": FUNCTION, "input_schema": None, "hosts": ["example.org"]}, "cannot be enforced for a function"),
        ({"runner": FUNCTION, "input_schema": None, "hosts": []}, "cannot be enforced for a function"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"runner": None}, "runner: is missing"),
        ({"runner": {"command": ["cat"]}}, "runner: needs a `type`"),
        ({"runner": {"type": "shell"}}, "runner: has an unknown `type`"),
        ({"runner": {"type": "process", "command": "cat /etc/passwd"}}, "runner.command: has to be a list"),
        ({"runner": {"type": "process", "command": []}}, "runner.command"),
        ({"runner": {"type": "process", "command": ["cat"], "shell": True}}, "there is no such field"),
        ({"runner": {"type": "process", "command": ["cat"], "limits": {"memory": 5}}}, "Did you mean 'memory_mb'"),
        ({"runner": CONTAINER | {"image": "--privileged"}}, "is no image's name"),
        ({"runner": CONTAINER | {"image": "busybox -v /:/host"}}, "is no image's name"),
        ({"runner": CONTAINER | {"image": "a" * 301}}, "is no image's name"),
        ({"runner": CONTAINER | {"image": "busybox\n"}}, "is no image's name"),
        ({"runner": CONTAINER | {"user": "root"}}, "numbers of a user and a group"),
        ({"runner": CONTAINER, "hosts": ["example.org"]}, "cannot be some hosts"),
        ({"runner": CONTAINER, "secrets": {"DOCKER_HOST": "env:X"}}, "has a meaning already"),
        ({"runner": CONTAINER | {"environment": {"HOME": "/x"}}}, "has a meaning already"),
        ({"runner": CONTAINER | {"volumes": ["/:/host"]}}, "there is no such field"),
        ({"runner": HTTP | {"url": "ftp://example.org"}}, "only http and https"),
        ({"runner": HTTP | {"url": "http://me:secret@example.org"}}, "user name or password"),
        ({"runner": HTTP | {"headers": {"Authorization": "Bearer abcdefgh12345678"}}}, "carries a credential"),
        ({"runner": HTTP | {"headers": {"Authorization": "Bearer ${TOKEN}"}}}, "has no TOKEN, which a header uses"),
        ({"runner": HTTP, "config": {"a": 1}}, "does not reach a server"),
        ({"runner": FUNCTION}, "is not for functions"),
        ({"runner": {"type": "function", "path": "shop.tasks"}}, "package.module:function"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_line(load, changes, sentence):
    with pytest.raises(DefinitionInvalid) as caught:
        load(**changes)

    assert sentence in str(caught.value)
    assert "count_words.yaml" in str(caught.value)
    assert "sk-live" not in str(caught.value)


def test_the_line_is_the_one_of_the_field(load):
    text = yaml.safe_dump(WHOLE, sort_keys=False).replace("command:", "comand:")
    line = 1 + text[: text.index("comand")].count("\n")

    with pytest.raises(DefinitionInvalid) as caught:
        load(text)

    assert f"count_words.yaml:{line}:" in str(caught.value)


@pytest.mark.parametrize("text", ["", "- a\n", "a: [", "a: 1\na: 2\n", "\0", "a: &a [*a]\n", "<<: {a: 1}\n"])
def test_a_file_that_is_no_mapping_is_refused(load, text):
    with pytest.raises(DefinitionInvalid):
        load(text)


def test_a_file_without_fields_is_told_what_to_begin_with(load):
    with pytest.raises(DefinitionInvalid, match=r"begin with `name: .*`, `description: .*`, `kind: .*` and `runner: "):
        load("")


@pytest.mark.parametrize("name", ["count words", "1count", "--help", "a" * 65])
def test_an_id_is_a_tools_name(tmp_path, name):
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(WHOLE))

    with pytest.raises(DefinitionInvalid, match="file name"):
        load_capability(path)
