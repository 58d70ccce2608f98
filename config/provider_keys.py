"""A process without the providers' keys: the web process accepts runs and calls no model, so it does not hold them.

What `model: auto` means depends on which keys there are, so their names are handed over, and never their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from config.redaction import is_secret

NAMES_HELD = "_CALLBOARD_KEYS_HELD"
"""The variable that holds the names of the keys of the parent, ``,`` between them; this process has none."""
_NEEDED = ("CALLBOARD_", "PG")
"""Beginnings of names a web process needs whatever they hold: its settings, and libpq's."""


def without_keys(environment: Mapping[str, str], named: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment without variables that hold secrets, nor those that definitions name as keys."""
    keys = {name for name, value in environment.items() if is_key(name, value)} | (set(named) & environment.keys())
    held = sorted(name for name in keys if environment[name].strip())
    kept = {name: value for name, value in environment.items() if name not in keys}
    return {**kept, NAMES_HELD: ",".join(held)}


def is_key(name: str, value: str) -> bool:
    """Return whether a variable holds a secret that a web process has no use for."""
    return not name.startswith(_NEEDED) and is_secret(name, value)


def has_key(environment: Mapping[str, str], name: str) -> bool:
    """Return whether workers have this key: it is set here, or its name was handed over."""
    return bool(environment.get(name, "").strip()) or name in environment.get(NAMES_HELD, "").split(",")


def may_adopt(environment: Mapping[str, str], name: str, value: str) -> bool:
    """Return whether a variable of ``.env`` may become one of this process."""
    if NAMES_HELD not in environment:
        return True
    return not is_key(name, value) and name not in environment[NAMES_HELD].split(",")
