"""A policy from rules written in a test."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.governance.policy.local import LocalPolicy
from agents.governance.policy.policy_yaml import read_policy


@pytest.fixture
def policy_of(tmp_path: Path):
    def make(*rules: dict[str, Any], **fields: Any) -> LocalPolicy:
        path = tmp_path / "policy.yaml"
        named = [{"name": f"rule-{number}", "reason": "So it is."} | rule for number, rule in enumerate(rules)]
        path.write_text(yaml.safe_dump(fields | {"rules": named}))
        return read_policy([path])

    return make
