"""Every Redis key and channel, with its type, content and lifetime. Celery's own keys have the same prefix."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of one deployment. ``{run_id}`` is a hash tag: a run's keys share a cluster slot."""

    deployment: str

    @property
    def prefix(self) -> str:
        """What every name starts with."""
        return f"callboard:{self.deployment}:"

    def stream(self, run_id: str) -> str:
        """Stream: the hot log of a run. An entry's id is ``<last number in it>-0``; its field ``e`` holds
        events as JSON lines, and behind them the tag that says they are ours (bus/journal/keyring.py). Lives until
        ``hot_log_ttl_s`` after the run's end."""
        return f"{self.prefix}{{{run_id}}}:log"

    def meta(self, run_id: str) -> str:
        """Hash: ``fence`` of the writer last seen, ``last`` number appended, ``bytes`` held. Lives as the stream."""
        return f"{self.prefix}{{{run_id}}}:meta"

    def live(self, run_id: str) -> str:
        """Channel: what is appended to the stream, tag and all, at the moment it is."""
        return f"{self.prefix}{{{run_id}}}:live"

    @property
    def nudges(self) -> str:
        """Channel: ``stop <run_id>`` to the workers. A hint; they also look in SQL."""
        return f"{self.prefix}nudges"

    @property
    def board(self) -> str:
        """Channel: the id of a run whose state changed, for the board. A hint; it also looks in SQL."""
        return f"{self.prefix}board"

    @property
    def probe(self) -> str:
        """String, empty: written by ``/health`` to see whether Redis takes writes. Lives for a second."""
        return f"{self.prefix}probe"
