"""Functions of LiteLLM and its SDK that are replaced in this process, since they take long on the loop."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Awaitable, Callable
from functools import reduce, wraps
from typing import Any, NamedTuple

from agents.models.http.provider_call import in_provider_call
from config.redaction import redact

log = logging.getLogger(__name__)

Transform = Callable[[object, object], Awaitable[Any]]


def without_plain_messages(transform: Transform) -> Transform:
    """Return the SDK's ``async_maybe_transform`` so that it leaves what is plain JSON unchanged.

    ``AsyncCompletions.create`` matches every message against six types, recursively, to rename fields and format dates,
    and every other parameter against its own. Plain JSON is unchanged by that, at 140 µs a message and 200 µs a
    request. See docs/decisions/0003-litellm-opens-we-read.md.
    """
    from openai._utils import is_given

    @wraps(transform)
    async def quick(data: object, expected_type: object) -> Any:
        messages = data.get("messages") if isinstance(data, dict) else None
        if not isinstance(data, dict) or not _are_plain(messages):
            return await transform(data, expected_type)
        others = {name: value for name, value in data.items() if name != "messages" and is_given(value)}
        if _are_plain([others]):
            return {name: value for name, value in data.items() if is_given(value)}
        sent = await transform({**data, "messages": []}, expected_type)  # the field keeps its place
        sent["messages"] = messages
        return sent

    return quick


def _are_plain(value: object) -> bool:
    """Return whether ``value`` is a list of JSON data, which the transformation would return unchanged."""
    if type(value) is not list:
        return False
    waiting: list[object] = [value]
    while waiting:
        part = waiting.pop()
        if type(part) is dict:
            waiting.extend(part.values())
        elif type(part) is list:
            waiting.extend(part)
        elif part is not None and type(part) not in (str, int, float, bool):
            return False
    return True


def _unpriced(price: Callable[..., float | None]) -> Callable[..., float | None]:
    """Return LiteLLM's calculation of a price without that of a provider's call, whose stream has no usage yet.

    It takes 1 ms on the loop; ``agents.models.cost`` prices the usage. Calls that users' tools make are still priced.
    """

    @wraps(price)
    def quick(self: Any, *args: Any, **kwargs: Any) -> float | None:
        return None if in_provider_call() else price(self, *args, **kwargs)

    return quick


class _Replacement(NamedTuple):
    """A function of LiteLLM or its SDK that is replaced in this process."""

    module: str
    name: str
    """Of the function in its module, with a dot where it is a method."""
    make: Callable[[Any], Any]
    """Returns what replaces the function."""
    warning: str
    """Logged where a release has no such function."""


_REPLACED = (
    _Replacement(
        module="litellm.litellm_core_utils.secret_redaction",
        name="python_redact_string",
        make=lambda _: redact,  # its own takes 12 s for 16 KiB of PEM headers
        warning="this release of LiteLLM redacts errors itself; a provider's long error may stop the loop",
    ),
    _Replacement(
        module="litellm.litellm_core_utils.litellm_logging",
        name="Logging.response_cost_calculator",
        make=_unpriced,
        warning="this release of LiteLLM prices each stream that opens; each model call takes longer",
    ),
    _Replacement(
        module="openai.resources.chat.completions.completions",
        name="async_maybe_transform",
        make=without_plain_messages,
        warning="this release of the OpenAI SDK transforms each message; long conversations take longer",
    ),
)
_ours: list[Any] = []
"""The functions that replace them in this process."""


def replace_functions() -> None:
    """Replace the slow functions of LiteLLM and its SDK; a release without one is used as it is, with a warning."""
    for replaced in _REPLACED:
        *owner, name = replaced.name.split(".")
        try:
            holder = reduce(getattr, owner, importlib.import_module(replaced.module))
            function = getattr(holder, name)
            if function not in _ours:  # LiteLLM's set-up failed after this, and is tried again
                _ours.append(replaced.make(function))
                setattr(holder, name, _ours[-1])
        except (ImportError, AttributeError):
            log.warning(replaced.warning)
