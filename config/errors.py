"""The root of all errors, its three families, and the errors that several folders raise.

Each folder has its own in an ``errors.py``. An error is named after what is wrong, with a stable code and a remedy. Who
can act follows from its family (``Retryable``, ``Permanent``, ``ModelVisible``), never from its text.
"""

from __future__ import annotations

from typing import Any, ClassVar


class CallboardError(Exception):
    """The root of Callboard's errors; the text is a sentence with the remedy."""

    code: ClassVar[str] = "callboard_error"
    """Stable across releases; clients and tests compare it."""
    status: ClassVar[int] = 500
    """The HTTP status of the response."""
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


class Permanent(CallboardError):
    """A retry fails until a person changes something."""

    status = 400


class ModelVisible(CallboardError):
    """The model gets the message as the call's result, so that it can adapt."""


class BadRequest(Permanent):
    code = "bad_request"


class SettingInvalid(Permanent):
    code = "setting_invalid"
    public_text = "a setting of this server cannot be used; its log names the setting."


class RoomTaken(Permanent):
    """Another package has the name of one of Callboard's folders."""

    code = "room_taken"
    status = 500
    public_text = "Python imports another package in place of a part of this server; its log names the package."


class StateDirExposed(Permanent):
    """Other users of this machine could read the state folder's files, or redirect writes by a link."""

    code = "state_dir_exposed"
    status = 500
    public_text = "the server's state folder is open to other users of its machine; the server's log names the remedy."


# --- errors that tools raise to choose the message for the model; users' tools import them from here ----------


class ToolFailed(ModelVisible):
    code = "tool_failed"


class ToolCutOff(ModelVisible):
    """The tool's connection broke after the request may have taken effect."""

    code = "tool_cut_off"
