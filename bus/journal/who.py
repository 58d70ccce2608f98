"""The caller of a query: each query returns only rows of its tenant and principal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Who:
    """A tenant, and the principal (user) of it that asks."""

    tenant: str = "default"
    principal: str = "local"
