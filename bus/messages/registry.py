"""The registry: which messages there are, by their names on the wire.

Every module of this folder is read, so that another message needs no entry here.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType

import bus.messages
from bus.messages.message import BusMessage


@cache
def messages() -> Mapping[str, type[BusMessage]]:
    """Return the class of each message by its name on the wire."""
    modules = pkgutil.iter_modules(bus.messages.__path__, "bus.messages.")
    kinds = [kind for module in modules for kind in _messages_in(importlib.import_module(module.name))]
    return {kind.name: kind for kind in kinds}


def _messages_in(module: ModuleType) -> Iterator[type[BusMessage]]:
    """Yield the messages that a module defines."""
    for value in vars(module).values():
        is_message = isinstance(value, type) and issubclass(value, BusMessage) and value is not BusMessage
        if is_message and value.__module__ == module.__name__:
            yield value
