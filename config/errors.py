"""The root of all errors, its three families, and the errors that several folders raise.

Each folder has its own in an ``errors.py``. An error is named after what is wrong, with a stable code and a remedy. Who
can act follows from its family (``Retryable``, ``Permanent``, ``ModelVisible``), never from its text. The first
paragraph of a class's docstring says for users what the code means; ``cli.dev.error_catalogue`` collects them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar


class Topic(StrEnum):
    """What an error is about: the section of docs/errors.md that explains it."""

    REQUEST = "Requests"
    CONFIGURATION = "Configuration"
    MACHINE = "The machine"
    RUN = "A run"
    CALL = "Errors that the model gets"


class CallboardError(Exception):
    """The root of Callboard's errors; the text is a sentence with the remedy."""

    code: ClassVar[str] = "callboard_error"
    """Stable across releases; clients and tests compare it."""
    status: ClassVar[int] = 500
    """The HTTP status of the response."""
    over_http: ClassVar[bool] = True
    """Whether a request may be refused with it; False: only the terminal, a log or a run has it."""
    retryable: ClassVar[bool] = False
    """Whether the same request may succeed later, unchanged; its response has ``Retry-After``."""
    topic: ClassVar[Topic] = Topic.REQUEST
    remedy: ClassVar[str]
    """What users do about it, in general and as Markdown for docs/errors.md; the message names the facts."""
    seed_name: ClassVar[str | None] = None
    """The name that one of the designs which Callboard grew from has for it, where there is one."""
    text: ClassVar[str]
    """The message of a class whose errors differ by their facts only; the facts are fields of ``str.format``."""

    public_text: ClassVar[str | None] = None
    """The message for clients, where the error's own names addresses or folders, or repeats another program's words."""

    def __init__(self, message: str | None = None, **facts: Any) -> None:
        super().__init__(self.text.format(**facts) if message is None else message)
        self.facts = facts

    @property
    def public(self) -> str:
        """The message for clients, without paths of this machine and lists of names."""
        return str(self) if self.public_text is None else self.public_text

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled without the subclass's own constructor, whose arguments differ.
        return type(self).__new__, (type(self), *self.args), self.__dict__


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


class RoomTaken(Permanent):
    """Python imports another package under the name of one of our folders."""

    code = "room_taken"
    status = 500
    topic = Topic.CONFIGURATION
    remedy = (
        "Start through `./callboard`, or uninstall the package; a project with a folder of that name uses HTTP "
        "([from Python](python.md#folders-of-the-same-name))."
    )
    public_text = "Python imports another package in place of a part of this server; its log names the package."


class StateDirExposed(Permanent):
    """Other users can open the folder and it was no state folder before, or one of its files is a symbolic link.

    A link could redirect writes.
    """

    code = "state_dir_exposed"
    status = 500
    topic = Topic.MACHINE
    remedy = "`chmod 700` it, remove the link, or use another `--state-dir`."
    public_text = "the server's state folder is open to other users of its machine; the server's log names the remedy."


# --- errors that tools raise to choose the message for the model; users' tools import them from here ----------


class ToolFailed(ModelVisible):
    """The tool raised."""

    code = "tool_failed"
    remedy = "The model reads the message; the tool's author chooses it ([tools](tools.md))."


class ToolCutOff(ModelVisible):
    """The tool's connection broke after its request may have arrived."""

    code = "tool_cut_off"
    remedy = "The effect class of the tool decides whether it is called again ([tools](tools.md))."
