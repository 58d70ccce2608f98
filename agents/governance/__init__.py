"""What decides about calls and texts: the policy, the guardrails and the remote engine."""
