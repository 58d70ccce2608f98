"""How many examples random tests play: few by default and the same ones each time; ``--long N`` plays N times as many.

With ``--long`` the examples differ from run to run; a failure prints how to play it again.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

EXAMPLES = 20
"""Of one property test."""
_factor = 0
"""0: the short, derandomised profile."""


def add_option(parser: pytest.Parser) -> None:
    """`--long` is an option of pytest afterwards."""
    parser.addoption(
        "--long",
        type=int,
        nargs="?",
        const=50,
        default=0,
        metavar="N",
        help="play N times as many random examples and schedules, other ones each time (N: 50)",
    )


def use_profile(factor: int) -> None:
    """Property tests play the short profile, or the long one where ``factor`` is above 0."""
    global _factor
    _factor = factor
    settings.register_profile("callboard", profile(EXAMPLES))
    settings.load_profile("callboard")


def examples(count: int) -> int:
    """Return ``count``, times what was asked for."""
    return count * max(1, _factor)


def is_long() -> bool:
    """Return whether more was asked for."""
    return _factor > 0


def profile(count: int, **more: Any) -> settings:
    """Return hypothesis settings for ``count`` examples in the short profile.

    The short profile does not shrink what fails: that takes minutes; play the failure with ``--long 1`` for it.
    """
    phases = tuple(Phase) if is_long() else (Phase.explicit, Phase.generate)
    return settings(
        max_examples=examples(count),
        derandomize=not is_long(),
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        phases=phases,
        **more,
    )
