"""What the sections `guardrails` of a definition say, and the patterns that they may have."""
