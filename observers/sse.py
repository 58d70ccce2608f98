"""The SSE observer: carries a run's events to the hot log, from which viewers get them."""

from __future__ import annotations

from typing import ClassVar

from bus.payloads import Payload, encode
from observers.base import AgentFacts, LiveObserver, RunFacts


class ServerSideEventAgentObserver(LiveObserver):
    """Passes each event to the hot log's batcher and returns at once.

    A run that does not name it is not streamed: its viewers get whole messages, from SQL.
    """

    name: ClassVar[str] = "sse"
    inline: ClassVar[bool] = True
    pinned: ClassVar[bool] = True  # the hot log may be used on the loop alone

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        if self.hot_log.is_written_by(context.run_id, context.fence):
            self.hot_log.append(context.run_id, payload.seq, encode(payload, context.run_id, context.thread_id))
