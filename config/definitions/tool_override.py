"""What an agent's file changes of one of its tools."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from config.definitions.guardrails.checks import CheckSection
from config.effects import MAX_RETRIES, Effect, OnExpiry, Scope
from config.egress.policy import hosts_in

Seconds = Annotated[float, Field(strict=True, gt=0, le=86_400)]


def _is_host(value: str) -> str:
    hosts_in([value])
    return value


class ToolOverride(CheckSection):
    """An agent's changes to one tool."""

    title: Annotated[str, Field(max_length=200)] | None = None
    """What a call does, for a person who decides about it; ``{amount}`` stands for an argument."""
    effect: Effect | None = None
    """The tool's effect class; see ``config.effects``."""
    timeout_s: Seconds | None = None
    """Seconds a call may take."""
    confirm: Annotated[bool, Field(strict=True)] | None = None
    """Whether a person has to approve each call."""
    on_expiry: OnExpiry | None = None
    """What is done about a call that no person approves or rejects in time."""
    default: Any = None
    """The call's result with ``on_expiry: take_default``."""
    approvers: Annotated[int, Field(strict=True, ge=1, le=5)] | None = None
    """How many persons have to approve a call; from two on, the run's own principal is none of them."""
    sticky: tuple[Scope, ...] | None = None
    """For which later calls an approval may hold too."""
    sticky_s: Annotated[int, Field(strict=True, ge=1, le=2_592_000)] | None = None
    """For how many seconds at most such an approval holds."""
    retries: Annotated[int, Field(strict=True, ge=0, le=MAX_RETRIES)] | None = None
    """How often a call that failed is made again; not of an unsafe tool."""
    hosts: tuple[Annotated[str, AfterValidator(_is_host)], ...] | None = None
    """The hosts to which its calls may connect, of those that the deployment allows."""
