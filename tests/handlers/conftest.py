"""The agents' tests' kit, and their harness: a model server on a socket, and a runner."""

from __future__ import annotations

from tests.agents.conftest import harness, kit, model

__all__ = ["harness", "kit", "model"]
