"""All Redis keys and channels, with type, content and lifetime. Celery's own keys have the same prefix."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of one deployment. ``{run_id}`` is a hash tag: a run's keys share a cluster slot."""

    deployment: str

    @property
    def prefix(self) -> str:
        return f"callboard:{self.deployment}:"

    def stream(self, run_id: str) -> str:
        """Stream: the hot log of a run. An entry's id is ``<last number in it>-0``; its field ``e`` holds
        events as JSON lines, and behind them their signature (bus/journal/live/signatures.py). Lives until
        ``hot_log_ttl_s`` after the run's end."""
        return f"{self.prefix}{{{run_id}}}:log"

    def meta(self, run_id: str) -> str:
        """Hash: ``fence`` of the last writer, ``last`` appended number, ``bytes`` held. Lives as long as the stream."""
        return f"{self.prefix}{{{run_id}}}:meta"

    def live(self, run_id: str) -> str:
        """Channel: each entry of the stream, signature included, as it is appended."""
        return f"{self.prefix}{{{run_id}}}:live"

    @property
    def nudges(self) -> str:
        """Channel: ``stop <run_id>`` to the workers. A hint; they also poll SQL."""
        return f"{self.prefix}nudges"

    @property
    def board(self) -> str:
        """Channel: the id of a run whose state changed, for the board. A hint; the board also polls SQL."""
        return f"{self.prefix}board"

    @property
    def limits(self) -> str:
        """Prefix of strings: requests of a tenant or a principal in this minute, counted by Flask-Limiter for
        web/limits.py. Each lives for a minute."""
        return f"{self.prefix}limits"

    @property
    def probe(self) -> str:
        """String, empty: written by ``/health`` to test whether Redis accepts writes. Lives for a second.

        Its second colon keeps it apart from the lists of Celery's queues, whose names have none."""
        return f"{self.prefix}health:probe"
