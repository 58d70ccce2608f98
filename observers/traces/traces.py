"""Sends the trace of each run to a collector when the run has ended."""

from __future__ import annotations

from itertools import chain
from typing import ClassVar, Self

from bus.payloads import EndPayload
from config.settings import Settings
from observers.base import AgentFacts, LogObserver, RunFacts, Tailing
from observers.traces.errors import COLLECTOR_UNSET
from observers.traces.otlp import TraceCollector
from observers.traces.spans import spans_of


class TracesObserver(LogObserver):
    """Makes the spans of a run from its log and its steps, so that a worker that was killed has lost none.

    It remembers only which runs have ended since the last ``flush``. An end that is delivered again sends the same
    spans with the same ids.
    """

    name = "traces"
    wants_deltas = False
    tailing: ClassVar[Tailing] = Tailing(delivery="reliable", types=("end",))

    def __init__(self, settings: Settings) -> None:
        self._collector = TraceCollector(settings)
        self._has_content = settings.traces_content
        self._ended: dict[str, None] = {}

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return one that sends to the collector of the settings.

        Raises:
            COLLECTOR_UNSET: they name none.
        """
        if settings.traces_url is None:
            raise COLLECTOR_UNSET()
        return cls(settings)

    def on_end(self, agent: AgentFacts, payload: EndPayload, context: RunFacts) -> None:
        self._ended[context.run_id] = None

    def flush(self) -> None:
        """Send the spans of the runs that have ended since the last time; raises as ``TraceCollector.send``."""
        run_ids, self._ended = [*self._ended], {}  # after a failure each end is delivered again, by itself
        spans = (spans_of(self.runs, run_id, has_content=self._has_content) for run_id in run_ids)
        self._collector.send(chain.from_iterable(spans))

    def close(self) -> None:
        self._collector.close()
