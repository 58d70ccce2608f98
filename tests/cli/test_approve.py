"""`approve`, `runs --why` and what `watch` says of a run that asks, as a person types and sees them."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from agents.runner import Runner
from bus.journal import approvals
from bus.journal.approvals import Decision
from cli.commands.approve import approve
from cli.main import status_of
from cli.output.question import question_lines
from config.database.migrate import migrate
from config.settings import Settings
from tests.bus.questions import (
    WHY,
    answer_of,
    asks,
    filled_in,
    owned_again,
    question,
    question_before,
    question_form,
    question_missing,
)

Type = Callable[..., int]
AGENT = "name: Clerk\nmodel: demo/instant\nsystem_prompt: You are a test.\n"


@pytest.fixture
def type_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Type]:
    """Type a command into this test's own state folder; returns its exit status."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "clerk.yaml").write_text(AGENT)
    before = Path.cwd()
    monkeypatch.setenv("CALLBOARD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(tmp_path / "agents"))
    migrate(Settings(state_dir=tmp_path / "state"))
    yield lambda *words: status_of(list(words))
    os.chdir(before)


@pytest.mark.parametrize(
    ("decisions", "line"),
    [(["approve", "reject"], "Pay order 7 back?"), (["run_again", "fail"], "Did this take effect: Pay order 7 back?")],
)
def test_a_tool_with_a_title_asks_in_its_authors_words(decisions: list[str], line: str) -> None:
    question = {"name": "refund_order", "sentence": "Pay order 7 back", "decisions": decisions, "reason": "It asks."}

    assert question_lines(question)[:2] == [line, "refund_order asks: It asks."]


def test_a_question_before_a_call_shows_what_decides() -> None:
    properties = {
        "order": {"type": "integer"},
        "speed": {"type": "string", "default": "slow"},
        "note": {"default": None},
    }
    schema = {"type": "object", "properties": properties, "description": "Pay an order back."}

    lines = question_lines(
        {
            "name": "refund_order",
            "reason": "It is asked for each call.",
            "arguments": {"order": 7},
            "input_schema": schema,
            "effect": "unsafe",
            "decisions": ["approve", "reject"],
        }
    )

    assert lines == [
        "refund_order asks: It is asked for each call.",
        "    order: 7",
        "    speed: slow  (default)",
        "  Pay an order back.",
        "  unsafe: made twice, it takes effect twice.",
    ]


class Terminal:
    """Makes runs that wait, and looks at what became of them."""

    def __init__(self, type_: Type, capsys: pytest.CaptureFixture[str]) -> None:
        self.type = type_
        self._capsys = capsys

    def waiting(self, *questions: Any, thread: str = "talk") -> tuple[str, list[str]]:
        """Return a run that waits, and the ids of what it asks."""
        self.type("run", "clerk", "Refund order 1042", "--detach", "--thread", thread)
        run_id = self._capsys.readouterr().out.strip()
        open_questions = questions or (question(),)
        with opened() as runner:
            asks(runner.journal.database, run_id, *open_questions)
        return run_id, [open_question.id for open_question in open_questions]

    def says(self, *words: str, status: int = 0) -> str:
        """Return what a command prints on standard output."""
        assert self.type(*words) == status
        return self._capsys.readouterr().out

    def complains(self, *words: str, status: int = 2) -> str:
        """Return what a command prints on standard error."""
        assert self.type(*words) == status
        return self._capsys.readouterr().err

    def out(self) -> str:
        """Return what was printed on standard output."""
        return self._capsys.readouterr().out

    def status(self, run_id: str) -> str:
        with opened() as runner:
            return runner.handle(run_id).status()

    def answer(self, run_id: str) -> Decision:
        """Return the one answer the run has not used yet."""
        with opened() as runner:
            return answer_of(runner.journal.database, run_id)


class opened:  # noqa: N801  # reads as a function
    """A runner with the settings that the environment names."""

    def __enter__(self) -> Runner:
        self._runner = Runner.open(Settings(_env_file=None))  # type: ignore[call-arg]  # pydantic-settings' own
        return self._runner

    def __exit__(self, *_: object) -> None:
        self._runner.close()


@pytest.fixture
def terminal(type_: Type, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(type_, capsys)


# --- answering ------------------------------------------------------------------------------------


def test_the_only_question_needs_no_name(terminal: Terminal) -> None:
    run_id, _ = terminal.waiting()

    output = terminal.says("approve", run_id, "--decision", "run_again")

    assert "decided: run again." in output
    assert f"{run_id} continues" in output
    assert terminal.status(run_id) == "queued"


@pytest.mark.parametrize(
    ("typed", "result"),
    [
        ('{"refund": 7}', {"refund": 7}),
        ("done by hand", "done by hand"),
        ("12", 12),
        ('"12"', "12"),
        ("{broken", "{broken"),
    ],
)
def test_a_result_is_json_where_it_is_json_and_else_text(terminal: Terminal, typed: str, result: object) -> None:
    run_id, _ = terminal.waiting()

    terminal.says("approve", run_id, "--decision", "take_as_done", "--result", typed, "--message", "asked the bank")

    assert terminal.answer(run_id) == Decision(decision="take_as_done", result=result, message="asked the bank")


def test_a_call_is_approved_with_other_arguments(terminal: Terminal) -> None:
    run_id, _ = terminal.waiting(question_before())

    output = terminal.says("approve", run_id, "--decision", "approve", "--arguments", '{"order": 7}')

    assert "decided: approve." in output
    assert terminal.answer(run_id) == Decision(decision="approve", arguments={"order": 7})


@pytest.mark.parametrize(
    ("typed", "message"),
    [('{"order": 0}', "order"), ('{"order"', "not JSON"), ("[1]", "JSON object"), ('{"a": 1, "a": 2}', "twice")],
)
def test_arguments_that_cannot_be_meant_decide_nothing(terminal: Terminal, typed: str, message: str) -> None:
    run_id, _ = terminal.waiting(question_before())

    assert message in terminal.complains("approve", run_id, "--decision", "approve", "--arguments", typed)
    assert terminal.status(run_id) == "waiting"


def test_without_a_run_the_open_questions_of_all_are_listed(terminal: Terminal) -> None:
    assert "No run waits for an answer." in terminal.says("approve")
    first, _ = terminal.waiting(question_before())
    second, (approval_id,) = terminal.waiting(thread="other")

    output = terminal.says("approve")

    assert f"./callboard approve {first}" in output
    assert f"./callboard approve {second}" in output
    (newest, _) = orjson.loads(terminal.says("approve", "--json"))
    assert (newest["approval_id"], newest["run_id"], newest["agent"]) == (approval_id, second, "clerk")
    assert "needs a RUN" in terminal.complains("approve", "--decision", "fail")


def test_a_call_is_rejected_with_a_message(terminal: Terminal) -> None:
    run_id, _ = terminal.waiting(question_before())

    assert "decided: reject." in terminal.says("approve", run_id, "--decision", "reject", "--message", "we have enough")
    assert terminal.answer(run_id) == Decision(decision="reject", message="we have enough")


def test_json_prints_the_answer_for_programs(terminal: Terminal) -> None:
    run_id, (approval_id,) = terminal.waiting()

    answer = orjson.loads(terminal.says("approve", run_id, "--decision", "fail", "--json"))

    assert answer == {
        "run_id": run_id,
        "approval_id": approval_id,
        "decision": "fail",
        "by": "terminal",
        "status": "queued",
    }


def test_json_without_a_decision_prints_the_questions(terminal: Terminal) -> None:
    run_id, ids = terminal.waiting(question(), question("send_mail", {}))

    entries = orjson.loads(terminal.says("approve", run_id, "--json"))

    assert [entry["approval_id"] for entry in entries] == ids
    assert terminal.status(run_id) == "waiting"


def test_several_questions_are_listed_with_the_command_of_each(terminal: Terminal) -> None:
    run_id, ids = terminal.waiting(question(), question("send_mail", {"to": "ann@b.example"}))

    listed = terminal.says("approve", run_id, status=2)
    complaint = terminal.complains("approve", run_id, "--decision", "fail")

    for output in (listed, complaint):
        assert "send_mail asks: " + WHY in output
        assert "to: ann@b.example" in output
        for approval_id in ids:
            assert (
                f"./callboard approve {run_id} {approval_id}  (or with --decision run_again, take_as_done or fail)"
                in output
            )
    assert terminal.status(run_id) == "waiting"


def test_one_of_several_is_answered_by_its_name(terminal: Terminal) -> None:
    run_id, (first, second) = terminal.waiting(question(), question("send_mail", {}))

    output = terminal.says("approve", run_id, second, "--decision", "fail")

    assert f"has 1 more open: ./callboard approve {run_id}" in output
    assert [load["approval_id"] for load in orjson.loads(terminal.says("approve", run_id, "--json"))] == [first]


def test_a_late_answer_gets_the_first_one_and_ends_with_one(terminal: Terminal) -> None:
    run_id, (approval_id,) = terminal.waiting()
    terminal.says("approve", run_id, "--decision", "take_as_done")

    complaint = terminal.complains("approve", run_id, approval_id, "--decision", "run_again", status=1)
    unnamed = terminal.complains("approve", run_id, "--decision", "run_again", status=1)
    facts = orjson.loads(terminal.says("approve", run_id, approval_id, "--decision", "run_again", "--json", status=1))

    assert "decided already: take_as_done, by terminal" in complaint
    assert unnamed == complaint
    assert (facts["code"], facts["decision"], facts["by"]) == ("approval_decided", "take_as_done", "terminal")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--decision", "approve"), "give one of: run_again, take_as_done, fail"),
        (("--decision", "fail", "--result", "1"), "--result goes with --decision take_as_done only"),
        (("apr_nothere", "--decision", "fail"), "asks nothing with the id 'apr_nothere'"),
        (("apr_nothere",), "asks nothing with the id 'apr_nothere'"),
        (("--decision", "take_as_done", "--result", "x" * 262_145), "longer than 262,144 bytes"),
        (("--decision", "fail", "--message", "x" * 2001), "longer than 2,000 characters"),
        (("--decision", "fail", "--message", "\udcff"), "not text in UTF-8"),
        ((), "nothing was decided"),
    ],
)
def test_wrong_usage_is_one_sentence_and_status_two(terminal: Terminal, words: tuple[str, ...], message: str) -> None:
    run_id, _ = terminal.waiting()

    complaint = terminal.complains("approve", run_id, *words)

    assert message in complaint
    assert "Traceback" not in complaint
    assert terminal.status(run_id) == "waiting"


