"""Messages as they are to be, and how they become so: one change at a time in each place, at the platform's pace.

A ``Post`` says what its messages have to show; what they show is brought there whenever the place's pace allows it. A
text that changed meanwhile is sent in its newest form alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from observers.channels.channel import Button, Channel, ChannelLimits, PostDelivery
from observers.channels.texts import parts_of, shown

log = logging.getLogger(__name__)

MAX_PLACES, QUIET_S = 500, 600.0
"""Beyond so many places those are forgotten that were quiet for so many seconds."""
Shown = tuple[str, tuple[Button, ...]]
"""What a message shows: its text and its buttons."""


class Pace:
    """How much of what a place takes is left. A part of it is kept for what is urgent."""

    def __init__(self, limits: ChannelLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._times: deque[float] = deque(maxlen=limits.burst)
        self._edit_from = self._any_from = 0.0

    def wait_s(self, *, is_edit: bool, is_urgent: bool) -> float:
        """Return in how many seconds a message may be sent or edited; 0: now."""
        now = self._clock()
        allowed = self._limits.burst - (0 if is_urgent else self._limits.reserve)
        free_at = self._times[-allowed] + self._limits.window_s if len(self._times) >= allowed else now
        return max(0.0, free_at - now, self._any_from - now, self._edit_from - now if is_edit else 0.0)

    def spent(self, *, is_edit: bool) -> None:
        """Count a change that the platform has just had, so that the next one comes a whole interval behind it."""
        now = self._clock()
        self._times.append(now)
        if is_edit:
            self._edit_from = now + self._limits.edit_interval_s

    def hold(self, seconds: float) -> None:
        """Let nothing out for so long: the platform asked for it."""
        self._any_from = max(self._any_from, self._clock() + seconds)


class Post:
    """One or several messages in one place, which show one text."""

    def __init__(
        self,
        place: str,
        *,
        reply_to: str,
        key: str,
        posted: Sequence[str] = (),
        keep: Callable[[Sequence[str]], object],
    ) -> None:
        """``posted``: the messages that are there. ``keep`` is called with all of them after each new one."""
        self.place, self._reply_to, self._key, self._keep = place, reply_to, key, keep
        self._messages = list(posted)
        self._shows: list[Shown | None] = [None for _ in posted]  # of an earlier process: not known
        self._text: Callable[[], str] = str
        self._buttons: tuple[Button, ...] = ()
        self.is_urgent = False
        self.is_changed = False
        self.is_gone = False
        self._is_complete = asyncio.Event()

    def show(self, text: Callable[[], str], buttons: Sequence[Button] = (), *, is_urgent: bool = False) -> None:
        """Show what ``text`` returns whenever there is room for it."""
        self._text, self._buttons = text, tuple(buttons)
        self.is_urgent = self.is_urgent or is_urgent
        self.is_changed = True
        self._is_complete.clear()

    async def complete(self) -> None:
        """Return once the messages show what they have to, or cannot."""
        await self._is_complete.wait()

    def next_change(self, limits: ChannelLimits) -> tuple[int, Shown] | None:
        """Return which message has to be changed next, or is missing, and what it has to show; None: all do."""
        parts = parts_of(shown(self._text()), limits.max_chars) or ["…"]
        parts += ["-# …"] * (len(self._messages) - len(parts))  # a part that is not needed any more
        for index, part in enumerate(parts):
            goal = (part, self._buttons if index == len(parts) - 1 else ())
            if index == len(self._messages) or (limits.can_edit and self._shows[index] != goal):
                return index, goal
        self.settle()
        return None

    def settle(self) -> None:
        """Wait for the next ``show``."""
        self.is_changed = self.is_urgent = False
        self._is_complete.set()

    async def change(self, channel: Channel, index: int, goal: Shown) -> PostDelivery:
        """Make one change at the platform, and keep it."""
        text, buttons = goal
        if index < len(self._messages):
            delivery = await channel.edit(self.place, self._messages[index], text, buttons)
        else:
            key = f"{self._key}-{index}"
            delivery = await channel.send(self.place, text, reply_to=self._reply_to, key=key, buttons=buttons)
            if delivery.state == "done":
                self._messages.append(delivery.message_id)
                self._shows.append(None)
                self._keep(self._messages)
        if delivery.state == "done":
            self._shows[index] = goal
        elif delivery.state == "gone":
            self.is_gone = True
            self.settle()
        return delivery

    def is_edited_by(self, index: int) -> bool:
        """Return whether a change of this message is an edit; else it is sent."""
        return index < len(self._messages)


class Tasks:
    """What a channel does beside receiving; a task that fails is logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work`` on the loop."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the answer to a message failed", exc_info=error)

    async def close(self) -> None:
        """End all that is being done."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Outlets:
    """Brings the posts of all places to the platform; each place has its own pace and one change at a time."""

    def __init__(self, channel: Channel, tasks: Tasks) -> None:
        self._channel, self._tasks = channel, tasks
        self._places: dict[str, _Outlet] = {}

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what has to be done before a post can be shown."""
        self._tasks.start(work)

    def update(self, post: Post) -> None:
        """Bring to the platform what ``post`` has to show now."""
        if post.is_gone:
            post.settle()
            return
        outlet = self._places.get(post.place)
        if outlet is None:
            self._forget()
            outlet = self._places[post.place] = _Outlet(self._channel)
        if outlet.add(post):
            self._tasks.start(outlet.write())

    def _forget(self) -> None:
        """Forget places that were quiet for long; where each conversation is a place, there are always new ones."""
        if len(self._places) >= MAX_PLACES:
            self._places = {name: outlet for name, outlet in self._places.items() if not outlet.is_quiet}


class _Outlet:
    """The posts of one place that have changed."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._pace = Pace(channel.limits)
        self._posts: list[Post] = []
        self._news = asyncio.Event()
        self._is_writing = False
        self._changed_s = time.monotonic()

    @property
    def is_quiet(self) -> bool:
        """Whether it has nothing to write, and had nothing for longer than its pace looks back."""
        return not self._is_writing and time.monotonic() - self._changed_s > QUIET_S

    def add(self, post: Post) -> bool:
        """Take a post, and return whether ``write`` has to be started."""
        if post not in self._posts:
            self._posts.append(post)
            self._news.set()
        elif post.is_urgent:
            self._news.set()  # any other change of its text is read when there is room for it
        is_idle, self._is_writing = not self._is_writing, True
        return is_idle

    async def write(self) -> None:
        """Make changes until no post has any: the urgent ones first, then those that wait longest."""
        try:
            while self._posts:
                self._news.clear()
                await self._write_one(min(self._posts, key=lambda post: not post.is_urgent))
        finally:
            self._is_writing, self._changed_s = False, time.monotonic()

    async def _write_one(self, post: Post) -> None:
        change = post.next_change(self._channel.limits)
        if change is None:
            self._posts.remove(post)
            return
        is_edit = post.is_edited_by(change[0])
        wait_s = self._pace.wait_s(is_edit=is_edit, is_urgent=post.is_urgent)
        if wait_s > 0:
            await self._news_within(wait_s)  # what comes meanwhile may be more urgent, or newer
            return
        delivery = await post.change(self._channel, *change)
        self._pace.spent(is_edit=is_edit)
        if delivery.state == "later":
            self._pace.hold(delivery.wait_s)
        if delivery.state == "gone":
            log.warning("a place or a message of a channel is gone", extra={"place": post.place})
        self._posts.remove(post)  # behind those that wait
        if delivery.state != "gone":
            self._posts.append(post)

    async def _news_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
