"""The house of the agents' tests: a model server on a socket, and a runner."""

from __future__ import annotations

from tests.agents.conftest import house, model

__all__ = ["house", "model"]
