"""All Redis keys and channels, with type, content and lifetime. Celery's own keys have the same prefix.

What belongs to one tenant has its name in it, behind the deployment's: an ACL (``~callboard:default:acme:*`` and
``&callboard:default:acme:*``) and an audit of the memory choose a tenant by a prefix. A tenant's name has no ``:``,
brace or wildcard (``config.identity.principal.NAME``), and begins with a letter or a digit. What belongs to no tenant
has no second colon, or ``_`` in the tenant's place.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of one deployment. ``{run_id}`` is a hash tag: a run's keys share a cluster slot."""

    deployment: str

    @property
    def prefix(self) -> str:
        return f"callboard:{self.deployment}:"

    def stream(self, tenant: str, run_id: str) -> str:
        """Stream: the hot log of a run. An entry's id is ``<last number in it>-0``; its field ``e`` holds
        events as JSON lines, and behind them their signature (bus/journal/live/signatures.py). Lives until
        ``hot_log_ttl_s`` after the run's end."""
        return f"{self.prefix}{tenant}:{{{run_id}}}:log"

    def meta(self, tenant: str, run_id: str) -> str:
        """Hash: ``fence`` of the last writer, ``last`` appended number, ``bytes`` held. Lives as long as the stream."""
        return f"{self.prefix}{tenant}:{{{run_id}}}:meta"

    def live(self, tenant: str, run_id: str) -> str:
        """Channel: each entry of the stream, signature included, as it is appended; and, in the same form, hints that
        SQL has events which are not in the stream."""
        return f"{self.prefix}{tenant}:{{{run_id}}}:live"

    def account(self, tenant: str) -> tuple[str, str, str]:
        """What a tenant's runs hold in Redis, where it has a budget (bus/journal/live/account.lua). A hash: bytes of
        each run, and their ``total``; two sorted sets: its runs with and without a writer, by the time when their logs
        expire (ms). They live as long as the longest of these logs."""
        tagged = f"{self.prefix}{tenant}:{{{tenant}}}"
        return f"{tagged}:held", f"{tagged}:open", f"{tagged}:left"

    def board(self, tenant: str) -> str:
        """Channel: the id of a run of the tenant whose state changed. A hint; its boards also poll SQL."""
        return f"{self.prefix}{tenant}:board"

    @property
    def nudges(self) -> str:
        """Channel: ``stop <run_id>`` to the workers. A hint; they also poll SQL.

        One for all tenants: each worker serves all of them, so that it would have to subscribe to every tenant's."""
        return f"{self.prefix}nudges"

    def viewers(self, tenant: str) -> str:
        """Hash: the viewers of a tenant's principals in each web process, with the time at which the report expires
        (web/feeds/report.lua). Lives for three seconds after the last report."""
        return f"{self.prefix}{tenant}:viewers"

    @property
    def limits(self) -> str:
        """Prefix of strings: requests of a tenant or a principal in this minute, counted by web/limits.py.
        Each lives for a minute. The tenant's name stands behind the prefix."""
        return f"{self.prefix}_:limits"

    @property
    def databases(self) -> str:
        """Set: the ids of the databases whose workers use these keys; one, unless two installations share a name. Lives
        for a day after the last worker looked for work."""
        return f"{self.prefix}_:databases"

    def database(self, database_id: str) -> str:
        """String, empty: a worker of this database looked for work. Lives for half a minute."""
        return f"{self.prefix}_:database:{database_id}"

    @property
    def probe(self) -> str:
        """String, empty: written by ``/health`` to test whether Redis accepts writes. Lives for a second.

        Its second colon keeps it apart from the lists of Celery's queues, whose names have none."""
        return f"{self.prefix}_:health"