def test_an_answer_to_an_earlier_question_is_not_taken_for_one_to_the_last(terminal: Terminal) -> None:
    run_id, (first, _) = terminal.waiting(question(), question("send_mail", {}))
    terminal.says("approve", run_id, first, "--decision", "take_as_done")
    terminal.says("cancel", run_id)

    complaint = terminal.complains("approve", run_id, "--decision", "fail", status=1)

    assert "has no open question; it is cancelled" in complaint


def test_a_run_that_asks_nothing_says_so(terminal: Terminal) -> None:
    run_id, _ = terminal.waiting()
    terminal.says("cancel", run_id)

    assert "there is no run 'run_nothere'" in terminal.complains("approve", "run_nothere", "--decision", "fail")
    assert "has no open question; it is cancelled" in terminal.complains(
        "approve", run_id, "--decision", "fail", status=1
    )
    assert "has no open question" in terminal.complains("approve", run_id)


# --- asking a person at a terminal ----------------------------------------------------------------


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Type a command at a terminal, with lines typed at its questions."""

    def type_at(*words: str, lines: str) -> Any:
        runner = CliRunner()
        with runner.isolation(input=lines) as (out, err, *_):
            monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
            monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
            status = approve.main(list(words), standalone_mode=False)
            return status, out.getvalue().decode(), err.getvalue().decode()

    return type_at


def test_a_terminal_is_shown_the_exact_call_and_asked(terminal: Terminal, at_terminal: Callable[..., Any]) -> None:
    run_id, _ = terminal.waiting(question(arguments={"order": 1042, "note": "line one\nline two", "lines": [1, 2]}))

    status, _, screen_text = at_terminal(run_id, lines='7\n2\n{"refund": 7}\n')

    assert status == 0
    assert f"refund_order asks: {WHY}" in screen_text
    assert "order: 1042" in screen_text
    assert "note: line one\n          line two" in screen_text
    assert "Without an answer by 20" in screen_text
    assert "Not one of the decisions: run_again, take_as_done, fail." in screen_text
    assert terminal.answer(run_id) == Decision(decision="take_as_done", result={"refund": 7})


def test_the_question_of_a_gate_is_its_message(terminal: Terminal, at_terminal: Callable[..., Any]) -> None:
    arguments = {"message": "Refund 120 euros?", "data": {"order": 1042}}
    gate = question(name="approval_gate", arguments=arguments, decisions=["approve", "reject"], reason="It waits.")
    run_id, _ = terminal.waiting(gate)

    assert "waits for an answer about 'Refund 120 euros?', until" in terminal.says("runs", "--why")
    status, _, screen_text = at_terminal(run_id, lines="1\n")

    assert status == 0
    assert screen_text.splitlines()[:3] == ["Refund 120 euros?", '    data: {"order":1042}', "  It waits."]
    assert "1  approve  The workflow continues." in screen_text
    assert "The call" not in screen_text
    assert "agent" not in screen_text


@pytest.mark.parametrize(("typed", "decision"), [("1", "run_again"), ("fail", "fail"), ("Run again", "run_again")])
def test_an_answer_is_a_number_or_a_word(
    terminal: Terminal, at_terminal: Callable[..., Any], typed: str, decision: str
) -> None:
    run_id, _ = terminal.waiting()

    assert at_terminal(run_id, lines=f"{typed}\n")[0] == 0

    assert terminal.answer(run_id).decision == decision


def test_enter_decides_nothing(terminal: Terminal, at_terminal: Callable[..., Any]) -> None:
    run_id, _ = terminal.waiting()

    status, _, screen_text = at_terminal(run_id, lines="\n")

    assert status == 1
    assert "Nothing was decided" in screen_text
    assert terminal.status(run_id) == "waiting"


# --- watching -------------------------------------------------------------------------------------


def finish(run_id: str, text: str = "done") -> None:
    """Resume an answered run, as a worker would."""
    from bus.journal.owner import Commit, HistoryItem
    from bus.payloads import EndPayload, MessagePayload

    with opened() as runner:
        journal = runner.journal
        writer = journal.owner.writer(owned_again(journal.database, run_id), lambda _: None)
        message = MessagePayload(role="assistant", content=text, message_id="msg_2", step_id="stp_2")
        item = HistoryItem(id="msg_2", role="assistant", data={"content": text})
        commit = Commit(events=[message, EndPayload(status="succeeded")], history=[item])
        journal.loop.run(writer.commit(commit), 20)


class Screen(io.StringIO):
    """Standard error of a person who watches; ``asked`` is set once it says how to answer."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def write(self, text: str) -> int:
        if "./callboard approve" in text:
            self.asked.set()
        return super().write(text)


