"""What the engine is asked, and what each of its answers means for a call."""

import asyncio
import time
from dataclasses import replace

import orjson
import pytest

from agents.governance.engine.governance import combined
from agents.governance.engine.remote import RemoteEngine, engine_of
from config.effects import Effect
from config.errors import SettingInvalid
from config.policy_decision import PolicyDecision, Verdict
from config.settings import read_settings
from config.tracing import trace_id_of, traced
from tests.agents.governance.engine.conftest import RUN, calls
from tests.config.egress.peer import Peer, says, sends

pytestmark = pytest.mark.parity
EFFECTFUL = calls(Effect.UNSAFE, room="A 12")
HUGE = b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n"


def test_the_call_is_sent_as_the_seed_names_it(ask):
    judged, (request,) = ask({"action": "continue"})

    event = orjson.loads(request.body)
    assert (request.method, request.path) == ("POST", "/core/governance/evaluate")
    assert request.headers["authorization"] == "Bearer obx_key_123"
    assert (event["event_type"], event["run_id"], event["workflow_id"]) == ("ActivityStarted", "run_1", "run_1")
    assert (event["activity_id"], event["activity_type"]) == ("step_1", "book")
    assert event["activity_input"] == [{"room": "A 12"}]
    assert (judged.decision.verdict, judged.notes) == (Verdict.ALLOW, ())


def test_what_was_done_is_sent_with_its_spans(ask):
    span = {"name": "http", "status": 200}
    judged, (request,) = ask({"action": "continue"}, status="done", output={"id": 7}, duration_ms=12, spans=[span])

    event = orjson.loads(request.body)
    assert event["event_type"] == "ActivityCompleted"
    assert (event["activity_output"], event["status"], event["duration_ms"]) == ({"id": 7}, "done", 12)
    assert (event["spans"], event["span_count"]) == ([span], 1)
    assert not judged.is_output_changed


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"action": "continue"}, Verdict.ALLOW),
        ({"action": "stop"}, Verdict.HALT),
        ({"action": "block", "reason": "no"}, Verdict.BLOCK),
        ({"action": "require_approval"}, Verdict.REQUIRE_APPROVAL),
        ({"verdict": "allow", "action": "continue"}, Verdict.ALLOW),
        ({"verdict": "halt", "action": "continue"}, Verdict.HALT),
        ({"verdict": "allow", "action": "stop"}, Verdict.HALT),
        ({"action": "continue", "guardrails": {"validation_passed": False, "reasons": ["PII"]}}, Verdict.BLOCK),
        ({"action": "stop", "guardrails": {"validation_passed": False}}, Verdict.HALT),
        ({"action": "continue", "guardrails": {"redacted_input": {"room": "A 12"}}}, Verdict.ALLOW),
        ({"action": "continue", "guardrails": {"redacted_input": {"room": "[REDACTED]"}}}, Verdict.CONSTRAIN),
        ({"action": "continue", "guardrails_result": {"redacted_input": [{"room": "x"}]}}, Verdict.CONSTRAIN),
        ({"action": "continue", "guardrails": None, "event_id": None}, Verdict.ALLOW),
    ],
)
def test_each_action_is_a_verdict(ask, answer, verdict):
    assert ask(answer)[0].decision.verdict is verdict


def test_guardrails_give_reasons_and_other_arguments(ask):
    guardrails = {
        "input_type": "activity_input",
        "redacted_input": {"room": "[REDACTED]"},
        "validation_passed": True,
        "reasons": ["a name", {"type": "pii", "field": "room", "reason": "a number"}],
    }

    decision = ask({"action": "continue", "guardrails": guardrails, "policy_id": "p7"})[0].decision

    assert decision.arguments == {"room": "[REDACTED]"}
    assert (decision.reason, decision.rule) == ("a name a number", "p7")


def test_what_was_hidden_from_the_engine_stays_in_the_call(ask):
    call = calls(token="sk-" + "a" * 40, note="Ann", more=[{"key": "sk-" + "b" * 40, "x": 1}])
    seen = []

    async def script(request, writer):
        arguments_seen = orjson.loads(request.body)["activity_input"][0]
        seen.append(arguments_seen)
        changed = {**arguments_seen, "note": "[REDACTED]"}
        body = orjson.dumps({"action": "continue", "guardrails": {"redacted_input": changed}})
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    decision = ask(script, call)[0].decision

    assert seen[0]["token"] == "[redacted]"
    assert decision.arguments == {**call.arguments, "note": "[REDACTED]"}


