"""The demo model with real tools: what it does for the sentences it knows, and how it talks."""

import pytest

from agents.models.call import ModelCall
from agents.models.demo.answer import answer
from agents.models.demo.saying import NOTE
from agents.prompt import offered
from agents.tools.catalogue import find_tool
from config.settings import read_settings
from tests.agents.models.demo.talk import Talk

ALL = ("calculator", "clock", "list_files", "read_file", "write_file", "query_countries", "order_supplies")


@pytest.fixture
def talk(tmp_path):
    return Talk(tmp_path, ALL)


@pytest.mark.parametrize(
    ("sentence", "expression", "result"),
    [
        ("What is 17 * 23?", "17 * 23", "391"),
        ("2+2", "2+2", "4"),
        ("what is 15% of 240?", "15% of 240", "36"),
        ("Calculate the square root of 1764", "sqrt(1764)", "42"),
        ("what is 1,200 plus 34 times two", "1200 + 34 * 2", "1268"),
        ("How much is 2 to the power of 10?", "2 ** 10", "1024"),
        ("hello, what is 2 + 2?", "2 + 2", "4"),
        ("What is (3 + 4) * 5 - 2?", "(3 + 4) * 5 - 2", "33"),
        ("seven times eight", "7 * 8", "56"),
        ("12 x 12", "12 * 12", "144"),
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
        ("what time is it in Tokyo", ["Tokyo"]),
        ("What time is it in Tokyo, Lima and New York?", ["Tokyo", "Lima", "New York"]),
        ("What is the date today?", [None]),
        ("time is it in Berlin right now?", ["Berlin"]),
    ],
)
def test_asks_the_clock(talk, sentence, zones):
    text = talk.say(sentence)

    assert [arguments.get("timezone") for _, arguments in talk.calls] == zones
    assert text.count("it is **") + text.count("It is **") == len(zones)


def test_asks_for_several_things_at_once(talk):
    text = talk.say("What is 17*23 and what time is it in Lima?")

    assert talk.rounds == [["calculator", "clock"]]
    assert "391" in text
    assert "In Lima it is" in text
    assert "all of them at once" in talk.reasoning


def test_goes_on_from_the_last_number(talk):
    talk.say("What is 17 * 23?")
    text = talk.say("and now divide that by 17")

    assert talk.calls == [("calculator", {"expression": "391 / 17"})]
    assert "**23**" in text


def test_keeps_files(talk):
    assert "empty" in talk.say("list my files")
    assert "5 bytes" in talk.say("write hello to notes.txt")
    assert "hello" in talk.say("read notes.txt")
    assert "`notes.txt`, 5 bytes" in talk.say("Which files do I have?")


def test_writes_before_it_reads(talk):
    text = talk.say("Write bread and butter to shopping.txt, then read it")

    assert talk.rounds == [["write_file"], ["read_file"]]
    assert talk.calls[0][1]["text"] == "bread and butter"
    assert "bread and butter" in text


def test_calculates_before_it_writes(talk):
    talk.say("Put the result of 12 * 12 in calc.txt and read calc.txt")

    assert talk.rounds == [["calculator"], ["write_file"], ["read_file"]]
    assert talk.calls[1][1] == {"path": "calc.txt", "text": "144"}


def test_saves_its_own_answer(talk):
    talk.say("What is 17 * 23?")
    talk.say("save that to result.txt")

    assert talk.calls == [("write_file", {"path": "result.txt", "text": "17 * 23 = 391"})]


def test_a_refused_path_is_told(talk):
    text = talk.say("read ../../etc/passwd")

    assert talk.calls == [("read_file", {"path": "../../etc/passwd"})]
    assert "leads out of the sandbox" in text


@pytest.mark.parametrize(
    ("sentence", "part"),
    [
        ("which five countries have the largest population", "Pakistan"),
        ("Which country in Europe has the most neighbours?", "**Russia**, with 14 neighbours"),
        ("Which countries border Germany and France?", "Luxembourg"),
        ("What is the capital of Peru?", "The capital of Peru is **Lima**"),
        ("is Canberra the capital of Australia?", "**Canberra**"),
        ("Compare Norway, Sweden and Finland", "Helsinki"),
        ("how many countries are there in Africa?", "**54** countries"),
        ("population by continent", "Oceania"),
        ("which countries are most densely populated?", "Monaco"),
        ("What are the three smallest countries in South America by area?", "Suriname"),
        ("How many people live in Brazil?", "212,000,000"),
        ("What is the population density of the Netherlands?", "438.1"),
        ("how big is the USA?", "9,525,067"),
        ("neighbours of Côte d'Ivoire", "Liberia"),
        ("select name from countries where population < 1000", "Vatican City"),
    ],
)
def test_answers_about_countries(talk, sentence, part):
    text = talk.say(sentence)

    assert [name for name, _ in talk.calls] == ["query_countries"]
    assert part in text
    assert "did not work out" not in text


def test_orders_supplies(talk):
    text = talk.say("Order two boxes of coffee and 5 of pens")

    assert talk.calls == [
        ("order_supplies", {"item": "coffee", "boxes": 2}),
        ("order_supplies", {"item": "pens", "boxes": 5}),
    ]
    assert "€26.40" in text


def test_says_plainly_that_a_refused_order_was_not_placed(talk, monkeypatch):
    monkeypatch.setattr(talk, "_result", lambda *_: "Refused: this tool needs a person's approval for each call.")

    text = talk.say("Order 3 boxes of paper")

    assert "Nothing was ordered" in text
    assert "Ordered:" not in text


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


def test_thanks_are_answered(talk):
    talk.say("What is 2 + 2?")

    assert "welcome" in talk.say("thanks!")


def test_echoes(talk):
    talk.say("hi")

    assert talk.say("say good night, moon") == "good night, moon"


@pytest.mark.parametrize("words", [1, 7, 200, 5000])
def test_writes_as_many_words_as_it_was_told(talk, words):
    assert len(talk.say(f"write {words} words").split()) == words


def test_thinks_longer_when_told(talk):
    talk.say("what is 2 + 2?")
    short = talk.reasoning
    talk.say("think hard: what is 2 + 2?")

    assert len(talk.reasoning) > 5 * len(short)
    assert talk.calls == [("calculator", {"expression": "2 + 2"})]


def test_calls_nothing_when_tools_may_not_be_used():
    assert not answer(asked([{"role": "user", "content": "What is 2 + 2?"}], tool_choice="none")).calls


def asked(messages, **more):
    """Return a call with the tools that ship, as a provider is told of them."""
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
    given = answer(asked(messages))

    assert given.text or given.calls