def test_watch_says_what_is_asked_and_how_to_answer_and_continues(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, (approval_id,) = terminal.waiting()
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)

    def answer() -> None:
        assert screen.asked.wait(20)
        with opened() as runner:
            runner.handle(run_id).decide(approval_id, Decision(decision="run_again"), by="ann")
        finish(run_id)

    answering = threading.Thread(target=answer)
    answering.start()
    assert terminal.type("watch", run_id) == 0
    answering.join(20)

    screen_text = screen.getvalue()
    assert f"refund_order asks: {WHY}" in screen_text
    assert "order: 1042" in screen_text
    assert f"./callboard approve {run_id}  (or with --decision run_again, take_as_done or fail)" in screen_text
    assert "run again, decided by ann" in screen_text
    assert "↺ continued" in screen_text
    assert "taken over" not in screen_text
    assert terminal.out() == "done\n"


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_watching_from_behind_the_question_says_how_to_answer_too(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    run_id, (approval_id,) = terminal.waiting()
    with opened() as runner:
        newest = max(line.seq for line in runner.journal.readers.page(run_id, runner.handle(run_id).thread_id, 0)[0])
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)

    def answer() -> None:
        assert screen.asked.wait(20)
        with opened() as runner:
            runner.handle(run_id).decide(approval_id, Decision(decision="run_again"), by="ann")
        finish(run_id)

    answering = threading.Thread(target=answer)
    answering.start()
    assert terminal.type("watch", run_id, "--after", str(newest), *flags) == 0
    answering.join(20)

    assert screen.getvalue().count(f"./callboard approve {run_id}") == 1


