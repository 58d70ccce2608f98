"""The model that ships: a small program that understands a handful of sentences, and says so.

It streams, thinks aloud, calls the tools it is offered and fills schemas, all deterministically, so that
everything around a model can be tried and tested without a key. It learns nothing and knows no language.
"""

from __future__ import annotations

PREFIX = "demo/"


def is_demo(model: str) -> bool:
    """Return whether a model is the demo model; a call of it needs neither LiteLLM nor a network."""
    return model.startswith(PREFIX)
