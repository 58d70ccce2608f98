"""What of a conversation the model is shown: the newest that fits, cut where a conversation can begin."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from agents.prompt import LEFT_OUT, LOST_RESULT, STEADY_PART, Window, messages_for
from agents.testing import AgentKit, Call, Turn
from bus.journal.owner import HistoryItem, Past
from config.definitions.agent import AgentDefinition

BOUND = 4000
PADDING = 60


def item(role: str, number: int, chars: int = PADDING, **data: object) -> HistoryItem:
    """Return a message; the numbers of a conversation's messages differ."""
    return HistoryItem(id=f"msg_{number}", role=role, data={"content": "x" * chars, **data})


def answer(number: int, calls: int = 0, chars: int = PADDING) -> list[HistoryItem]:
    """Return an answer with so many calls, and their results."""
    entries = [
        {"call_id": f"call_{number}_{k}", "name": "tool", "arguments": {}, "arguments_text": "{}"} for k in range(calls)
    ]
    data = {"name": "tool", "outcome": "done", "result": "r" * chars}
    results = [
        HistoryItem(id=f"msg_{number}_{k}", role="tool", data={"call_id": f"call_{number}_{k}", **data})
        for k in range(calls)
    ]
    return [item("assistant", number, chars, **({"tool_calls": entries} if calls else {})), *results]


def conversation(dice: random.Random, turns: int, longest: int = 400) -> list[HistoryItem]:
    """Return a conversation of answers, parallel calls, failures, and runs that never answered."""
    history: list[HistoryItem] = []
    for _ in range(turns):
        history.append(item("user", len(history), dice.randint(1, longest)))
        for _ in range(dice.choice((0, 1, 1, 2, 9))):
            history += answer(len(history), dice.choice((0, 0, 1, 3)), dice.randint(1, longest))
        if dice.random() < 0.2:
            history.append(item("error", len(history)))
    return history


def window_of(items: Sequence[HistoryItem], bound: int = BOUND) -> Window:
    return Window(Past(items=items), bound)


def grown(items: Sequence[HistoryItem], bound: int = BOUND) -> Window:
    window = Window(Past(items=()), bound)
    for each in items:
        window.add(each)
    return window


def chars(items: Sequence[HistoryItem]) -> int:
    return sum(each.chars for each in items)


def sentence_of(items: Sequence[HistoryItem], at: int) -> HistoryItem:
    """Return the user's message that the message at this place answers."""
    return next(each for each in reversed(items[: at + 1]) if each.role == "user")


def test_a_short_conversation_is_shown_whole():
    items = conversation(random.Random(1), 3, 20)

    window = window_of(items, 100_000)

    assert list(window.items) == items
    assert not window.is_cut


def test_the_newest_messages_that_fit_are_shown():
    items = [each for number in range(0, 200, 2) for each in (item("user", number), item("assistant", number + 1))]

    window = window_of(items)

    assert window.is_cut
    assert items[-len(window.items) :] == list(window.items) or items[-len(window.items) + 1 :] == window.items[1:]
    assert STEADY_PART * BOUND - 2 * chars(items[:1]) < chars(window.items) < BOUND + chars(items[:1])


def test_the_sentence_a_run_answers_stays_when_its_own_steps_fill_the_window():
    question = item("user", 0, chars=200)
    window = window_of([*conversation(random.Random(2), 4, 50), question])

    for number in range(1, 400):
        for each in answer(number, calls=1):
            window.add(each)

    assert window.items[0] == question
    assert window.items[1].role == "assistant"
    assert chars(window.items[1:]) <= BOUND


def test_a_turn_that_is_cut_keeps_its_own_sentence_in_front():
    earlier = [item("user", 0), *(each for number in range(1, 60) for each in answer(number, calls=1))]

    window = window_of([*earlier, item("user", 1000)])

    assert window.items[0] == earlier[0]
    assert window.items[1].role == "assistant"
    assert window.items[-1].id == "msg_1000"


def test_the_newest_answer_with_its_results_is_shown_whole_whatever_its_length():
    huge = answer(2, calls=3, chars=BOUND)

    window = window_of([item("user", 0), item("assistant", 1), *huge])

    assert list(window.items) == [item("user", 0), *huge]
    assert window.is_cut


def test_results_whose_call_was_left_out_are_left_out_too():
    late_results = answer(1, calls=3)[2:]
    past = Past(items=[*late_results, item("user", 5)], is_whole=False, sentence=item("user", 0))

    assert list(Window(past, BOUND).items) == [item("user", 5)]


@pytest.mark.parametrize("seed", range(20))
def test_any_window_is_a_valid_and_bounded_conversation(seed: int):
    dice = random.Random(seed)
    items = conversation(dice, dice.randint(1, 40))

    window = Window(Past(items=()), BOUND)
    for at, each in enumerate(items):
        window.add(each)

        window_items = list(window.items)
        assert window_items[0].role == "user"
        start = at + 2 - len(window_items)  # where what follows the first message begins
        assert window_items[1:] == items[start : at + 1]
        assert window_items[0] in (items[max(start - 1, 0)], sentence_of(items, min(start, at)))
        assert sentence_of(items, at) in window_items
        assert window.is_cut == (chars(items[: at + 1]) > BOUND)
        newest = max(index for index, old in enumerate(items[: at + 1]) if old.role in ("user", "assistant"))
        assert chars(window_items[1:]) <= max(BOUND, chars(items[newest : at + 1]))
        assert all(old in window_items for old in items[newest : at + 1])


