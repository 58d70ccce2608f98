"""Each effect class has its policy and its place in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from config.effects import POLICIES, Changes, Effect, Recovery, recorded_policy


@pytest.mark.parametrize("effect", Effect)
def test_each_effect_has_a_policy_and_a_row_in_the_documents(effect: Effect) -> None:
    rows = re.findall(r"^\|[^|]*`(\w+)`", Path("docs/tools.md").read_text(), re.MULTILINE)

    assert effect in POLICIES
    assert str(effect) in rows


def test_a_riskier_effect_is_further_down() -> None:
    assert Effect.UNSAFE.is_riskier_than(Effect.CHECKABLE)
    assert not Effect.PURE.is_riskier_than(Effect.PURE)


@pytest.mark.parametrize("effect", Effect)
def test_a_call_that_may_be_made_again_by_itself_changes_something_once_at_most(effect: Effect) -> None:
    is_repeated = Recovery.LEAVE is not effect.policy.when_lost

    assert is_repeated is (effect.policy.changes is not Changes.EACH_CALL)


def test_an_effect_of_a_later_release_is_treated_as_unsafe() -> None:
    assert recorded_policy("of_next_year") is Effect.UNSAFE.policy
