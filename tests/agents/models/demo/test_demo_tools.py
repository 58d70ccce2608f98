"""Tools the demo model does not know: it finds those that change nothing, and calls the others only when asked to."""

import json
import random
import re

import pytest

from agents.models.call import ModelCall
from agents.models.demo.reader import answer
from agents.prompt import offered
from agents.tools.schema import build_tool
from agents.tools.tool import tool
from config.effects import Effect


@tool(effect="pure")
def lookup_order(number: int, since: str | None = None) -> str:
    """Say where an order is.

    Args:
        number: the order's number, as it stands on the invoice.
        since: leave out what happened before this day.
    """
    return ""


@tool(effect="keyed")
def refund(order: int, cents: int) -> str:
    """Pay money back."""
    return ""


@tool
def refund_order(number: int, cents: int) -> str:
    """Pay the money of an order back."""
    return ""


@tool
def refund_cents(cents: int) -> str:
    """Pay back the last order."""
    return ""


@tool(effect="pure")
def find_book(words: str) -> str:
    """Say on which shelf a book stands.

    Args:
        words: the book's title, or a sentence with the title in it.
    """
    return ""


@tool(effect="checkable", check=lambda key: None)
def book(room: str) -> str:
    """Book a room."""
    return ""


@tool
def send_note(text: str, to: str) -> str:
    """Send a note to a person."""
    return ""


@tool
def ring_bell() -> str:
    """Ring the bell."""
    return ""


@tool(effect="pure")
def exchange(amount: float, rate: float) -> str:
    """Convert an amount at an exchange rate."""
    return ""


@tool(effect="pure")
def stock(sku: str) -> str:
    """Say how many of an article are there."""
    return ""


@tool(effect="pure")
def hello(name: str) -> str:
    """Greet a person."""
    return ""


@tool(effect="pure")
def list_articles(limit: int = 10) -> str:
    """List the articles."""
    return ""


@tool
def tag(number: int, labels: list[str]) -> str:
    """Label an order."""
    return ""


FUNCTIONS = (lookup_order, refund, refund_order, refund_cents, find_book, book, send_note, ring_bell, exchange)


def said_to(sentence, *functions, starters=()):
    """Return the demo model's answer to a sentence said to an agent with these tools."""
    tools = [build_tool(function) for function in functions]
    call = ModelCall(
        model="demo/instant",
        messages=[{"role": "user", "content": sentence}],
        tools=offered({built.name: built for built in tools}),
        effects={built.name: built.effect for built in tools},
        starters=starters,
    )
    return answer(call)


def calls_of(sentence, *functions):
    return [(each.name, json.loads(each.text)) for each in said_to(sentence, *functions).calls]


@pytest.mark.parametrize(
    ("sentence", "function", "arguments"),
    [
        ("Where is order 1042?", lookup_order, {"number": 1042}),
        ("look up order 42", lookup_order, {"number": 42}),
        ("What has become of my order 7, please?", lookup_order, {"number": 7}),
        ("Find book Emma", find_book, {"words": "Find book Emma"}),
        ("On which shelf does the book Emma stand?", find_book, {"words": "On which shelf does the book Emma stand?"}),
        ("exchange an amount of 20 at a rate of 1.1", exchange, {"amount": 20, "rate": 1.1}),
        ("refund: order 1043, cents 250", refund, {"order": 1043, "cents": 250}),
        ("please refund: order #1043, cents=250.", refund, {"order": 1043, "cents": 250}),
        ("Refund order: cents 250, number 7", refund_order, {"number": 7, "cents": 250}),
        ("Book: room Garden", book, {"room": "Garden"}),
        ('Book: room "for tomorrow"', book, {"room": "for tomorrow"}),
        ('Send a note: to Emma, text "see you, at ten"', send_note, {"text": "see you, at ten", "to": "Emma"}),
        ("ring the bell", ring_bell, {}),
        ("stock: sku mug", stock, {"sku": "mug"}),
        ("Stock: sku blue mug", stock, {"sku": "blue mug"}),
        ("stock: mug.", stock, {"sku": "mug"}),
        ("lookup_order: number 7, since 2026-11-20", lookup_order, {"number": 7, "since": "2026-11-20"}),
        ("exchange: 20, 1.1", exchange, {"amount": 20, "rate": 1.1}),
        ("Hello: name Ada", hello, {"name": "Ada"}),
        ("list articles", list_articles, {}),
        ("list articles: limit 3", list_articles, {"limit": 3}),
        ('tag: number 7, labels ["late", "paid"]', tag, {"number": 7, "labels": ["late", "paid"]}),
    ],
)
def test_calls_what_a_sentence_asks_for(sentence, function, arguments):
    assert calls_of(sentence, function) == [(function.__name__, arguments)]