@pytest.mark.parametrize("seed", range(20))
def test_calls_and_their_results_are_never_parted(seed: int):
    dice = random.Random(seed)
    items = conversation(dice, 30)

    for at in [at for at, each in enumerate(items) if each.role == "user"]:
        window_items = window_of(items[: at + 1]).items
        called = {call["call_id"] for each in window_items for call in each.data.get("tool_calls", ())}
        answered = {each.data["call_id"] for each in window_items if each.role == "tool"}
        assert called == answered


@pytest.mark.parametrize("seed", range(20))
def test_where_it_begins_depends_on_the_conversation_alone(seed: int):
    """A new run and a new owner find the window that the last one had, and the provider its cache."""
    items = conversation(random.Random(seed), 60)
    sizes = [each.chars for each in items]
    window = Window(Past(items=()), BOUND)

    for at, each in enumerate(items):
        window.add(each)
        read = items[max(0, at - 100) : at + 1]  # more than a window, from wherever
        assert sum(sizes[max(0, at - 100) : at + 1]) > BOUND or read == items[: at + 1]
        first = at + 1 - len(read)
        sentence = None if read[0].role == "user" else sentence_of(items, first)
        past = Past(items=read, is_whole=not first, sentence=sentence)
        assert Window(past, BOUND).items == window.items


def test_its_beginning_stays_for_many_steps():
    window = window_of([item("user", 0)])
    beginnings: list[str] = []

    for number in range(1, 2000):
        for each in answer(number, calls=1, chars=1):
            window.add(each)
        beginnings.append(window.items[1].id)

    a_step = sum(each.chars for each in answer(1000, calls=1, chars=1))
    moves = len(set(beginnings))
    assert moves < 2000 * a_step / (BOUND * (1 - STEADY_PART) / 4)
    assert [*dict.fromkeys(beginnings)] == sorted(set(beginnings), key=lambda name: int(name.removeprefix("msg_")))


def test_what_was_left_out_is_forgotten():
    window = window_of([item("user", 0)])

    for number in range(1, 10_000):
        window.add(item("assistant", number))

    assert len(window.items) < BOUND / PADDING + 2


def test_the_model_is_informed_when_something_was_left_out(tmp_path):
    definition = AgentDefinition(
        id="a", digest="d", content_json="{}", file="f", name="A", model="demo/assistant", system_prompt="Be brief.\n"
    )
    items = answer(3, calls=2)[:2]

    whole, cut = (messages_for(definition, items, is_cut=is_cut, max_result_chars=64_000) for is_cut in (False, True))

    assert whole[0] == {"role": "system", "content": "Be brief."}
    assert cut[0] == {"role": "system", "content": f"Be brief.\n\n{LEFT_OUT}"}
    assert whole[1:] == cut[1:]
    assert whole[-1]["content"] == LOST_RESULT


@pytest.mark.parametrize("result", ["é" * 5_000_000, [{"row": number} for number in range(100_000)], "x" * 64_001])
def test_the_model_is_shown_the_beginning_of_a_long_result_with_a_note(result):
    definition = AgentDefinition(
        id="a", digest="d", content_json="{}", file="f", name="A", model="demo/assistant", system_prompt="Be brief."
    )
    called, *_ = answer(3, calls=1)
    call_id = called.data["tool_calls"][0]["call_id"]
    item = HistoryItem(id="msg_r", role="tool", data={"call_id": call_id, "name": "look", "result": result})

    excerpt, whole = (
        messages_for(definition, [called, item], is_cut=False, max_result_chars=limit)[-1]["content"]
        for limit in (64_000, 10_000_000)
    )

    assert len(excerpt) < 64_200
    assert excerpt[:64_000] == whole[:64_000]
    assert f"[cut here: 64,000 of {len(whole):,} characters are shown; ask for less" in excerpt


# --- in a run --------------------------------------------------------------------------------------


@pytest.mark.parity
def test_a_run_whose_steps_outgrow_the_window_shows_its_sentence_and_its_last_steps(kit: AgentKit):
    kit.agent(tools=["calculator"], history_chars=1000, max_iterations=30)
    sums = [Call(name="calculator", arguments={"expression": f"{number} + 0"}, id=f"c{number}") for number in range(30)]
    kit.model.script(*(Turn(calls=[call]) for call in sums), Turn(text="All done."))

    played = kit.play("Add them all, please.")

    assert played.end.status == "succeeded"
    sent = [request.messages for request in kit.model.requests]
    assert LEFT_OUT not in sent[0][0]["content"]
    assert LEFT_OUT in sent[-1][0]["content"]
    for number, messages in enumerate(sent):
        assert messages[1] == {"role": "user", "content": "Add them all, please."}
        called = [call["id"] for message in messages for call in message.get("tool_calls", ())]
        answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
        assert called == answered == [f"c{each}" for each in range(number - len(called), number)]
    assert len(sent[-1]) < 20


@pytest.mark.parity
def test_the_next_run_of_a_long_thread_is_shown_its_end(kit: AgentKit):
    kit.agent(history_chars=1000, compaction={"enabled": False})
    kit.model.respond = lambda call: Turn(text=f"Answer to {call.messages[-1]['content']}")
    for number in range(25):
        kit.play(f"Sentence {number}.", thread_id="long")

    sent = kit.model.requests[-1].messages

    assert sent[0]["content"].endswith(LEFT_OUT)
    assert [message["content"] for message in sent[-3:]] == ["Sentence 23.", "Answer to Sentence 23.", "Sentence 24."]
    assert sent[1]["role"] == "user"
    assert 20 < len(sent) <= 36
