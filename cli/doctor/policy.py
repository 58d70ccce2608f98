"""A check of the policy's files."""

from __future__ import annotations

from agents.checkup.vocabulary import vocabulary_of
from agents.governance.policy.checks import warnings_of
from agents.governance.policy.errors import PolicyInvalid
from agents.governance.policy.reading import read_policy
from cli.doctor.finding import Verdicts, fail, ok, warn
from config.settings import Settings


def check_policy(settings: Settings) -> Verdicts:
    """Yield what is wrong with the policy, and what is suspicious about it."""
    try:
        policy = read_policy(settings.policy_places)
    except PolicyInvalid as error:
        yield fail(str(error))
        return
    warnings = warnings_of(policy, vocabulary_of(settings))
    yield from (warn(warning) for warning in warnings)
    if not warnings:
        yield ok(f"rules: {len(policy.rules)}, version {policy.version}")
