"""An agent's file: what is read, and what each mistake is answered with."""

import hashlib
import os
import re

import orjson
import pytest
from pydantic import ValidationError

from config.definitions.errors import DefinitionInvalid
from config.definitions.loading import load_definition
from config.definitions.model_fields import OURS

BASE = "name: A\nmodel: demo/assistant\nsystem_prompt: Be brief.\n"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "helper.yaml"


def refusal(file, text):
    file.write_text(text) if isinstance(text, str) else file.write_bytes(text)
    with pytest.raises(DefinitionInvalid) as caught:
        load_definition(file)
    return caught.value


def test_reads_every_field(file):
    file.write_text(
        "name: Helper\ndescription: Helps.\nmodel: openai/gpt-5-mini\napi_base: http://127.0.0.1:9000/v1\n"
        "api_key_env: MY_KEY\nparams: {temperature: 0}\nsystem_prompt: |\n  You help.\n"
        "tools: [calculator, my_package.my_module:lookup_order]\n"
        "tool_overrides: {lookup_order: {effect: pure, timeout_s: 10, confirm: true}}\nmax_iterations: 3\n"
        "timeouts: {connect_s: 1, first_token_s: 2, between_chunks_s: 3.5, total_s: 4, tool_s: 5}\n"
        "on_unknown: fail\nqueue: gpu\nobservers: [logger]\nstarters: ['Hi?']\n"
        "output_schema: {type: object, properties: {}}\n"
    )

    agent = load_definition(file)

    assert (agent.id, agent.file, agent.name) == ("helper", str(file), "Helper")
    assert agent.tools == ("calculator", "my_package.my_module:lookup_order")
    assert agent.tool_overrides["lookup_order"].timeout_s == 10
    assert agent.timeouts.between_chunks_s == 3.5
    assert agent.queue == "gpu"
    assert agent.output_schema == {"type": "object", "properties": {}}


def test_what_is_left_out_has_the_documented_default(file):
    file.write_text(BASE)

    agent = load_definition(file)

    assert agent.max_iterations == 8
    assert agent.timeouts.model_dump() == {
        "connect_s": 5,
        "first_token_s": 60,
        "between_chunks_s": 30,
        "total_s": 600,
        "tool_s": 60,
    }
    assert (agent.on_unknown, agent.observers, agent.tools) == ("ask", ("sse", "logger"), ())


@pytest.mark.parametrize("name", ["", "a b", "a,b", "größe", "q" * 61, "a/b"])
def test_a_queue_that_no_broker_would_take_is_refused(file, name):
    error = refusal(file, f"{BASE}queue: '{name}'\n")

    assert "queue: has to be a queue's name: 1 to 60 letters" in str(error)


def test_the_digest_follows_the_content_and_not_the_layout(file):
    file.write_text(BASE)
    first = load_definition(file).digest
    file.write_text('# a remark\nsystem_prompt: "Be brief."\nmodel: demo/assistant\nname: A\n')
    same = load_definition(file).digest
    file.write_text(BASE.replace("brief", "long"))
    other = load_definition(file).digest

    content = {"name": "A", "model": "demo/assistant", "system_prompt": "Be brief."}
    assert first == same == hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
    assert other != first


def test_a_definition_cannot_be_changed(file):
    file.write_text(BASE)
    agent = load_definition(file)

    with pytest.raises(ValidationError):
        agent.name = "B"