@pytest.mark.parametrize(
    ("sentence", "function"),
    [
        ("Refund order 1043", refund),
        ("Refund order 1043", refund_order),
        ("Refund order 1043", refund_cents),
        ("refund 1043", refund),
        ("refund order 1043 250", refund),
        ("refund order 1043, cents 250", refund),
        ("refund 250 cents of order 1043", refund),
        ("refund order 1043 cents", refund),
        ("refund order 5 cents 200", refund),
        ("refund order 1043, cents 1,200", refund),
        ("refund order 1043, cents 2.5", refund),
        ("refund order 1043 or order 1044, 250 cents", refund),
        ("refund order 1043 with 20 euros", refund),
        ("Don't refund order 1043, cents 250", refund),
        ("refund order 1043, cents 250 if it is late", refund),
        ("refund order 1043, cents 250 tomorrow", refund),
        ("refund order 1043, cents 250?", refund),
        ("What happens if I refund order 1043, cents 250?", refund),
        ("Should I refund 250 cents of order 1043?", refund),
        ("I never refund 250 cents of order 1043", refund),
        ("Where is order 1043? It cost 250 cents", refund),
        ("refund order 1043 is 250 cents", refund),
        ("refund is by order 1043 with cents 250", refund),
        ("you refund 250 cents of order 1043", refund),
        ("can refund 250 cents of order 1043", refund),
        ("ring bell is", ring_bell),
        ("ring is bell", ring_bell),
        ("ring the bell: is this", ring_bell),
        ("you ring the bell", ring_bell),
        ("and you ring the bell", ring_bell),
        ("hi, you can ring the bell", ring_bell),
        ("could, you ring the bell", ring_bell),
        ("refund: order 1043, cents 1,200", refund),
        ("refund: order 1043, cents 2.5", refund),
        ("refund: order 1043, cents 250 tomorrow", refund),
        ("refund: order 1043, cents 250, if it is late", refund),
        ("refund: order 1043, order 1044, cents 250", refund),
        ("Don't refund: order 1043, cents 250", refund),
        ("ring bell: now", ring_bell),
        ("Book a room for tomorrow", book),
        ("Book: room for tomorrow", book),
        ("Book", book),
        ("I like the book about a room", book),
        ("send a note to Emma", send_note),
        ("send note see you at ten", send_note),
        ("Send note to Emma, text: see you, at ten", send_note),
        ("do not ring the bell", ring_bell),
        ("who may ring the bell?", ring_bell),
        ("Hello", hello),
        ("stock: sku", stock),
        ("tag: number 7, labels [late]", tag),
    ],
)
def test_never_guesses_an_effect(sentence, function):
    assert calls_of(sentence, function) == []


@pytest.mark.parametrize(
    ("sentence", "function", "words"),
    [
        ("Refund order 1043", refund, ["Nothing was done", "Refund: order 1043, cents …"]),
        ("refund: order 1043, cents 250 if it is late", refund, ["Nothing was done", "Refund: order 1043, cents …"]),
        ("Where is my order? Look it up", lookup_order, ["Nothing was done", "Lookup order: number …"]),
    ],
)
def test_asks_for_what_is_missing(sentence, function, words):
    text = said_to(sentence, function).text

    assert all(word in text for word in words), text


def test_what_it_asks_for_works_when_it_is_said():
    nonsense = [(f"{build_tool(function).name} nonsense", function) for function in (refund_order, book, send_note)]
    for sentence, function in [
        *nonsense,
        *(("hello", each) for each in (refund, lookup_order, stock, exchange, hello)),
    ]:
        text = said_to(sentence, function).text
        offered_line = text.split("\n- ")[1].splitlines()[0]

        calls = calls_of(offered_line.replace("…", "5"), function)
        assert [name for name, _ in calls] == [function.__name__], text
        assert {str(value) for value in calls[0][1].values()} == {"5"}, text


def test_a_refused_command_calls_nothing_else_either():
    assert calls_of("Refund order 1043", refund, lookup_order) == []


