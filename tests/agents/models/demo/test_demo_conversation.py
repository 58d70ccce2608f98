"""The demo model with real tools: what it does for the sentences it knows, and how it talks."""

from dataclasses import replace

import pytest

from agents.catalogue import find_tool
from agents.models.call import ModelCall
from agents.models.demo.reader import NOTE, answer
from agents.prompt import offered
from config.settings import read_settings
from config.settings.project import shipped_entries
from tests.agents.models.demo.talk import Talk

ALL = tuple(shipped_entries("callboard.tools"))


@pytest.fixture
def talk(tmp_path):
    return Talk(tmp_path, ALL)


@pytest.mark.parametrize(
    ("sentence", "expression", "result"),
    [
        ("What is 17 * 23?", "17 * 23", "391"),
        ("What is 391 / 17?", "391 / 17", "23"),
        ("What is 3 * 24.90 + 2 * 8.50?", "3 * 24.90 + 2 * 8.50", "91.7"),
        ("hello, what is 2 + 2?", "2 + 2", "4"),
        ("What is (3 + 4) * 5 - 2?", "(3 + 4) * 5 - 2", "33"),
        ("what is 15% of 240?", "15% of 240", "36"),
    ],
)
def test_calculates(talk, sentence, expression, result):
    text = talk.say(sentence)

    assert talk.calls == [("calculator", {"expression": expression})]
    assert f"**{result}**" in text


@pytest.mark.parametrize(
    "sentence",
    [
        "my phone is +43 660 1234567",
        "meet me on 2026-11-20 at 10",
        "open the window",
        "what do you think about love?",
        "...",
    ],
)
def test_calls_nothing_without_a_reason(talk, sentence):
    talk.say(sentence)

    assert talk.calls == []


@pytest.mark.parametrize(
    ("sentence", "zones"),
    [
        ("What time is it in Tokyo and Lima?", ["Tokyo", "Lima"]),
        ("what is 17 * 23, and what time is it in New York?", ["New York"]),
        ("What is the date today?", ["UTC"]),
    ],
)
def test_asks_the_clock(talk, sentence, zones):
    text = talk.say(sentence)

    assert [arguments.get("timezone") for name, arguments in talk.calls if name == "clock"] == zones
    assert text.count("utc_offset: ") == len(zones)


def test_asks_for_several_things_at_once(talk):
    text = talk.say("What is 17*23 and what time is it in Lima?")

    assert talk.rounds == [["calculator", "clock"]]
    assert "391" in text
    assert "America/Lima" in text
    assert talk.reasoning == "This is for calculator: 17*23. This is for clock: Lima. "


def test_keeps_files(talk):
    assert "answered" in talk.say("list my files")
    assert "bytes: 5" in talk.say("write hello to notes.txt")
    assert "hello" in talk.say("read notes.txt")
    assert "| notes.txt | 5 |" in talk.say("Which files do I have?")


def test_writes_before_it_reads(talk):
    text = talk.say("Write buy milk and eggs to shopping.txt, then read it")

    assert talk.rounds == [["write_file"], ["read_file"]]
    assert talk.calls[0][1]["text"] == "buy milk and eggs"
    assert "buy milk and eggs" in text


def test_calculates_before_it_writes(talk):
    talk.say("Put the result of 12.5% of 80 in share.txt and list my files")

    assert talk.rounds == [["calculator"], ["write_file"], ["list_files"]]
    assert talk.calls[1][1] == {"path": "share.txt", "text": "10"}


@pytest.mark.parametrize(
    "sentence",
    [
        "Don't write hello to notes.txt",
        "Write hello to notes.txt if it is late",
        "Should I order 3 boxes of paper?",
        "Order 3 boxes of paper, but only if they are cheap",
        "Order some paper",
    ],
)
def test_changes_nothing_unless_the_sentence_says_just_that(talk, sentence):
    talk.say(sentence)

    assert talk.calls == []


