"""The decorator that makes a function a tool; the function stays an ordinary one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from callboard_client.tools.effect import Effect

MARK = "__callboard_client_tool__"
"""The attribute of a function with what ``@tool`` says of it."""
F = TypeVar("F", bound=Callable[..., Any])


class ToolUnusable(ValueError):
    """A function cannot be a tool, or a module has none; the message says what to change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """What ``@tool`` says of a function."""

    name: str | None = None
    """What the model calls it; None takes the function's name."""
    effect: Effect = Effect.UNSAFE
    timeout_s: float | None = None
    """Seconds a call may take; None sets no limit."""


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *, effect: Effect | str = Effect.UNSAFE, name: str | None = None, timeout_s: float | None = None
) -> Callable[[F], F]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: Effect | str = Effect.UNSAFE,
    name: str | None = None,
    timeout_s: float | None = None,
) -> Any:
    """Mark a function as a tool.

    Args:
        function: the function, when used without parentheses.
        effect: what repeating a call would do: ``pure``, ``idempotent``, ``keyed`` or ``unsafe``, which is the default.
        name: what the model calls it; the function's name by default.
        timeout_s: seconds a call may take.

    Raises:
        ToolUnusable: there is no such effect, or the time is none.
    """
    mark = Mark(name=name, effect=_effect(effect), timeout_s=timeout_s)
    if timeout_s is not None and not timeout_s > 0:
        raise ToolUnusable(f"timeout_s is {timeout_s}; write the seconds that a call may take, more than 0.")

    def mark_it(target: Callable[..., Any]) -> Callable[..., Any]:
        setattr(target, MARK, mark)
        return target

    return mark_it if function is None else mark_it(function)


def _effect(effect: str) -> Effect:
    if effect == "checkable":
        raise ToolUnusable(
            "effect 'checkable' needs a check, which MCP has no message for; write 'keyed' where the function "
            "passes its idempotency_key() to a service that knows such keys, else 'unsafe'."
        )
    if effect not in Effect.__members__.values():
        raise ToolUnusable(f"there is no effect '{effect}'; write one of {', '.join(map(repr, map(str, Effect)))}.")
    return Effect(effect)
