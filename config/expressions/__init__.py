"""Expressions that people write into definitions and the policy: checked when they are read, limited when evaluated."""
