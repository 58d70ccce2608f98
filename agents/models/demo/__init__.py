"""The model that ships: a small program that understands a handful of sentences, and says so.

It streams, thinks aloud, calls the tools it is offered and fills schemas, all deterministically, so that
everything around a model can be tried and tested without a key. It learns nothing and knows no language.
"""

from agents.models.demo.provider import DemoModel, register_demo_model

__all__ = ["DemoModel", "register_demo_model"]
