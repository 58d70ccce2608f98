"""What a run's events are as text, what the agent gets, and how a form is shown and read."""

from __future__ import annotations

from typing import Any

import pytest

from callboard_client import event_of
from observers.channels.channel import PersonMessage
from observers.channels.conversation import AnswerText, input_of
from observers.channels.questions import fields_of, filled_in
from observers.channels.records import OpenQuestion, Records, Talk


def text_of(*events: dict[str, Any]) -> str:
    answer = AnswerText()
    for seq, event in enumerate(events, 1):
        answer.take(event_of({"seq": seq, **event}))
    return answer.text()


def piece(text: str, message_id: str = "m1") -> dict[str, Any]:
    return {"type": "response", "content": text, "message_id": message_id}


def test_an_unfinished_answer_shows_whole_words_and_what_the_run_does() -> None:
    assert text_of() == "Thinking..."
    assert text_of(piece("Hello ther")) == "Hello"
    assert text_of(piece("Hello there "), {"type": "tool", "call_id": "c", "name": "clock"}) == (
        "Hello there\n-# calling `clock`…"
    )
    assert text_of(piece("Before "), piece("After ", "m2")) == "After"


def test_withdrawn_pieces_are_not_shown() -> None:
    assert text_of(piece("Lost "), piece("too "), {"type": "withdrawn", "ranges": [[1, 2]]}, piece("Kept ")) == "Kept"


@pytest.mark.parametrize(
    ("end", "text"),
    [
        ({"status": "succeeded", "output": "Done."}, "Done."),
        ({"status": "succeeded", "output": " "}, "(The agent's answer is empty.)"),
        ({"status": "succeeded", "output": {"a": 1}}, '```json\n{\n  "a": 1\n}\n```'),
        ({"status": "cancelled"}, "Some words\n\nThe run was stopped."),
        ({"status": "failed", "reason": "error"}, "Some words\n\nThe run failed: no key (`key_missing`)"),
        ({"status": "dead", "reason": "crashed"}, "Some words\n\nThe run failed (`crashed`)."),
    ],
)
def test_each_end_is_shown(end: dict[str, Any], text: str) -> None:
    error = {"type": "error", "code": "key_missing", "message": "no key"}

    assert text_of(piece("Some words"), error, {"type": "end", **end}) == text


def test_names_of_files_are_given_and_a_long_text_is_cut() -> None:
    facts = {"message_id": "1", "place": "2", "author_id": "3", "author_name": "ana"}

    assert input_of(PersonMessage(text=" ", **facts)) == ""
    assert len(input_of(PersonMessage(text="x" * 20_000, **facts))) == 8_000
    named = input_of(PersonMessage(text="Read", attachments=["a.pdf"] * 20, **facts))
    assert named.startswith("Read\n\n(Attached, and not available: a.pdf, a.pdf")
    assert named.count("a.pdf") == 10


def test_a_form_of_plain_fields_is_shown_and_read() -> None:
    schema = {
        "type": "object",
        "properties": {
            "seats": {"type": "integer", "title": "Seats", "default": 2},
            "price": {"type": "number"},
            "window": {"type": "boolean"},
            "class": {"type": "string", "enum": ["1st", "2nd"]},
        },
        "required": ["seats"],
    }

    seats, _, window, _ = fields_of(schema)
    assert (seats.label, seats.required, seats.default) == ("Seats", True, "2")
    assert window.options == ["true", "false"]
    values = {"seats": " 3 ", "price": "1.5", "window": "true", "class": "", "other": "x"}
    assert filled_in(schema, values) == {"seats": 3, "price": 1.5, "window": True}
    with pytest.raises(ValueError, match="Seats: 'many' is not a number"):
        filled_in(schema, {"seats": "many"})


@pytest.mark.parametrize(
    "field",
    [{"type": "array"}, {"type": "object"}, {}, {"enum": [1, 2]}, "text", {"type": "string", "enum": ["x"] * 26}],
)
def test_other_forms_are_for_the_page(field: Any) -> None:
    assert fields_of({"type": "object", "properties": {"name": {"type": "string"}, "odd": field}}) == []


def test_records_forget_old_answers_while_the_process_lives(tmp_path: Any) -> None:
    hour_s, records = 3600, Records(tmp_path / "channels" / "x.db", 1e9)
    old = Talk(message_id="1", place="p", author_id="a")
    records.begin(old, 1e9)
    records.over(old)

    records.begin(Talk(message_id="2", place="p", author_id="a"), 1e9 + 8 * 24 * hour_s)

    assert records.begin(old, 1e9 + 8 * 24 * hour_s), "it was answered more than a week ago"
    records.close()


def test_records_are_there_after_a_restart_and_forget_old_answers(tmp_path: Any) -> None:
    file, day_s = tmp_path / "channels" / "x.db", 24 * 3600
    records, talk = Records(file, 0.0), Talk(message_id="1", place="p", author_id="a")
    assert [records.begin(talk, 1.0), records.begin(talk, 2.0)] == [True, False]
    records.started(talk, "run_1")
    records.posted(talk, ["m1", "m2"])
    question = OpenQuestion(token="t", run_id="run_1", approval_id="q", asker="a", digest="d", form={"type": "object"})
    assert records.ask(question, talk) == question
    again = OpenQuestion(token="u", run_id="run_1", approval_id="q", asker="a", digest="d", form=None)
    assert records.ask(again, talk).token == "t", "a question has one set of buttons"
    records.close()

    records = Records(file, 30 * day_s)
    assert [(each.message_id, each.run_id, each.posted) for each in records.unfinished()] == [
        ("1", "run_1", ["m1", "m2"])
    ]
    records.close_question(question)
    records.over(talk)
    assert list(records.unfinished()) == []
    assert records.open_questions(talk) == []
    assert file.stat().st_mode & 0o077 == 0
    records.close()
    records = Records(file, 30 * day_s)
    assert records.begin(talk, 0.0), "answered long ago"
    assert records.question("t") is None
    records.close()
