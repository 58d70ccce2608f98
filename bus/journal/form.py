"""The form a run's journal is written in. Code that reads an older form goes on with it; a newer one waits."""

JOURNAL = 1
"""Raised when steps, events or history change in a way that older code would misread."""
