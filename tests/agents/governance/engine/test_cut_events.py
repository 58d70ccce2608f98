"""An event that shows the engine less than what is done: its answer may refuse, and permits nothing."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.governance.engine.answer import redact_for_engine
from config.effects import Effect
from config.policy_decision import Verdict
from tests.agents.governance.engine.conftest import calls

pytestmark = pytest.mark.parity

TOO_LONG = {
    "a text": {"text": "x" * 70_000 + "the rest"},
    "a text in a list": {"items": [{"note": "x" * 1_000_000}]},
    "a name": {"n" * 70_000: 1},
    "all together": {"items": ["x" * 1000] * 900},
    "a text whose secrets are written longer": {"text": "passwd=s3cr3t " * 4_681},
    "names that differ in a secret alone": {"sk-" + "a" * 40: 1, "sk-" + "b" * 40: 2},
    "half a surrogate pair": {"text": "\ud800"},
    "a number beyond 64 bits": {"cents": 2**70},
}


@pytest.mark.parametrize("arguments", TOO_LONG.values(), ids=TOO_LONG)
def test_an_engine_that_sees_a_part_permits_nothing(ask, arguments):
    answer = {"action": "continue", "guardrails": {"redacted_input": {"text": "y"}}}

    effectful, (request,) = ask(answer, calls(Effect.UNSAFE, **arguments))
    closed, _ = ask(answer, calls(**arguments), "fail_closed")
    pure, _ = ask(answer, calls(**arguments))

    assert orjson.loads(request.body)["is_cut"] is True
    assert len(request.body) < 300_000
    assert [result.decision.verdict for result in (effectful, closed)] == [Verdict.BLOCK] * 2
    assert "shown in part" in effectful.decision.reason
    assert closed.error.code == "governance_input_cut"
    assert (pure.decision.verdict, pure.decision.arguments) == (Verdict.ALLOW, None)
    assert [note.code for note in pure.notes] == ["governance_input_cut"]


@pytest.mark.parametrize(
    ("answer", "when_silent", "verdict", "is_engines"),
    [
        ({"action": "require_approval", "policy_id": "p7"}, "fail_open", Verdict.REQUIRE_APPROVAL, True),
        ({"action": "require_approval", "policy_id": "p7"}, "fail_closed", Verdict.BLOCK, False),
        ({"action": "block", "policy_id": "p7"}, "fail_open", Verdict.BLOCK, True),
        ({"action": "stop", "policy_id": "p7"}, "fail_closed", Verdict.HALT, True),
        ({"action": "continue", "guardrails": {"validation_passed": False}}, "fail_open", Verdict.BLOCK, True),
    ],
)
def test_an_engine_that_sees_a_part_may_refuse(ask, answer, when_silent, verdict, is_engines):
    judged, _ = ask(answer, calls(Effect.UNSAFE, text="x" * 70_000), when_silent)

    assert judged.decision.verdict is verdict
    assert ("without an answer" not in judged.decision.remote) is is_engines


@pytest.mark.parametrize(("when_silent", "is_kept"), [("by_effect", True), ("fail_open", True), ("fail_closed", False)])
def test_a_result_that_is_shown_in_part_is_judged_as_without_an_answer(ask, when_silent, is_kept):
    changed = {"action": "continue", "guardrails": {"input_type": "activity_output", "redacted_input": "y"}}

    judged, (request,) = ask(
        changed, calls(Effect.UNSAFE), when_silent, status="done", output="x" * 70_000, duration_ms=1
    )

    assert orjson.loads(request.body)["is_cut"] is True
    assert (judged.decision.verdict is Verdict.ALLOW, judged.is_output_changed) == (is_kept, False)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=30) | st.integers(-(2**65), 2**65),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
)


@given(JSON, st.sampled_from([8, 64]), st.sampled_from([20, 200]))
def test_what_is_not_cut_is_shown_whole(value, max_text, max_shown):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agents.governance.engine.answer.MAX_TEXT", max_text)
        patch.setattr("agents.governance.engine.answer.MAX_SHOWN", max_shown)

        seen, is_cut = redact_for_engine(value)

    assert is_cut or seen == value
