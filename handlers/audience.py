"""Who hears of a run in this process: the observers it names, as far as they are here."""

from __future__ import annotations

from collections.abc import Iterable

from config.errors import PluginUnknown
from config.settings import Settings
from observers.base import AgentObserver
from observers.discovery import observers_for


def audience(names: Iterable[str], settings: Settings) -> tuple[tuple[AgentObserver, ...], PluginUnknown | None]:
    """Return a run's observers; where one is missing here, those that are there, and what is wrong."""
    wanted = tuple(names)
    try:
        return observers_for(wanted, settings), None
    except PluginUnknown as wrong:
        there = [name for name in wanted if _is_here(name, settings)]
        return observers_for(there, settings), wrong


def _is_here(name: str, settings: Settings) -> bool:
    try:
        return bool(observers_for((name,), settings))
    except PluginUnknown:
        return False