@pytest.mark.parity
@pytest.mark.parametrize(
    ("sentence", "part"),
    [
        ("Which five countries have the largest population?", "Pakistan"),
        ("Which country has the most neighbours?", "China"),
        ("Compare Norway, Sweden and Finland", "Helsinki"),
        ("Compare Norway and Sweden", "Stockholm"),
        ("Population by continent", "Oceania"),
        ("What is the capital of Peru?", "Lima"),
    ],
)
def test_answers_about_countries(talk, sentence, part):
    text = talk.say(sentence)

    assert [name for name, _ in talk.calls] == ["query_countries"]
    assert part in text
    assert "failed" not in text


def test_orders_supplies(talk):
    text = talk.say("Order two boxes of coffee and one of pens")

    assert talk.calls == [
        ("order_supplies", {"item": "coffee", "boxes": 2}),
        ("order_supplies", {"item": "pens", "boxes": 1}),
    ]
    assert "26.4" in text


def test_says_that_an_order_was_refused(talk, monkeypatch):
    monkeypatch.setattr(talk, "result", lambda *_: "Refused: this tool needs a person's approval for each call.")

    text = talk.say("Order 3 boxes of paper")

    assert "**Refused: this tool needs" in text


def test_says_once_that_it_is_no_language_model(talk):
    first, second = talk.say("hello"), talk.say("What is 2 + 2?")

    assert NOTE in first
    assert "not a language model" in NOTE
    assert NOTE not in second


def test_introduces_itself_with_sentences_that_work(tmp_path):
    talk = Talk(tmp_path, ("calculator", "clock"))
    text = talk.say("hello")
    offered = [line[2:] for line in text.splitlines() if line.startswith("- ")]

    assert "Order 3 boxes of paper" not in offered
    for sentence in offered[:2]:
        talk.say(sentence)
        assert talk.calls


def test_names_the_own_tools_before_its_starters_and_the_shipped_ones(tmp_path):
    talk = Talk(tmp_path, ("calculator", "clock", "list_files", "read_file", "write_file"))
    talk.tools |= {f"own_{number}": replace(talk.tools["clock"], name=f"own_{number}") for number in range(9)}
    talk.starters = ["Read notes.txt"]

    lines = talk.say("Hello").splitlines()

    assert lines[2:11] == [f"- Own {number}" for number in range(9)]


def test_a_command_calls_each_tool_that_ships(talk):
    assert "**391**" in talk.say('calculator: expression "17 * 23"')
    assert "bytes: 5" in talk.say("Write file: path notes.txt, text hello")
    assert "hello" in talk.say("read_file: path notes.txt")
    assert "utc_offset" in talk.say("Clock: Lima")


def test_echoes(talk):
    talk.say("hi")

    assert talk.say("say good night, moon") == "good night, moon"


@pytest.mark.parametrize("words", [1, 7, 200])
def test_writes_as_many_words_as_it_was_asked_for(talk, words):
    assert len(talk.say(f"write {words} words").split()) == words


def test_thinks_longer_when_asked(talk):
    talk.say("what is 2 + 2?")
    short = talk.reasoning
    talk.say("think hard: what is 2 + 2?")

    assert len(talk.reasoning) > 3 * len(short)
    assert talk.calls == [("calculator", {"expression": "2 + 2"})]


def test_calls_nothing_when_tools_may_not_be_used():
    assert not answer(asked([{"role": "user", "content": "What is 2 + 2?"}], tool_choice="none")).calls


def asked(messages, **more):
    """Return a call with the tools that ship, as a provider gets them."""
    settings = read_settings()
    return ModelCall(
        model="demo/instant",
        messages=messages,
        tools=offered({name: find_tool(name, settings) for name in ALL}),
        **more,
    )


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "system", "content": "x"}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": [{"type": "text", "text": "What is 2 + 2?"}]}],
        [{"role": "user", "content": "half \ud800"}],
        [{"role": "user", "content": "x" * 200_000}],
        [{"role": "user", "content": "1 + " * 20_000 + "1"}],
        [{"role": "user", "content": "and " * 3_000}],
        [{"role": "user", "content": "read " * 5_000}],
        [{"role": "user", "content": "Aa " * 5_000}],
        [{"role": "user", "content": "write " + "to " * 5_000}],
        [{"role": "tool", "tool_call_id": "x", "content": "{"}],
        [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "unknown", "content": "[1"}],
    ],
    ids=range(13),
)
def test_any_conversation_gets_an_answer(messages):
    turn = answer(asked(messages))

    assert turn.text or turn.calls
