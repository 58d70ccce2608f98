"""A tool: a function, what the model is told about it, and what calling it does to the world."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])


class Effect(StrEnum):
    """What calling a tool once more would do."""

    PURE = "pure"
    """Nothing: it only reads or computes."""
    IDEMPOTENT = "idempotent"
    """Nothing more than calling it once."""
    KEYED = "keyed"
    """Nothing, if the same idempotency key is sent."""
    CHECKABLE = "checkable"
    """Something, but the tool can say whether it happened: ``check(key)``."""
    UNSAFE = "unsafe"
    """Something, and nobody can tell. The default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A function the model may call, with its schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema 2020-12 of the arguments, an object."""
    function: Callable[..., Any]
    effect: Effect = Effect.UNSAFE
    timeout_s: float | None = None
    """Seconds a call may take; None takes the agent's ``timeouts.tool_s``."""
    confirm: bool = False
    """Whether a person has to agree to each call."""
    check: Callable[[str], Any] | None = None
    """For ``checkable``: takes the idempotency key, returns the result if the call happened, else None."""

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolContext:
    """The call a tool is in; ``current_call()`` returns it inside the tool."""

    run_id: str
    thread_id: str
    call_id: str
    idempotency_key: str
    """Stable across retries of this step; send it along where the other side can use it."""
    tenant: str
    principal: str
    sandbox: Path
    """The folder of this agent's files, shared by its runs; it exists."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What to add to an HTTP request so that the other side does it once: the ``Idempotency-Key``."""
        return {"Idempotency-Key": self.idempotency_key}


_current: ContextVar[ToolContext | None] = ContextVar("callboard_tool_call", default=None)


def current_call() -> ToolContext:
    """Return the call the running tool is in.

    Raises:
        LookupError: no tool is being called.
    """
    context = _current.get()
    if context is None:
        raise LookupError("current_call() works inside a tool that an agent called.")
    return context


def enter_call(context: ToolContext) -> None:
    """Make ``context`` the current call of this task or thread."""
    _current.set(context)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolMarks:
    """What ``@tool`` wrote on a function, until the schema is built."""

    name: str | None
    effect: Effect
    timeout_s: float | None
    confirm: bool
    check: Callable[[str], Any] | None


MARKS = "__callboard_tool__"


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    effect: Effect | str = Effect.UNSAFE,
    timeout_s: float | None = None,
    confirm: bool = False,
    check: Callable[[str], Any] | None = None,
) -> Callable[[F], F]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    effect: Effect | str = Effect.UNSAFE,
    timeout_s: float | None = None,
    confirm: bool = False,
    check: Callable[[str], Any] | None = None,
) -> Any:
    """Mark a function as a tool; it stays an ordinary function.

    Args:
        function: the function, when used without parentheses.
        name: what the model calls it; the function's name by default.
        effect: what calling it once more would do; ``unsafe`` unless said otherwise.
        timeout_s: seconds a call may take.
        confirm: whether a person has to agree to each call.
        check: for ``checkable`` tools, see ``Tool.check``.
    """
    marks = ToolMarks(name=name, effect=Effect(effect), timeout_s=timeout_s, confirm=confirm, check=check)

    def mark(target: Callable[..., Any]) -> Callable[..., Any]:
        setattr(target, MARKS, marks)
        return target

    return mark if function is None else mark(function)