def test_the_output_is_replaced(ask):
    answer = {"action": "continue", "guardrails": {"input_type": "activity_output", "redacted_input": {"name": "***"}}}

    judged, _ = ask(answer, status="done", output={"name": "Ann", "id": 1}, duration_ms=1)

    assert judged.output == {"name": "***"}


async def stays_silent(_asked, _writer):
    await asyncio.sleep(30)


BROKEN = {
    "silence": stays_silent,
    "500": says(b'{"action": "continue"}', 500),
    "401": says(b'{"action": "continue"}', 401),
    "204": says(b"", 204),
    "a redirect": says(b'{"action": "continue"}', 302, Location="http://127.0.0.1:1/"),
    "nothing": says(b""),
    "no JSON": says(b"<html>"),
    "NaN": says(b'{"action": "continue", "x": NaN}'),
    "a list": says(b'["continue"]'),
    "a text": says(b'"continue"'),
    "no action": says(b"{}"),
    "null": says(b'{"action": null}'),
    "another action": says(b'{"action": "proceed"}'),
    "a list as action": says(b'{"action": ["continue"]}'),
    "an unknown one beside a known one": says(b'{"action": "continue", "verdict": "sure"}'),
    "another event": says(b'{"action": "continue", "event_id": "evt_other"}'),
    "another run": says(b'{"action": "continue", "run_id": "run_2"}'),
    "another call": says(b'{"action": "continue", "activity_id": "step_2"}'),
    "an event of another type": says(b'{"action": "continue", "event_type": "ActivityCompleted"}'),
    "guardrails of the output": says(b'{"action": "continue", "guardrails": {"input_type": "activity_output"}}'),
    "guardrails as a list": says(b'{"action": "continue", "guardrails": []}'),
    "validation as a text": says(b'{"action": "continue", "guardrails": {"validation_passed": "false"}}'),
    "reasons as a text": says(b'{"action": "continue", "guardrails": {"reasons": "PII"}}'),
    "an input that is none": says(b'{"action": "continue", "guardrails": {"redacted_input": "x"}}'),
    "two inputs": says(b'{"action": "continue", "guardrails": {"redacted_input": [{}, {}]}}'),
    "deep JSON": says(b'{"a":' * 2000 + b"1" + b"}" * 2000),
    "100 MB": sends(HUGE, forever=b" " * 65536),
    "a slow body": sends(b"HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n", forever=b" ", every_s=0.1),
    "slow headers": sends(b"HTTP/1.1 200 OK\r\n", forever=b"X: y\r\n", every_s=0.05),
    "half a body": sends(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"action": "continue"}'),
    "no HTTP": sends(b"hello\r\n\r\n"),
    "a closed connection": sends(),
    "a bomb": says(b"\x1f\x8b" + b"x" * 100, Content_Encoding="gzip"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_without_a_usable_answer_pure_calls_pass_and_others_do_not(ask, name):
    began = time.monotonic()

    pure, _ = ask(BROKEN[name], timeout_s=0.5)
    other, _ = ask(BROKEN[name], EFFECTFUL, timeout_s=0.5)

    assert time.monotonic() - began < 4
    assert (pure.decision.verdict, pure.notes[0].code) == (Verdict.ALLOW, "governance_unavailable")
    assert pure.decision.remote.startswith("passed without an answer")
    assert (other.decision.verdict, other.notes) == (Verdict.BLOCK, ())
    assert "no usable answer" in other.decision.reason


@pytest.mark.parametrize(
    ("when_silent", "call", "verdict"),
    [
        ("fail_open", EFFECTFUL, Verdict.ALLOW),
        ("fail_closed", calls(room="A"), Verdict.BLOCK),
        ("by_effect", calls(Effect.IDEMPOTENT), Verdict.BLOCK),
        ("by_effect", calls(Effect.KEYED), Verdict.BLOCK),
        ("by_effect", replace(calls(room="A"), leaves=True), Verdict.BLOCK),
        ("fail_open", replace(calls(room="A"), leaves=True), Verdict.ALLOW),
    ],
)
def test_the_operator_says_what_silence_means(ask, when_silent, call, verdict):
    assert ask(says(b"", 500), call, when_silent)[0].decision.verdict is verdict


@pytest.mark.parametrize(("when_silent", "is_kept"), [("by_effect", True), ("fail_open", True), ("fail_closed", False)])
def test_a_result_is_kept_back_without_an_answer_only_if_all_is_closed(ask, when_silent, is_kept):
    judged, _ = ask(says(b"", 500), EFFECTFUL, when_silent, status="done", output=1, duration_ms=1)

    assert (judged.decision.verdict is Verdict.ALLOW) is is_kept


def test_an_engine_that_is_not_there(ask):
    async def run():
        engine = RemoteEngine("http://127.0.0.1:9", None, 2.0)
        with pytest.raises(Exception, match="cannot be reached"):
            await engine.evaluate({}, "activity_input")

    asyncio.run(run())


@pytest.mark.parametrize("local", [None, *Verdict])
@pytest.mark.parametrize("remote", list(Verdict))
def test_the_stricter_of_both_wins(local, remote):
    own = None
    if local is not None:
        own = PolicyDecision(verdict=local, rule="own", version="v1", labels=("private",), seen=("untrusted",))
    other = PolicyDecision(verdict=remote, rule="engine", version="remote", remote=str(remote))

    decision = combined(own, other)

    assert own is None or (decision.labels, decision.seen, decision.version) == (("private",), ("untrusted",), "v1")
    order = list(Verdict).index
    assert decision.verdict is (remote if local is None else max(local, remote, key=order))
    assert decision.remote == remote


@pytest.mark.parametrize(
    "values",
    [
        {"governance_url": "ftp://a"},
        {"governance_url": "http://core.example.org"},
        {"governance_url": "https://user:hidden@core.example.org"},
        {"governance_url": "https://core.example.org/?a=b"},
        {"governance_url": "https://core.example.org", "governance_policy": "open"},
        {"governance_url": "https://core.example.org", "governance_timeout_s": 3},
    ],
)
def test_settings_that_cannot_be_meant_are_refused(values):
    with pytest.raises(SettingInvalid) as caught:
        read_settings(**values)

    assert "hidden" not in str(caught.value)


def test_the_seeds_variables_are_read(monkeypatch):
    monkeypatch.setenv("OPENBOX_URL", "https://core.example.org")
    monkeypatch.setenv("OPENBOX_API_KEY", "obx_live_1")
    monkeypatch.setenv("OPENBOX_GOVERNANCE_POLICY", "fail_closed")

    settings = read_settings()

    assert (settings.governance_url, settings.governance_policy) == ("https://core.example.org", "fail_closed")
    assert settings.governance_api_key is not None
    assert settings.governance_api_key.get_secret_value() == "obx_live_1"
    assert engine_of(settings) is engine_of(read_settings())


@pytest.mark.parametrize("address", ["169.254.169.254", "[fd00:ec2::254]", "0.0.0.0"])
def test_an_address_of_metadata_services_is_not_asked(address):
    async def run():
        with pytest.raises(Exception, match="its address is not allowed"):
            await RemoteEngine(f"http://{address}", None, 0.5).evaluate({}, "activity_input")

    asyncio.run(run())


def test_a_redirect_takes_the_call_nowhere_else(ask):
    other = []

    async def run():
        async with Peer(says(b'{"action": "continue"}')) as second:
            location = second.url("127.0.0.1", "/governance/evaluate")
            async with Peer(says(b"", 307, Location=location)) as first:
                with pytest.raises(Exception, match="HTTP 307"):
                    await RemoteEngine(first.url("127.0.0.1"), None, 2.0).evaluate({"a": 1}, "activity_input")
            other.extend(second.asked)

    asyncio.run(run())

    assert other == []


def test_each_event_and_its_request_have_the_ids_of_the_trace(ask):
    with traced(RUN.trace_id, RUN.correlation_id):
        _, (request,) = ask({"action": "continue"})

    event = orjson.loads(request.body)
    assert (event["trace_id"], event["correlation_id"]) == (RUN.trace_id, "order 4711")
    assert trace_id_of(request.headers["traceparent"]) == RUN.trace_id
    assert request.headers["x-correlation-id"] == "order 4711"
