"""The calls that issue, list and end credentials."""
