"""A dry run of calls whose tool requires an approval itself: that is no decision of the policy, then or now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agents.governance.policy.dry_run import PastCall, dry_run
from agents.governance.policy.local import LocalPolicy
from config.policy_decision import TOOLS_OWN
from tests.agents.governance.policy.calls import call

CAPPED = {"verdict": "constrain", "arguments": {"cents": 5}}


@pytest.mark.parametrize(
    ("recorded", "rule", "differences"),
    [
        (TOOLS_OWN, {"verdict": "allow"}, 0),
        (TOOLS_OWN, CAPPED, 1),
        (TOOLS_OWN, {"verdict": "block"}, 1),
        ("rule-0", CAPPED, 0),
        ("rule-1", CAPPED, 1),
        ("rule-0", {"verdict": "allow"}, 1),
    ],
)
def test_what_a_tool_requires_is_no_difference(
    policy_of: Callable[..., LocalPolicy], recorded: str, rule: dict[str, Any], differences: int
) -> None:
    past = PastCall(run_id="run_1", number=1, at_ms=0, facts=call(), verdict="require_approval", rule=recorded)

    assert len(dry_run(policy_of(rule), [past]).differences) == differences
