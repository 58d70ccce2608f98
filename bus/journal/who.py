"""Whose rows may be seen; every reading function takes one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Who:
    """A tenant, and who of it is asking."""

    tenant: str = "default"
    principal: str = "local"