def test_watching_later_shows_the_answer_and_not_how_to_give_one(terminal: Terminal) -> None:
    run_id, _ = terminal.waiting()
    terminal.says("approve", run_id, "--decision", "take_as_done", "--message", "asked the bank")
    finish(run_id)

    printed = terminal.complains("watch", run_id, status=0)

    assert f"refund_order asks: {WHY}" in printed
    assert "take as done, decided by terminal: asked the bank" in printed
    assert "./callboard approve" not in printed


# --- why ------------------------------------------------------------------------------------------


def test_why_says_what_each_open_run_waits_for(terminal: Terminal) -> None:
    asking, _ = terminal.waiting()
    behind = terminal.says("run", "clerk", "And then?", "--detach", "--thread", "talk").strip()

    rows = [line.split("\t") for line in terminal.says("runs", "--why").splitlines()]
    explanations = orjson.loads(terminal.says("runs", "--why", "--json"))

    assert [row[0] for row in rows] == [asking, behind]
    assert f"`./callboard approve {asking}`" in rows[0][-1]
    assert rows[1][-1] == f"queued behind {asking} of its thread, which is waiting."
    assert [(explanation["run_id"], explanation["waits_for"]) for explanation in explanations] == [
        (asking, "answer"),
        (behind, "turn"),
    ]
    assert [explanation["why"] for explanation in explanations] == [row[-1] for row in rows]


