"""The texts of a run: what callers give it, and what a model gets of a conversation, as messages of a call."""
