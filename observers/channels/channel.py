"""The seam between a platform and what all platforms have in common: what one has to do, and what it says.

Ids are the platform's own, as text. A ``place`` is where messages are: a channel, a thread or a conversation of two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonMessage:
    """A message that a person wrote to the bot."""

    message_id: str
    place: str
    author_id: str
    author_name: str
    text: str
    """Without the mention of the bot."""
    attachments: Sequence[str] = ()
    """The names of the files. No file is fetched."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Button:
    """An answer that a press gives."""

    label: str
    token: str
    """What a press carries back."""
    style: Literal["good", "bad", "plain"] = "plain"


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerField:
    """A field of a form."""

    name: str
    label: str
    options: Sequence[str] = ()
    """What can be chosen; none: text is written."""
    required: bool = True
    default: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """What a person fills in."""

    title: str
    token: str
    fields: Sequence[AnswerField]


@dataclass(frozen=True, kw_only=True, slots=True)
class Press:
    """A button that a person pressed, or a form that a person filled in."""

    user_id: str
    token: str
    values: Mapping[str, str] | None = None
    """Of a form: the text of each field."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PostDelivery:
    """What became of a message that was to be sent or edited."""

    state: Literal["done", "gone", "later"]
    """``gone``: the place or the message does not exist, or is closed to the bot. ``later``: nothing was changed."""
    message_id: str = ""
    wait_s: float = 0.0
    """With ``later``: for how long the platform wants nothing in this place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelLimits:
    """What a platform takes."""

    max_chars: int
    """Of one message, in UTF-16 units."""
    edit_interval_s: float = 1.0
    """Between two edits in one place."""
    burst: int = 5
    """Messages and edits of one place that it takes in a window."""
    window_s: float = 5.2
    """The window, with what two clocks and a network may differ in."""
    reserve: int = 1
    """Of the burst, how many are kept for ends of answers and for questions."""
    form_fields: int = 5
    """Fields of the longest form."""
    can_edit: bool = True
    """Whether a message that was sent can be replaced; else an answer is one message, sent when the run has ended."""
    has_buttons: bool = True
    """Whether persons press buttons; else each question is a message to each person who may answer it, with a link."""
    answers_strangers: bool = True
    """Whether a stranger that is refused gets a sentence."""


def place_of_person(place: str, person_id: str) -> str:
    """Return where one person alone reads what belongs to a place; only for platforms without buttons."""
    return f"{place} {person_id}"


class Channel(Protocol):
    """One platform. Nothing that it sends mentions a person, and no link in it is hidden behind a text."""

    name: str
    """As in ``config/channels.yaml``, in threads' ids and in correlation ids."""
    limits: ChannelLimits

    @property
    def account(self) -> str:
        """The id of the bot, which keeps the threads of two bots apart; known once the platform was reached."""

    async def send(
        self, place: str, text: str, *, reply_to: str, key: str, buttons: Sequence[Button] = ()
    ) -> PostDelivery:
        """Post a message; the same ``key`` soon after the first time gets the first one's message."""

    async def edit(self, place: str, message_id: str, text: str, buttons: Sequence[Button] = ()) -> PostDelivery:
        """Replace a message of the bot, with its buttons. A wait that the platform asks for is returned, not waited."""

    async def fetch(self, place: str, message_id: str) -> PersonMessage | None:
        """Return a person's message again; None where it is gone."""

    async def replies(self, place: str, message_id: str) -> list[str]:
        """Return the bot's messages that reply to one, the oldest first."""

    async def finish(self, place: str, message_id: str) -> None:
        """Close a message of the bot that will not change any more, where the platform knows that state."""
