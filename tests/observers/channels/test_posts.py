"""The pace of a place, and posts that reach what they are to show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from observers.channels.channel import Button, ChannelLimits, PersonMessage, PostDelivery
from observers.channels.posts import Outlets, Pace, Post, Tasks

LIMITS = ChannelLimits(max_chars=100, edit_interval_s=0.02, window_s=0.1)


@dataclass
class MemoryChannel:
    """A platform in memory, which answers each change as a test wants it."""

    name: str = "memory"
    limits: ChannelLimits = LIMITS
    account: str = "bot"
    answers: list[PostDelivery] = field(default_factory=list)
    """Of the next changes; without one a change is done."""
    changes: list[tuple[str, str, tuple[Button, ...]]] = field(default_factory=list)
    """The id of each message that was changed, with what it shows."""
    keys: list[str] = field(default_factory=list)
    at_change: Callable[[], None] = lambda: None

    async def send(
        self, place: str, text: str, *, reply_to: str, key: str, buttons: Sequence[Button] = ()
    ) -> PostDelivery:
        self.keys.append(key)
        return await self.edit(place, f"m{len(self.keys)}", text, buttons)

    async def edit(self, place: str, message_id: str, text: str, buttons: Sequence[Button] = ()) -> PostDelivery:
        self.changes.append((message_id, text, tuple(buttons)))
        self.at_change()
        await asyncio.sleep(0)
        return self.answers.pop(0) if self.answers else PostDelivery(state="done", message_id=message_id)

    async def fetch(self, place: str, message_id: str) -> PersonMessage | None:
        return None

    async def replies(self, place: str, message_id: str) -> list[str]:
        return []

    async def finish(self, place: str, message_id: str) -> None:
        return None


def run(channel: MemoryChannel, use: Callable[[Outlets, Callable[..., Post]], Coroutine[Any, Any, None]]) -> None:
    """Run ``use`` with outlets and with what makes posts."""

    def post(key: str = "k", posted: Sequence[str] = ()) -> Post:
        return Post("place", reply_to="0", key=key, posted=posted, keep=lambda ids: None)

    async def main() -> None:
        tasks = Tasks()
        await use(Outlets(channel, tasks), post)
        await tasks.close()

    asyncio.run(main())


def test_a_pace_keeps_edits_apart_and_a_part_for_what_is_urgent() -> None:
    now = [0.0]
    pace = Pace(ChannelLimits(max_chars=1, edit_interval_s=1.0, burst=5, window_s=5.0, reserve=1), lambda: now[0])
    for _ in range(4):
        assert pace.wait_s(is_edit=True, is_urgent=False) == 0
        pace.spent(is_edit=True)
        assert pace.wait_s(is_edit=True, is_urgent=True) == 1
        now[0] += 1

    assert pace.wait_s(is_edit=True, is_urgent=False) == 1, "four in five seconds, and one is kept"
    assert pace.wait_s(is_edit=True, is_urgent=True) == 0
    pace.spent(is_edit=False)
    assert pace.wait_s(is_edit=False, is_urgent=True) == 1, "five in five seconds"
    pace.hold(7.5)
    assert pace.wait_s(is_edit=False, is_urgent=True) == 7.5


def test_a_text_that_changes_while_it_waits_is_sent_in_its_newest_form_alone() -> None:
    channel, texts = MemoryChannel(), ["first"]

    async def use(outlets: Outlets, make: Callable[..., Post]) -> None:
        post = make()
        post.show(lambda: texts[-1])
        outlets.update(post)
        await post.complete()
        for number in range(50):
            texts.append(f"text {number}")
            post.show(lambda: texts[-1])
            outlets.update(post)
        await post.complete()

    run(channel, use)

    assert [text for _, text, _ in channel.changes] == ["first", "text 49"]


def test_a_change_that_has_to_wait_is_made_again_and_not_beside_another() -> None:
    channel = MemoryChannel(answers=[PostDelivery(state="later", wait_s=0.01)])

    async def use(outlets: Outlets, make: Callable[..., Post]) -> None:
        post = make()
        post.show(lambda: "text")
        outlets.update(post)
        await post.complete()

    run(channel, use)

    assert [text for _, text, _ in channel.changes] == ["text", "text"]
    assert channel.keys == ["k-0", "k-0"], "the platform posts one message a key"


def test_what_is_urgent_goes_first() -> None:
    channel = MemoryChannel()

    async def use(outlets: Outlets, make: Callable[..., Post]) -> None:
        answers = [make(f"answer{number}") for number in range(3)]
        for answer in answers:
            answer.show(lambda: "Thinking...")
            outlets.update(answer)
        question = make("question")
        question.show(lambda: "May I?", [Button(label="Yes", token="t:approve")], is_urgent=True)
        outlets.update(question)
        await asyncio.gather(*(post.complete() for post in (*answers, question)))

    run(channel, use)

    assert channel.keys == ["question-0", "answer0-0", "answer1-0", "answer2-0"]


def test_a_post_of_an_earlier_process_is_edited_and_parts_too_many_are_emptied() -> None:
    channel = MemoryChannel()

    async def use(outlets: Outlets, make: Callable[..., Post]) -> None:
        post = make(posted=["a", "b", "c"])
        post.show(lambda: "x" * 60 + "\n\n" + "y" * 60)
        outlets.update(post)
        await post.complete()

    run(channel, use)

    assert [(number, text[:3]) for number, text, _ in channel.changes] == [("a", "xxx"), ("b", "yyy"), ("c", "-# ")]


def test_a_place_that_is_gone_ends_its_post_alone() -> None:
    channel = MemoryChannel(answers=[PostDelivery(state="gone")])

    async def use(outlets: Outlets, make: Callable[..., Post]) -> None:
        lost, other = make("lost"), make("other")
        for post in (lost, other, lost):
            post.show(lambda: "text")
            outlets.update(post)
        await asyncio.gather(lost.complete(), other.complete())
        lost.show(lambda: "more")
        outlets.update(lost)
        await lost.complete()

    run(channel, use)

    assert channel.keys == ["lost-0", "other-0"]