@pytest.mark.parametrize(
    ("text", "line", "field", "words"),
    [
        ("name: A\nmodel: auto\nsytem_prompt: x\n", 3, "sytem_prompt", "Did you mean 'system_prompt'?"),
        ("model: auto\nsystem_prompt: x\n", 1, "name", "is missing; add it, for example `name: Assistant`"),
        (BASE + "timeouts:\n  tool: 4\n", 5, "timeouts.tool", "Did you mean 'tool_s'?"),
        (BASE + "timeouts:\n  connect_s: -1\n", 5, "timeouts.connect_s", "greater than 0"),
        (BASE + "timeouts:\n  connect_s: .inf\n", 5, "timeouts.connect_s", "not a number JSON can hold"),
        (BASE + "tool_overrides:\n  clock:\n    efect: pure\n", 6, "tool_overrides.clock.efect", "'effect'"),
        (BASE + "tool_overrides: {clock: {effect: safe}}\n", 4, "tool_overrides.clock.effect", "'pure'"),
        (BASE + "max_iterations: 0\n", 4, "max_iterations", "greater than or equal to 1"),
        (BASE + "max_iterations: 100001\n", 4, "max_iterations", "less than or equal to 100000"),
        (BASE + "history_chars: 999\n", 4, "history_chars", "greater than or equal to 1000"),
        (BASE + "max_iterations: true\n", 4, "max_iterations", "integer"),
        (BASE + "on_unknown: asks\n", 4, "on_unknown", "'ask', 'fail' or 'tell_model'"),
        (BASE + "tools: calculator\n", 4, "tools", "has to be a list"),
        (BASE + "tools:\n  - clock\n  - 'rm -rf /'\n", 6, "tools[1]", "package.module:function"),
        (BASE + "tools: [clock, clock]\n", 4, "tools", "listed twice"),
        ("name: 5\nmodel: auto\nsystem_prompt: x\n", 1, "name", "has to be text"),
        (BASE + "api_base: file:///etc/passwd\n", 4, "api_base", "http://127.0.0.1:9000/v1"),
        (BASE + "api_base: https://me:secret@host/v1\n", 4, "api_base", "may not hold a password"),
        (BASE + "api_base: http://2130706433/v1\n", 4, "api_base", "four decimal numbers"),
        (BASE + "api_base: http://host\\other/v1\n", 4, "api_base", "backslash"),
        ('name: "A\\0B"\nmodel: auto\nsystem_prompt: x\n', 1, "name", "the character NUL"),
        ('name: "A\u202eB"\nmodel: auto\nsystem_prompt: x\n', 1, "name", "the hidden character ⟨U+202E⟩"),
        (BASE + 'description: "a\u200bb"\n', 4, "description", "the hidden character ⟨U+200B⟩"),
        (BASE + 'starters: ["a", "b\\x9b"]\n', 4, "starters[1]", "the hidden character ⟨U+009B⟩"),
        (BASE + 'params:\n  user: a\n  stop: [a, "\\0"]\n', 6, "params.stop[1]", "the character NUL"),
        (BASE + 'params:\n  a: {"\\0": 1}\n', 5, "params.a.\\0", "the character NUL"),
        (BASE + "params:\n  temperature: .nan\n", 5, "params.temperature", "not a number JSON can hold"),
        (BASE + "params:\n  extra_headers: {Authorization: x}\n", 4, "params", "carries a credential"),
        (BASE + "output_schema: {type: array}\n", 4, "output_schema", "`type: object`"),
        (BASE + "output_schema: {type: objct}\n", 4, "output_schema", "not a JSON Schema"),
        (BASE + "output_schema: {type: object, $ref: 'http://h/x'}\n", 4, "output_schema", "is not local"),
        (BASE + "name: B\n", 4, "name", "written twice"),
        (BASE + "params: {a: {b: 1, b: 2}}\n", 4, "params.a.b", "written twice"),
        (BASE + "<<: {name: B}\n", 4, None, "merge keys"),
        (BASE + "1: x\n", 4, None, "put it in quotes"),
        (BASE + "params: !!python/object/apply:os.system [id]\n", 4, "params", "not plain data"),
        (BASE + "params: {x: !!binary aGk=}\n", 4, "params.x", "not plain data"),
        (BASE + "x: [1\n", 5, None, "is not YAML"),
        ("name: A\n\tmodel: x\n", 2, None, "Indent with blanks"),
        ("", 1, None, "has no fields; begin with `name: ...`, `model: auto` and `system_prompt: ...`."),
        ("- a\n- b\n", 1, None, "has no fields"),
        ("just text", 1, None, "has no fields"),
        ("a: \x00", 1, None, "is not YAML"),
    ],
)
def test_a_mistake_is_named_with_line_field_and_remedy(file, text, line, field, words):
    error = refusal(file, text)

    assert error.facts == {"file": str(file), "line": line, "field": field}
    assert words in str(error)
    assert str(error).startswith(f"{file}:{line}:")


@pytest.mark.parametrize("name", OURS)
def test_parameters_that_are_callboards_are_refused_with_what_to_write_instead(file, name):
    error = refusal(file, BASE + f"params:\n  temperature: 0\n  {name}: x\n")

    assert error.facts["line"] == 6
    assert f"`{name}` is Callboard's to set:" in str(error)


def test_a_key_written_where_its_variables_name_belongs_is_not_repeated(file):
    error = refusal(file, BASE + "api_key_env: sk-live-0123456789\n")

    assert "never the key itself" in str(error)
    assert "sk-live" not in str(error)


def test_headers_that_carry_no_credential_are_allowed(file):
    file.write_text(BASE + "params: {extra_headers: {anthropic-beta: context-1m}}\n")

    assert load_definition(file).params == {"extra_headers": {"anthropic-beta": "context-1m"}}


def test_dates_stay_text(file):
    file.write_text(BASE + "starters: [2026-11-20]\n")

    assert load_definition(file).starters == ("2026-11-20",)


BILLION_LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]" for n in range(9)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BILLION_LAUGHS, "aliases unfold"),
        ("a: &a [*a]", "aliases unfold"),
        ("a: " + "[" * 200_000, "nested more than 64"),
        ("a: " + "{b: " * 5000, "nested more than 64"),
        (BASE + "params: {a: " + "9" * 5000 + "}", "thousands of digits"),
        (BASE + "params: {a: " + "9" * 30 + "}", "too large"),
        (BASE + "#" * 256 * 1024, "262,144"),
        (b"\xff\xfe\x00n", "UTF-8"),
    ],
)
def test_a_bomb_is_refused(file, text, words):
    assert words in str(refusal(file, text))


def test_a_pipe_in_place_of_a_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")

    with pytest.raises(DefinitionInvalid, match="not a regular file"):
        load_definition(tmp_path / "pipe.yaml")


@pytest.mark.parametrize("stem", ["ü", "a b", "x" * 65, "a'b"])
def test_a_file_name_that_is_no_id_is_refused(tmp_path, stem):
    path = tmp_path / f"{stem}.yaml"
    path.write_text(BASE)

    with pytest.raises(DefinitionInvalid, match="file name"):
        load_definition(path)


def test_the_message_holds_no_traceback_and_fits_on_a_line(file):
    error = refusal(file, BASE + "timeouts: [1]\n")

    assert re.fullmatch(r"[^\n]+", str(error))