def test_offers_sentences_for_the_tools_of_this_agent():
    text = said_to("tell me a joke", lookup_order, refund, starters=["Where is order 1042?"]).text

    assert "- Where is order 1042?" in text
    assert "- Lookup order: number …" in text
    assert "- Refund: order …, cents …" in text
    assert "17 * 23" not in text


def test_a_shipped_tools_rule_is_not_used_for_another_tool_of_its_name():
    @tool
    def write_file(path: str, owner: str) -> str:
        """Write a file."""
        return ""

    @tool(name="clock")
    def stop_clock(timezone: str) -> str:
        """Stop the clock."""
        return ""

    assert calls_of("Write hello to notes.txt", write_file) == []
    assert calls_of("What time is it in Lima?", stop_clock) == []


# --- for any tool and any sentence

NAMES = ["refund", "ship", "cancel_booking", "send_mail", "pay", "set", "order_food", "close"]
ARGUMENTS = [
    "order",
    "cents",
    "number",
    "order_id",
    "amount",
    "to",
    "text",
    "date",
    "carrier",
    "urgent",
    "booking",
    "id",
]
WORDS = {"type": "string"}
KINDS = [
    {"type": "integer"},
    {"type": "number"},
    WORDS,
    WORDS | {"format": "date"},
    WORDS | {"enum": ["bike", "post", "5"]},
    {"type": "boolean"},
    {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    {"type": "array", "items": WORDS},
]
PIECES = [
    *"7 1043 2.5 1,200 -3 12:30 2026-12-03 a@b.example Emma bike post tomorrow".split(),
    *"yes no not if please the of with and don't , : = # ? .".split(),
    '"hello you"',
]


def some_tool(draw, name):
    arguments = draw.sample(ARGUMENTS, draw.randint(0, 4))
    parameters = {
        "type": "object",
        "properties": {argument: draw.choice(KINDS) for argument in arguments},
        "required": [argument for argument in arguments if draw.random() < 0.8],
    }
    return {"type": "function", "function": {"name": name, "description": "Does it.", "parameters": parameters}}


def some_sentence(draw, tools):
    named = draw.choice(tools)["function"]
    arguments = [*named["parameters"]["properties"]]
    stated = draw.sample(arguments, draw.choice([len(arguments), draw.randint(0, len(arguments))]))
    parts = [
        f"{argument} {draw.choice(PIECES[:14])}" if draw.random() < 0.9 else draw.choice(PIECES) for argument in stated
    ]
    words = f"{named['name'].replace('_', ' ')}: {', '.join(parts)}".split(" ")
    for _ in range(draw.choice([0, 0, 0, 1])):
        words.insert(draw.randint(0, len(words)), draw.choice([*PIECES, *ARGUMENTS]))
    return " ".join(words)


@pytest.mark.parity
def test_each_argument_of_a_call_with_effects_stands_in_the_sentence_and_no_word_is_two_arguments():
    draw, called = random.Random(7), 0
    for _ in range(4000):
        tools = [some_tool(draw, name) for name in draw.sample(NAMES, draw.randint(1, 3))]
        sentence = some_sentence(draw, tools)
        effect = {item["function"]["name"]: draw.choice([e for e in Effect if e is not Effect.PURE]) for item in tools}
        turn = answer(
            ModelCall(
                model="demo/instant", messages=[{"role": "user", "content": sentence}], tools=tools, effects=effect
            )
        )
        for each in turn.calls:
            called += 1
            required = next(t for t in tools if t["function"]["name"] == each.name)["function"]["parameters"][
                "required"
            ]
            arguments = json.loads(each.text)
            assert set(required) <= set(arguments), sentence
            assert_plainly_said(sentence, list(arguments.values()))

    assert called > 300


def assert_plainly_said(sentence, values):
    """Fail where a value is not a word of the sentence, or where two values are the same word."""
    rest = sentence
    for value in sorted((shown(value) for value in values), key=len, reverse=True):
        match = re.search(rf"(?<![\w.,-]){re.escape(value)}(?![\w%-]|[.,]\d)", rest)
        assert match, f"{value!r} is not said in {sentence!r}"
        rest = rest[: match.start()] + "\0" + rest[match.end() :]
    assert not re.search(r"(?i)\b(?:not|if|tomorrow|don't)\b", rest), f"{sentence!r} is no plain command"


def shown(value):
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
