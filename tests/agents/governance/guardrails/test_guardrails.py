import pickle

import orjson
import pytest

from agents.governance.guardrails.errors import SECRET_IN_ARGUMENTS, OutputBlocked, input_blocked, result_blocked
from agents.governance.guardrails.guardrails import UNGUARDED, Guardrails
from config.definitions.guardrails.checks import Checks, GuardrailFields
from config.redaction import REDACTED, register_secrets
from config.redaction.redacted_data import CUT
from tests.agents.governance.guardrails.samples import KEYS

KEY = KEYS[0]
STRICT = Guardrails(GuardrailFields(output=Checks(pii="redact"), input=Checks(pii="block")))


@pytest.mark.parametrize(
    "text",
    [
        orjson.dumps({"text": f"x {KEY}"}).decode(),
        '{"text": "' + "".join(f"\\u{ord(char):04x}" for char in KEY) + '"}',
        '{"a\\n": [[{"' + KEY + '": 1}]]}',
    ],
)
def test_a_secret_in_arguments_is_found_in_every_spelling(text):
    recorded, problem = STRICT.call(text)

    assert problem is not None
    assert problem.code == SECRET_IN_ARGUMENTS.code
    assert REDACTED in recorded
    assert KEY not in str(orjson.loads(recorded))


def test_arguments_without_a_secret_are_recorded_as_they_were_written():
    for text in ("", "{}", '{ "a":1.0, "b": "\\u00e9\\n" }', '{"password": "hunter2222"}'):
        assert STRICT.call(text) == (text, None)


@pytest.mark.parametrize("text", ['{"a": "\\', "[" * 5000 + "\\" + KEY, '{"a": "' + KEY + '\\"'])
def test_arguments_that_cannot_be_read_are_recorded_without_secrets(text):
    assert KEY not in STRICT.call(text)[0]


def test_a_registered_value_counts_from_then_on():
    assert STRICT.output("t", "swordfish-88") == "swordfish-88"

    register_secrets(["swordfish-88"])

    assert STRICT.output("t", {"a": ["swordfish-88"]}) == {"a": [REDACTED]}


def test_a_field_whose_name_says_so_is_replaced_whatever_its_value():
    assert STRICT.output("t", {"password": "swordfish", "api_key": ["abcdefgh"], "tokens": "many"}) == {
        "password": REDACTED,
        "api_key": [REDACTED],
        "tokens": "many",
    }


def test_numbers_and_names_of_fields_are_looked_at():
    output = STRICT.check_output({"jane@example.org": 4111111111111111, "n": 12, "x": None, "f": 0.5, "b": True})

    assert output.redacted_input == {REDACTED: REDACTED, "n": 12, "x": None, "f": 0.5, "b": True}
    assert output.reasons == ("redacted: email", "redacted: card")


def test_an_error_survives_pickling_and_names_its_reasons():
    for make in (input_blocked, OutputBlocked, result_blocked):
        error = pickle.loads(pickle.dumps(make(["blocked: card"])))
        assert "blocked: card" in str(error)
        assert error.facts == {"reasons": ["blocked: card"]}


@pytest.mark.parametrize("levels", [10, 63, 64, 65, 66, 200, 900])
@pytest.mark.parametrize("wrap", [lambda inner: {"a": inner}, lambda inner: [inner]])
def test_no_depth_hides_a_secret(wrap, levels):
    value = KEY
    for _ in range(levels):
        value = wrap(value)

    text = orjson.dumps(UNGUARDED.output("tool", value)).decode()

    assert KEY not in text
    assert REDACTED in text or CUT in text