def test_why_of_nothing(terminal: Terminal) -> None:
    assert terminal.says("runs", "--why") == ""
    assert orjson.loads(terminal.says("runs", "--why", "--json")) == []


def test_why_is_about_open_runs(terminal: Terminal) -> None:
    assert "leave --status out" in terminal.complains("runs", "--why", "--status", "failed")


def test_why_of_one_run(terminal: Terminal) -> None:
    first, _ = terminal.waiting(thread="one")
    terminal.waiting(thread="two")

    explanations = orjson.loads(terminal.says("runs", "--why", first, "--json"))
    terminal.says("cancel", first)

    assert [explanation["run_id"] for explanation in explanations] == [first]
    assert f"{first} has ended: cancelled" in terminal.says("runs", "--why", first)
    assert "there is no run" in terminal.complains("runs", "--why", "run_unknown")


def test_why_of_one_thread_or_agent(terminal: Terminal) -> None:
    first, _ = terminal.waiting(thread="one")
    terminal.waiting(thread="two")

    explanations = orjson.loads(terminal.says("runs", "--why", "--json", "--thread", "one", "--agent", "clerk"))

    assert [explanation["run_id"] for explanation in explanations] == [first]
    assert "there is no agent or workflow 'unknown' and no run of one" in terminal.complains(
        "runs", "--why", "--agent", "unknown"
    )


def test_an_answer_says_that_workers_are_starting(terminal: Terminal, tmp_path: Path) -> None:
    run_id, _ = terminal.waiting()
    lock_content = {"pid": os.getpid(), "address": "http://127.0.0.1:8000", "workers": 2}
    (tmp_path / "state" / "up.lock").write_bytes(orjson.dumps(lock_content))

    complaint = terminal.complains("approve", run_id, "--decision", "run_again", status=0)

    sentence = "the run waits for one, unless the process that executed it is alive"
    assert f"workers are starting (0 of 2): {sentence}.\n" in complaint


# --- questions with a form ------------------------------------------------------------------------


def answered(run_id: str) -> Any:
    """Return what was filled in, or the arguments with what was filled in."""
    with opened() as runner:
        return filled_in(runner.journal.database, run_id)


def test_a_question_with_a_form_lists_its_fields(terminal: Terminal) -> None:
    run_id, _ = terminal.waiting(question_form())

    output = terminal.says("approve", run_id, status=2)

    assert "Where should the parcel go?" in output
    assert "Street and number [street] (text)" in output
    assert "floor: 0 is the ground floor. (a whole number, optional)" in output
    assert "extras (any of ribbon, card, bag, optional)" in output
    assert f"./callboard approve {run_id}  (or with --decision answer or reject)" in output


def test_a_form_is_filled_in_as_json(terminal: Terminal) -> None:
    run_id, _ = terminal.waiting(question_form())

    output = terminal.says("approve", run_id, "--answer", '{"street": "Main St 7", "speed": "fast", "is_gift": true}')

    assert "decided: answer." in output
    assert answered(run_id) == {"street": "Main St 7", "speed": "fast", "is_gift": True}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--answer", "Main St 7"), "JSON"),
        (("--answer", "[1]"), "JSON object"),
        (("--answer", "{}"), "answer_refused"),
        (("--decision", "answer"), "answer_refused"),
        (("--decision", "reject", "--answer", "{}"), "--decision answer"),
    ],
)
def test_an_answer_that_does_not_fit_is_said(terminal: Terminal, words: tuple[str, ...], problem: str) -> None:
    run_id, _ = terminal.waiting(question_form())

    assert problem in terminal.complains("approve", run_id, *words)

    assert terminal.status(run_id) == "waiting"


