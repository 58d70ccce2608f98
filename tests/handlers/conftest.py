"""The harness of the agents' tests: a model server on a socket, and a runner."""

from __future__ import annotations

from tests.agents.conftest import harness, model

__all__ = ["harness", "model"]
