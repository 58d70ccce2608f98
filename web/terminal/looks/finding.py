"""What a look yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from config.settings import Settings

Verdict = Literal["ok", "warn", "fail"]
"""``fail`` where work or keys may be lost, or nothing runs; ``warn`` where it is worse than it has to be."""
Found = Iterator[tuple[Verdict, str]]
Look = Callable[[Settings], Found]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One line of the doctor."""

    about: str
    verdict: Verdict
    text: str
    """What was found; with a remedy where the verdict is not ok."""
