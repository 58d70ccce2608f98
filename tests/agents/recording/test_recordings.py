"""A run in one file, replayed offline: nothing is called, and what differs or is left over fails the test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import delete, select, update

from agents.models.errors import MODEL_REFUSED
from agents.recording import recording as files
from agents.recording.export import export_run
from agents.recording.recording import written
from agents.testing import AgentKit, Call, Turn
from bus.journal.approvals import Decision
from bus.journal.errors import RunUnknown
from bus.journal.forks.errors import RECORDING_INVALID, RUN_NOT_EXPORTABLE
from bus.payloads import ApprovalPayload
from config.database.tables import messages, runs, threads
from config.identity.principal import Principal, Role
from config.ids import canonical_digest
from tests.raising import raises

CALLED: list[int] = []


def pay(cents: int) -> str:
    """Pay."""
    CALLED.append(cents)
    return f"paid {cents}"


def elsewhere() -> str:
    """Ask another system."""
    raise AssertionError("a replay called a tool")


PAYING = Turn(text="Hm. ", reasoning="Think.", calls=[Call(name="pay", arguments={"cents": 5})])


def recorded(folder: Path, *turns: Turn, kit: AgentKit | None = None, **fields: Any) -> Path:
    """Return the file of a run with these answers; with a kit that is open, of its next run."""
    if kit is None:
        with AgentKit(tools=[pay], **fields) as own:
            return recorded(folder, *turns, kit=own)
    kit.model.script(*turns)
    run = kit.run("Pay what is due.", thread_id="talk")
    kit.played(run)
    return exported(folder, kit, run.run_id)


def exported(folder: Path, kit: AgentKit, run_id: str) -> Path:
    recording = export_run(kit.runner, kit.runner.principal, run_id)
    assert all(answer.exact for answer in recording.answers)
    file = folder / "run.json"
    file.write_bytes(written(recording))
    return file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    CALLED.clear()
    return recorded(tmp_path, PAYING, Turn(text="Done."))


def edit(file: Path, change: Callable[[dict[str, Any]], object], *, sealed: bool = False) -> Path:
    """Change a file by hand; ``sealed``: with digests that fit, as another program could make them."""
    content = orjson.loads(file.read_bytes())
    change(content)
    if sealed:
        content["digests"] = {name: canonical_digest(part) for name, part in files._parts(content)}
        content["digest"] = canonical_digest(content["digests"])
    file.write_bytes(orjson.dumps(content))
    return file


def replay(file: Path, *tools: Any, agent: str | None = None, **fields: Any) -> Any:
    with AgentKit(tools=tools or [pay], **fields) as kit:
        return kit.replay(file, agent)


def test_a_replay_gives_recorded_answers_and_outcomes_and_calls_nothing(file: Path) -> None:
    with AgentKit(tools=[pay]) as kit:
        played = kit.replay(file)

        assert (played.output, played.results("pay"), played.text) == ("Done.", ["paid 5"], "Hm. Done.")
        assert len(kit.model.requests) == 2
        assert kit.play().output == "The script has no further turn."  # the kit's own script is back
    assert CALLED == [5]


@pytest.mark.parity
def test_the_conversation_before_is_part_of_what_is_sent(tmp_path: Path) -> None:
    with AgentKit(tools=[pay], history_chars=1000) as kit:
        for number in range(12):
            kit.model.script(Turn(text=f"{number} " + "x" * 100))
            kit.play("Hello", thread_id="talk")
        file = recorded(tmp_path, PAYING, Turn(text="Done."), kit=kit)

    with AgentKit(tools=[pay]) as kit:
        assert kit.replay(file).output == "Done."

    assert "older messages were left out" in kit.model.requests[0].messages[0]["content"]


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"system_prompt": "You are another test."}, r"request 1 .*`messages\[0\].content`: recorded .*now .*another"),
        ({"params": {"temperature": 1}}, r"request 1 .*`params.temperature`: recorded null, now 1"),
        ({"max_iterations": 1}, r"request 2 .*`messages\[4\]`, which is new: .*used all the tool calls"),
        ({"tool_overrides": {"pay": {"timeout_s": 3}}}, None),
    ],
)
def test_another_request_to_the_model_is_named(file: Path, fields: dict[str, Any], place: str | None) -> None:
    if place is None:
        assert replay(file, agent="tester", **fields).output == "Done."
        return
    with pytest.raises(AssertionError, match=place):
        replay(file, agent="tester", **fields)


def test_a_tool_that_describes_itself_otherwise_is_named(file: Path) -> None:
    def pay(cents: int) -> str:
        """Pay now."""
        return ""

    with pytest.raises(AssertionError, match=r'`tools\[0\].function.description`: recorded "Pay.", now "Pay now."'):
        replay(file, pay)


def test_what_is_left_over_is_named(file: Path, tmp_path: Path) -> None:
    def unused(content: dict[str, Any]) -> None:
        content["outcomes"].append(content["outcomes"][0] | {"call_id": "call_unused"})

    with pytest.raises(AssertionError, match=r"the outcome of the call pay \(call_unused\) is left over"):
        replay(edit(file, unused, sealed=True))

    def further(content: dict[str, Any]) -> None:
        content["outcomes"].pop()
        content["answers"].append(content["answers"][-1])

    with pytest.raises(AssertionError, match="answer 3 of 3 is left over: the model was asked 2 times"):
        replay(edit(file, further, sealed=True))


def test_a_call_without_an_outcome_is_not_made(file: Path) -> None:
    with pytest.raises(AssertionError, match=r"`messages\[3\].content`: recorded .*paid 5.*, now .*replay makes none"):
        replay(edit(file, lambda content: content["outcomes"].clear(), sealed=True))
    assert CALLED == [5]


def test_a_call_that_may_not_be_made_now_is_named(file: Path) -> None:
    with AgentKit(tools=[pay]) as kit:
        definition: dict[str, Any] = {"tool_overrides": {"pay": {"approvers": 2}}}
        assert kit.replay(file, kit.agent("strict", tools=[pay], **definition)).output == "Done."  # nothing is done

    def text(content: dict[str, Any]) -> None:
        content["answers"][0]["calls"][0]["arguments_text"] = '{"cents": "many"}'

    with pytest.raises(AssertionError, match="request 2"):
        replay(edit(file, text, sealed=True))


def test_another_output_is_named(file: Path) -> None:
    edited = edit(file, lambda content: content.update(output="Never."), sealed=True)

    with pytest.raises(AssertionError, match=r'its output differs at `output`: recorded "Never.", now "Done."'):
        replay(edited)


def test_a_run_that_failed_is_replayed_up_to_there(tmp_path: Path) -> None:
    file = recorded(tmp_path, PAYING, Turn(text=["One ", "two"], error=MODEL_REFUSED("no"), error_after=1))

    end = replay(file).end

    assert (end.status, end.reason) == ("failed", "model_refused")


def test_an_answer_that_had_to_be_corrected_is_replayed(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    file = recorded(tmp_path, PAYING, Turn(text="none"), Turn(text='{"n": 1}'), output_schema=schema)

    assert replay(file).output == {"n": 1}


def test_arguments_that_a_person_changed_are_replayed_without_a_question(tmp_path: Path) -> None:
    with AgentKit(tools=[pay], tool_overrides={"pay": {"confirm": True}}) as kit:
        kit.model.script(PAYING, Turn(text="Done."))
        run = kit.run("Pay.")
        question = next(event for event in run.events() if isinstance(event, ApprovalPayload))
        run.decide(question.approval_id, Decision(decision="approve", arguments={"cents": 4}))
        kit.played(run)
        file = exported(tmp_path, kit, run.run_id)

    played = replay(file)

    assert (played.results("pay"), played.of(ApprovalPayload)) == (["paid 4"], [])


def test_tools_of_other_systems_are_what_was_offered(file: Path) -> None:
    def other(content: dict[str, Any]) -> None:
        content["definition"]["tools"] = ["mcp:bank/pay"]
        content["definition"]["tool_overrides"] = {"mcp:bank/pay": {"confirm": True}}

    assert replay(edit(file, other, sealed=True), elsewhere).output == "Done."


def test_labels_of_the_recording_are_those_of_the_replay(file: Path) -> None:
    edited = edit(file, lambda content: content.update(labels=["untrusted"]), sealed=True)

    with AgentKit(tools=[pay]) as kit:
        kit.replay(edited)

        with kit.runner.journal.database.read() as connection:
            assert connection.execute(select(threads.c.labels_json)).scalars().all() == ['["untrusted"]']


def test_texts_of_a_recording_pass_the_guardrails(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "a" * 40
    with AgentKit(tools=[pay]) as kit:
        kit.model.script(Turn(text="First."))
        kit.play("Hello", thread_id="talk")
        file = recorded(tmp_path, PAYING, Turn(text="Done."), kit=kit)

    def leak(content: dict[str, Any]) -> None:
        content["before"][0]["data"]["content"] = f"My key is {secret}"
        content["outcomes"][0]["result"] = secret

    with AgentKit(tools=[pay]) as kit, pytest.raises(AssertionError):
        kit.replay(edit(file, leak, sealed=True))
    assert secret not in str([call.messages for call in kit.model.requests])


def summarised(**facts: Any) -> dict[str, Any]:
    return {"id": "sum_1", "from_number": 1, "upto": [1, 2], "text": "They spoke.", "facts": facts}


def test_facts_of_a_summary_pass_the_guardrails(file: Path) -> None:
    secret = "sk-ant-api03-" + "a" * 40
    facts = summarised(pinned={"key": f"It is {secret}"}, calls=[f"#1 pay({secret}) call_1: done"])

    with AgentKit(tools=[pay]) as kit, pytest.raises(AssertionError):
        kit.replay(edit(file, lambda content: content.update(summary=facts), sealed=True))

    sent = str([call.messages for call in kit.model.requests])
    assert "They spoke." in sent
    assert secret not in sent


@pytest.mark.parametrize("more", [{"chars": 1}, {"upto": [1]}, {"facts": {"pinned": [], "calls": []}}, {"facts": {}}])
def test_a_summary_with_fields_that_do_not_fit_is_refused(file: Path, more: dict[str, Any]) -> None:
    summary = summarised(pinned={}, calls=[]) | more

    with raises(RECORDING_INVALID, match=rf"cannot be used: `summary.{next(iter(more))}"):
        replay(edit(file, lambda content: content.update(summary=summary), sealed=True))


def test_an_export_has_no_secret(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "b" * 40
    with AgentKit(tools=[pay], system_prompt=f"Use {secret}.") as kit:
        file = recorded(tmp_path, PAYING, Turn(text="Done."), kit=kit)
        with kit.runner.journal.database.write() as connection:
            leaked = f'{{"content": "Pay with {secret}."}}'
            connection.execute(update(messages).where(messages.c.role == "user").values(data_json=leaked))
            [run_id] = connection.execute(select(runs.c.id)).scalars()
        recording = export_run(kit.runner, kit.runner.principal, run_id)
    text = written(recording)

    assert [answer.exact for answer in recording.answers] == [False, False]  # the journal was changed
    assert secret.encode() not in text + file.read_bytes()
    file.write_bytes(text)
    assert replay(file).output == "Done."


# --- what is refused


def test_a_file_that_was_edited_is_refused_with_the_part(file: Path) -> None:
    def other(content: dict[str, Any]) -> None:
        content["outcomes"][0]["result"] = "paid 500"
        content["definition"]["system_prompt"] = "You pay."

    with raises(RECORDING_INVALID, match=r"edited: `definition`, `outcomes\[0\]` do .*runs export RUN -o FILE"):
        replay(edit(file, other))
    with raises(RECORDING_INVALID, match="edited: `digests`"):
        replay(edit(file, lambda content: content["digests"].pop("input")))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"{", "is not JSON .*so it is no recording"),
        (b"[1]", "is JSON without `.format."),
        (b'{"format": "callboard.recording", "version": 2}', "of version 2, and this Callboard reads version 1"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: bytes, problem: str) -> None:
    (tmp_path / "run.json").write_bytes(text)

    with raises(RECORDING_INVALID, match=problem):
        replay(tmp_path / "run.json")


def test_a_file_with_fields_that_do_not_fit_is_refused(file: Path) -> None:
    with raises(RECORDING_INVALID, match=r"`answers.0.text`: Input should be a valid string"):
        replay(edit(file, lambda content: content["answers"][0].update(text=1), sealed=True))
    with raises(RECORDING_INVALID, match="a request of the recording has no messages"):
        replay(edit(file, lambda content: content["answers"][0].update(text="", request={}), sealed=True))


def test_a_huge_file_is_neither_read_nor_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 100)

    with raises(RECORDING_INVALID, match="bytes and the limit is 100"):
        replay(file)


def test_a_tool_that_is_not_there_is_refused_and_nothing_is_imported(file: Path) -> None:
    def renamed(cents: int) -> str:
        """Pay."""
        return ""

    content = orjson.loads(file.read_bytes())["definition"]
    assert content["tools"] == ["pay"]

    def named(line: str) -> Path:
        return edit(file, lambda content: content["definition"].update(tools=[line]), sealed=True)

    with raises(RECORDING_INVALID, match="names the tool 'antigravity:fly', and a recording imports nothing"):
        replay(named("antigravity:fly"))
    with raises(RECORDING_INVALID, match="has the tool 'pay', and none of the agent's lines .*now .renamed"):
        replay(named("shop:renamed"), renamed)
    assert replay(named("shop:pay")).output == "Done."


def test_what_cannot_be_exported_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with AgentKit(tools=[pay]) as kit:
        me = kit.runner.principal
        kit.model.script(Turn(text=["a", "b"], stall_after=1))
        run = kit.run()
        with raises(RUN_NOT_EXPORTABLE, match="wait for its end, or stop it with `./callboard cancel"):
            export_run(kit.runner, me, run.run_id)
        kit.model.resume()
        kit.played(run)
        for other in (Principal(id="ben"), Principal(tenant="zeta", roles=frozenset({Role.ADMIN}))):
            with pytest.raises(RunUnknown):
                export_run(kit.runner, other, run.run_id)
        call = kit.runner.call_tool("pay", {"cents": 1}, agent_id="tester")
        kit.played(call)
        with raises(RUN_NOT_EXPORTABLE, match="is one call of a tool"):
            export_run(kit.runner, me, call.run_id)
        _change(kit, run.run_id, handed_from_json='["other"]')
        with raises(RUN_NOT_EXPORTABLE, match="was handed over to another agent"):
            export_run(kit.runner, me, run.run_id)
        _change(kit, run.run_id, handed_from_json=None, reason="prompt_refused")
        with raises(RUN_NOT_EXPORTABLE, match="was ended by the prompt guard"):
            export_run(kit.runner, me, run.run_id)
        kit.model.script(Turn(text=["a", "b"], stall_after=1), Turn(text="c"))
        steered = kit.run()
        kit.runner.steer(steered.run_id, "And once more.")
        kit.model.resume()
        kit.played(steered)
        with raises(RUN_NOT_EXPORTABLE, match="got further messages while it ran"):
            export_run(kit.runner, me, steered.run_id)
        with kit.runner.journal.database.write() as connection:
            connection.execute(delete(messages).where(messages.c.run_id == steered.run_id))
        with raises(RUN_NOT_EXPORTABLE, match="has no definition or no messages any more"):
            export_run(kit.runner, me, steered.run_id)


def _change(kit: AgentKit, run_id: str, **values: Any) -> None:
    with kit.runner.journal.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(**values))