def test_missing_arguments_are_shown_beside_those_of_the_call(terminal: Terminal) -> None:
    run_id, _ = terminal.waiting(question_missing())

    assert "order: 7" in terminal.says("approve", run_id, status=2)
    terminal.says("approve", run_id, "--answer", '{"amount": 2.5}')

    assert answered(run_id) == {"order": 7, "amount": 2.5}


def test_at_a_terminal_each_field_is_asked_for_until_all_fit(
    terminal: Terminal, at_terminal: Callable[..., Any]
) -> None:
    run_id, _ = terminal.waiting(question_form())
    lines = ["1", "Main St 7", "99", "2", "yes", "card, 1", "", "7", "", "", ""]

    status, _, screen_text = at_terminal(run_id, lines="".join(f"{line}\n" for line in lines))

    assert "This does not fit: floor: 99 is greater than the maximum of 80." in screen_text
    assert status == 0
    expected = {"street": "Main St 7", "floor": 7, "speed": "fast", "is_gift": True, "extras": ["card", "ribbon"]}
    assert answered(run_id) == expected


# --- approvals that hold for later calls ----------------------------------------------------------


def test_an_approval_for_later_calls_is_given_listed_and_ended(terminal: Terminal) -> None:
    run_id, _ = terminal.waiting(question_before(scopes=("thread",), scope_s=1800))
    assert "for up to 30 minutes: --scope thread." in terminal.says("approve", run_id, status=2)

    terminal.says("approve", run_id, "--decision", "approve", "--scope", "thread", "--for", "10m")
    listed = terminal.says("approve", "--list-sticky")
    sticky_id = listed.split()[0]
    ended = terminal.says("approve", "--revoke", sticky_id)

    assert "\trefund_order\tclerk\ttalk\tlocal\tterminal\t20" in listed
    assert "ended" in ended
    assert "ended" in terminal.says("approve", "--list-sticky")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--decision", "reject", "--scope", "thread"), "--decision approve only"),
        (("--decision", "approve", "--for", "10m"), "--scope only"),
        (("--decision", "approve", "--scope", "ever"), "ever"),
        (("--decision", "approve", "--scope", "thread", "--for", "long"), "not a duration"),
        (("--decision", "approve", "--scope", "thread", "--for", "31m"), "scope_refused"),
        (("--revoke", "stk_none"), "sticky_unknown"),
    ],
)
def test_a_scope_that_is_not_offered_is_said(terminal: Terminal, words: tuple[str, ...], problem: str) -> None:
    run_id, _ = terminal.waiting(question_before(scopes=("thread",), scope_s=1800))

    assert problem in terminal.complains("approve", run_id, *words)

    assert terminal.status(run_id) == "waiting"


# --- several calls at once ------------------------------------------------------------------------

MAIL = {"to": "ann@b.example", "body": "Dear Ann,\nit is paid back."}


def three_calls(terminal: Terminal) -> tuple[str, list[str]]:
    """Return a run that asks about two refunds and a mail, and the ids of its questions."""
    calls = ({"arguments": {"order": 7}}, {"name": "send_mail", "arguments": MAIL}, {"arguments": {"order": 8}})
    return terminal.waiting(*(question_before(**fields) for fields in calls))


def answers(run_id: str) -> list[tuple[str, str | None]]:
    """Return each answer that the run has not used yet: the decision and its message."""
    with opened() as runner, runner.journal.database.read() as connection:
        records = approvals.answers(connection, run_id).values()
    return [(record.decision.decision, record.decision.message) for record in records if record.decision]


def test_the_inbox_groups_the_calls_of_a_run_and_a_tool(terminal: Terminal) -> None:
    run_id, ids = three_calls(terminal)

    output = terminal.says("approve")

    assert output.count(f"{run_id}  clerk") == 1
    assert [line.split()[0] for line in output.splitlines() if " asks: " in line].index("send_mail") != 1
    for approval_id in ids:
        assert f"./callboard approve {run_id} {approval_id}  (or with" in output
    assert f"all 3 calls together: ./callboard approve {run_id} --all\n" in output
    assert f"2 of refund_order together: ./callboard approve {run_id} --all --tool refund_order\n" in output


