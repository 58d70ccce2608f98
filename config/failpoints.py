"""Failpoints: named places where a test or the crash lab can make this process die, stop, sleep or raise.

Enabled by the environment, as ``FAILPOINTS="commit=kill@3;tool=sleep:2"``: a place, an action, and the pass at which it
happens (from 1; without a number at every pass). An unused failpoint costs one dict lookup.

Places: ``accept``, ``claim`` and ``commit`` (after the transaction), ``accept-before``, ``claim-before`` and
``commit-before`` (inside it, before the commit), ``tool`` and ``tool-after`` (around a tool's function), ``publish``
(a wake-up was published), ``unowned`` (a run was written to without an owner), ``summary-before`` and ``summary`` (a
summary of a thread is kept: inside the transaction, and after it).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from config.errors import SettingInvalid

VARIABLE = "FAILPOINTS"
PLACES = tuple(
    """
    accept-before accept claim-before claim commit-before commit tool tool-after publish unowned
    summary-before summary
    """.split()
)


class FailpointHit(RuntimeError):
    """Raised by the action ``raise``."""


@dataclass(slots=True)
class _Point:
    act: Callable[[], None]
    at: int | None
    passes: Iterator[int] = field(default_factory=lambda: count(1))

    def hit(self) -> None:
        if self.at in (None, next(self.passes)):
            self.act()


def failpoint(name: str) -> None:
    """Perform the action that is set for this place, if any."""
    point = _points.get(name)
    if point is not None:
        point.hit()


def set_failpoints(text: str) -> None:
    """Replace the failpoints of the environment by those of ``text``.

    Raises:
        SettingInvalid: it cannot be parsed, or names an unknown place, which would silently kill nothing.
    """
    points = dict(_parse(part) for part in text.split(";") if part.strip())
    _points.clear()
    _points.update(points)


def watch_failpoints(seen: Callable[[str], None]) -> None:
    """Call ``seen`` with each place this process passes, on the thread that passes it; no other action happens."""
    _points.clear()
    _points.update({name: _Point(partial(seen, name), None) for name in PLACES})


def _parse(part: str) -> tuple[str, _Point]:
    name, _, what = part.strip().partition("=")
    action, has_number, at = what.partition("@")
    verb, _, seconds = action.partition(":")
    acts: dict[str, Callable[[], None]] = {
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "exit": lambda: os._exit(1),
        "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
        "sleep": lambda: time.sleep(float(seconds or 1)),
        "raise": lambda: _raise(name),
    }
    is_pass = not has_number or (at.isdecimal() and int(at) > 0)
    is_readable = verb in acts and is_pass and _is_duration(seconds)
    if name not in PLACES or not is_readable:
        raise SettingInvalid(
            f"{VARIABLE}: '{part[:80]}' is not PLACE=kill|exit|stop|sleep:SECONDS|raise, with @N for the Nth pass. "
            f"Places are {', '.join(PLACES)}."
        )
    return name, _Point(acts[verb], int(at) if at else None)


def _is_duration(seconds: str) -> bool:
    try:
        return not seconds or 0 <= float(seconds) < float("inf")
    except ValueError:
        return False


def _raise(name: str) -> None:
    raise FailpointHit(f"failpoint {name}")


_points: dict[str, _Point] = {}
if os.environ.get(VARIABLE):
    try:
        set_failpoints(os.environ[VARIABLE])
    except SettingInvalid as error:  # at import, no caller could report it
        raise SystemExit(f"error: {error} [{error.code}]") from None
