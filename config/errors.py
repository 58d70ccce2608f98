"""The root of all errors, its three families, and the errors that several folders raise.

Each folder has its own in an ``errors.py``: a class for an error that some code catches, a row (``Permanent.row(...)``)
for any other. Both are named after what is wrong, with a stable code and a remedy. Who can act follows from the family
(``Retryable``, ``Permanent``, ``ModelVisible``), never from the text. The first paragraph of a class's docstring, and a
row's ``meaning``, say for users what the code means; ``cli.dev.error_catalogue`` collects them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Generic, NamedTuple, Self, TypeVar

E = TypeVar("E", bound="CallboardError")


class Topic(StrEnum):
    """What an error is about: the section of docs/errors.md that explains it."""

    REQUEST = "Requests"
    CONFIGURATION = "Configuration"
    MACHINE = "The machine"
    RUN = "A run"
    CALL = "Errors that the model gets"


class CallboardError(Exception):
    """The root of Callboard's errors; the text is a sentence with the remedy."""

    code: str = "callboard_error"
    """Stable across releases; clients and tests compare it."""
    status: int = 500
    """The HTTP status of the response."""
    over_http: bool = True
    """Whether a request may be refused with it; False: only the terminal, a log or a run has it."""
    retryable: bool = False
    """Whether the same request may succeed later, unchanged; its response has ``Retry-After``."""
    topic: Topic = Topic.REQUEST
    remedy: str
    """What users do about it, in general and as Markdown for docs/errors.md; the message names the facts."""
    seed_name: str | None = None
    """The name that one of the designs which Callboard grew from has for it, where there is one."""
    text: str
    """The message of a class whose errors differ by their facts only; the facts are fields of ``str.format``."""

    public_text: str | None = None
    """The message for clients, where the error's own names addresses or folders, or repeats another program's words."""

    def __init__(self, message: str | None = None, **facts: Any) -> None:
        super().__init__(self.text.format(**facts) if message is None else message)
        self.facts = facts

    @classmethod
    def row(
        cls,
        code: str,
        meaning: str,
        *,
        remedy: str,
        status: int | None = None,
        text: str = "",
        topic: Topic | None = None,
        over_http: bool | None = None,
        public_text: str | None = None,
        seed_name: str | None = None,
    ) -> ErrorRow[Self]:
        """Return an error of this family that no code catches by a class; the arguments are its attributes."""
        return ErrorRow(
            family=cls,
            code=code,
            meaning=meaning,
            remedy=remedy,
            status=cls.status if status is None else status,
            retryable=cls.retryable,
            text=text,
            topic=cls.topic if topic is None else topic,
            over_http=cls.over_http if over_http is None else over_http,
            public_text=cls.public_text if public_text is None else public_text,
            seed_name=seed_name,
        )

    @property
    def public(self) -> str:
        """The message for clients, without paths of this machine and lists of names."""
        return str(self) if self.public_text is None else self.public_text

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled without the subclass's own constructor, whose arguments differ.
        return type(self).__new__, (type(self), *self.args), self.__dict__


class ErrorRow(NamedTuple, Generic[E]):  # a dataclass would double what this module costs each command
    """An error that no code catches by a class of its own: ``raise NO_STARTERS(agent_id=...)``."""

    family: type[E]
    """The class of what is raised."""
    code: str
    meaning: str
    remedy: str
    status: int
    retryable: bool
    text: str
    topic: Topic
    over_http: bool
    public_text: str | None
    seed_name: str | None

    def __call__(self, message: str | None = None, **facts: Any) -> E:
        """Return an error of the family with the attributes of this row."""
        error = self.family(self.text.format(**facts) if message is None else message, **facts)
        for name in ("code", "status", "topic", "remedy", "over_http", "public_text", "seed_name"):
            setattr(error, name, getattr(self, name))
        return error


ErrorKind = type[CallboardError] | ErrorRow[Any]
"""What has a code: a class, or a row of one."""


class Retryable(CallboardError):
    """A retry may succeed later."""

    status = 503
    retryable = True


class Permanent(CallboardError):
    """A retry fails until a person changes something.

    One that the server's administrator mends has the status 503 and is ``retryable`` for clients, who wait.
    """

    status = 400


class ModelVisible(CallboardError):
    """The model gets the message as the call's result, so that it can adapt."""

    over_http = False
    topic = Topic.CALL


class BadRequest(Permanent):
    """The request cannot be read, or a field has a wrong type."""

    code = "bad_request"
    text = "the request cannot be read; send a plain HTTP request with a JSON body."
    remedy = "The sentence names the field."


class Internal(Permanent):
    """A defect of Callboard; also as a run's reason."""

    code = "internal"
    status = 500
    text = "something went wrong inside the server; its log has the details under the error_id."
    remedy = "`error_id` is in the server's log. Please report it."


class SettingInvalid(Permanent):
    """A setting or flag cannot be used."""

    code = "setting_invalid"
    status = 500
    topic = Topic.CONFIGURATION
    remedy = "The sentence names the variable."
    public_text = "a setting of this server cannot be used; its log names the setting."


ROOM_TAKEN = Permanent.row(
    "room_taken",
    "Python imports another package under the name of one of our folders.",
    status=500,
    topic=Topic.CONFIGURATION,
    public_text="Python imports another package in place of a part of this server; its log names the package.",
    remedy=(
        "Start through `./callboard`, or uninstall the package; a project with a folder of that name uses HTTP "
        "([from Python](python.md#folders-of-the-same-name))."
    ),
)

STATE_DIR_EXPOSED = Permanent.row(
    "state_dir_exposed",
    "Other users can open the folder and it was no state folder before, or one of its files is a symbolic link.",
    status=500,
    topic=Topic.MACHINE,
    public_text="the server's state folder is open to other users of its machine; the server's log names the remedy.",
    remedy="`chmod 700` it, remove the link, or use another `--state-dir`.",
)
"""A link could redirect writes."""


# --- errors that tools raise to choose the message for the model; users' tools import them from here ----------


class ToolFailed(ModelVisible):
    """The tool raised."""

    code = "tool_failed"
    remedy = "The model reads the message; the tool's author chooses it ([tools](tools.md))."


class ToolCutOff(ModelVisible):
    """The tool's connection broke after its request may have arrived."""

    code = "tool_cut_off"
    remedy = "The effect class of the tool decides whether it is called again ([tools](tools.md))."