def test_all_calls_are_shown_whole_and_asked_about_once(terminal: Terminal, at_terminal: Callable[..., Any]) -> None:
    run_id, _ = three_calls(terminal)

    status, output, screen_text = at_terminal(run_id, "--all", "--message", "seen", lines="yes\n1\n")

    assert status == 0
    for text in ("order: 7", "order: 8", "to: ann@b.example", "body: Dear Ann,\n          it is paid back."):
        assert text in screen_text.split("Approve these 3 calls?")[0]
    assert "Not one of the decisions: approve, reject." in screen_text
    assert output.count("decided: approve") == 3
    assert f"{run_id} continues" in output
    assert answers(run_id) == [("approve", "seen")] * 3


def test_the_calls_of_one_tool_are_rejected_and_the_others_stay_open(
    terminal: Terminal, at_terminal: Callable[..., Any]
) -> None:
    run_id, (_, mail, _) = three_calls(terminal)

    status, output, screen_text = at_terminal(run_id, "--all", "--tool", "refund_order", lines="reject\n")

    assert status == 0
    assert "Approve these 2 calls?" in screen_text
    assert "send_mail" not in screen_text
    assert f"has 1 more open: ./callboard approve {run_id}" in output
    assert [load["approval_id"] for load in orjson.loads(terminal.says("approve", run_id, "--json"))] == [mail]


def test_enter_decides_about_none_of_several(terminal: Terminal, at_terminal: Callable[..., Any]) -> None:
    run_id, ids = three_calls(terminal)

    assert at_terminal(run_id, *ids[:2], lines="\n")[0] == 1

    assert len(orjson.loads(terminal.says("approve", run_id, "--json"))) == 3


def test_without_a_terminal_several_calls_are_shown_with_the_command_that_names_them(terminal: Terminal) -> None:
    run_id, ids = three_calls(terminal)

    output = terminal.says("approve", run_id, "--all", status=2)

    assert "order: 8" in output
    assert f"./callboard approve {run_id} {' '.join(ids)}  (with --decision approve or reject)" in output
    assert [load["approval_id"] for load in orjson.loads(terminal.says("approve", run_id, "--all", "--json"))] == ids
    assert terminal.status(run_id) == "waiting"


def test_each_of_several_that_are_named_counts_or_is_refused_for_itself(terminal: Terminal) -> None:
    run_id, ids = three_calls(terminal)
    terminal.says("approve", run_id, ids[0], "--decision", "reject")

    assert terminal.type("approve", run_id, *ids, ids[1], "--decision", "approve", "--json") == 1
    printed = [orjson.loads(line) for line in terminal.out().splitlines()]

    assert [entry["approval_id"] for entry in printed] == ids
    assert [entry.get("code", entry["decision"]) for entry in printed] == ["approval_decided", "approve", "approve"]
    assert answers(run_id) == [("reject", None), ("approve", None), ("approve", None)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--all", "--decision", "approve"), "--all shows the calls and asks once"),
        (("--all", "--decision", "fail"), "not decided by 'fail'"),
        (("--all", "--arguments", "{}"), "--arguments is about one call"),
        (("--all", "--scope", "thread"), "--scope is about one call"),
        (("--all", "apr_one"), "--all needs a RUN"),
        (("--tool", "send_mail"), "--tool goes with --all only"),
        (("--all", "--tool", "unknown"), "no open call of unknown to approve"),
        (("apr_one", "apr_two"), "asks nothing with the id 'apr_one'"),
    ],
)
def test_what_cannot_be_meant_about_several_calls_decides_nothing(
    terminal: Terminal, words: tuple[str, ...], message: str
) -> None:
    run_id, _ = three_calls(terminal)

    assert message in terminal.complains("approve", run_id, *words)

    assert len(orjson.loads(terminal.says("approve", run_id, "--json"))) == 3


def test_what_is_no_call_is_not_decided_about_with_others(terminal: Terminal) -> None:
    run_id, ids = terminal.waiting(question(), question_before())

    assert "answer it by itself" in terminal.complains("approve", run_id, *ids, "--decision", "approve")
    output = terminal.says("approve", run_id, "--all", status=2)

    assert ids[0] not in output
    assert ids[1] in output
    assert "--all needs a RUN" in terminal.complains("approve", "--all")
