"""The one retry layer: how often, and how long between."""

from __future__ import annotations

import pytest

from agents.models.errors import MODEL_REFUSED, MODEL_TIMEOUT, ModelFailed
from agents.models.retry import may_retry, retry_delay_s


def test_only_what_may_pass_is_tried_again_and_at_most_three_times() -> None:
    failed, late, refused = ModelFailed("x"), MODEL_TIMEOUT("x"), MODEL_REFUSED("x")

    assert [may_retry(attempt, failed) for attempt in (1, 2, 3)] == [True, True, False]
    assert may_retry(1, late)
    assert not may_retry(1, refused)


def test_the_wait_starts_at_half_a_second_doubles_and_varies_by_half_up_to_the_cap() -> None:
    error = ModelFailed("x")

    assert [retry_delay_s(attempt, error, lambda: 0.0) for attempt in (1, 2, 3, 20)] == [0.5, 1.0, 2.0, 60.0]
    assert [retry_delay_s(attempt, error, lambda: 1.0) for attempt in (1, 2, 3, 20)] == [0.75, 1.5, 3.0, 60.0]


@pytest.mark.parametrize(("retry_after_s", "least", "most"), [(7.0, 7.0, 7.7), (0.0, 0.0, 0.0), (3600.0, 60.0, 60.0)])
def test_what_the_provider_asks_for_is_kept_within_a_tenth_and_the_cap(
    retry_after_s: float, least: float, most: float
) -> None:
    error = ModelFailed("x", retry_after_s=retry_after_s)

    assert retry_delay_s(1, error, lambda: 0.0) == pytest.approx(least)
    assert retry_delay_s(1, error, lambda: 1.0) == pytest.approx(most)
