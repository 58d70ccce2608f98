"""What clients have requested of a run that this process owns; each request is answered by one event of its log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agents.governance.guardrails.guardrails import Guardrails
from bus.journal import Journal
from bus.journal.errors import ControlsChanged, StaleOwner
from bus.journal.owner import (
    DRAINED,
    PAUSED,
    Commit,
    ControlRequest,
    HistoryItem,
    Lease,
    Reason,
    Release,
    answering,
)
from bus.payloads import ControlPayload, EndPayload, Payload
from config.errors import CallboardError
from config.ids import new_id

log = logging.getLogger(__name__)
WOKEN = Release(status="queued", reason=Reason.ANSWERED)
"""For a workflow's branch has come what it waits for; the next owner reads it."""
Save = Callable[[Commit], Coroutine[Any, Any, list[Payload]]]


class Inbox:
    """The unread controls of one owner's run, in the order in which they arrived; to be used on the loop's thread."""

    def __init__(self, journal: Journal, lease: Lease, save: Save, guardrails: Guardrails) -> None:
        """``save`` commits events of the run; ``guardrails`` are those of the agent that has it now."""
        self._guardrails, self._digest = guardrails, lease.definition_digest
        self._journal, self._run_id, self._fence, self._save = journal, lease.run_id, lease.fence, save
        self.unread: dict[int, ControlRequest] = {}
        """By their ids, in the order in which they arrived."""
        self._answered: set[str] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self.unread_at_claim: Sequence[ControlRequest] = ()
        """What had arrived before the run was claimed, and the claim has not answered."""
        self.max_rounds: int | None = None
        """Most rounds, as a client has set them; None: what the agent's definition says."""
        self._rounds_of_parent = lease.max_rounds
        self.is_stopped = False
        """Whether a client asked the run to stop."""
        self.on_signal: Callable[[], None] = lambda: None
        """Called when a signal for a node of a workflow has come."""
        self.is_ending = False
        """Whether what is left is done in spite of a stop: the calls that undo others."""
        self.release_as: Release | None = None
        """How to release the run after its current step: this process ends soon, or a client requested it."""

    # --- what arrives

    def begin(self, unread: Sequence[ControlRequest], max_rounds: int | None) -> None:
        """Keep what had arrived before the run was claimed, and the most rounds that a client has set.

        The claim's transaction checks the texts that it gives the model; the others are checked as they are received.
        """
        self.unread_at_claim = unread
        self.max_rounds = max_rounds

    def receive(self, request: ControlRequest) -> None:
        """Take a control that was read from the journal; a second time nothing happens, also behind its answer.

        A steer and a pause are accepted by an event at once, and one for a status that the run has left is refused. So
        is a text that other guardrails have let through, those of the agent before a hand-over or of another version,
        and the run's do not. A resumption takes back the pause that the owner has not come to.
        """
        if request.id in self.unread or request.control_id in self._answered:  # read before the answer was committed
            return
        if request.kind == "wake":
            self.release(WOKEN)
            return
        request = self.unread[request.id] = self._read(request)
        if request.refusal is not None:
            self._answer_soon([request.answer("refused", request.refusal)])
            return
        match request.kind:
            case "pause":
                self.release_as = self.release_as or PAUSED
            case "resume":
                self._answer_soon([*request.superseded(self.unread), request.answer("consumed")], self._resume)
            case "set":
                self._answer_soon([request.answer("consumed")], partial(self._limit, request))
        if request.kind in ("pause", "steer", "signal") and not request.is_accepted:
            self._answer_soon([request.answer("accepted")])
        if request.kind == "signal":
            self.on_signal()

    def _read(self, request: ControlRequest) -> ControlRequest:
        """Return a control with whether this owner takes it; its text may be checked for another agent, or version.

        It is checked once: a text that was read before is as it was read.
        """
        request = request.read_at(self._fence)
        if request.kind != "steer" or request.is_checked_for(self._digest):
            return request
        data = {**request.data, "checked_by": self._digest}
        return replace(request, data=data, is_blocked=bool(self._guardrails.check_input(request.content).reasons))

    def release(self, change: Release = DRAINED) -> None:
        """Release the run at the end of its current step; a process that ends does not wait for a resumption."""
        if self.release_as is None or self.release_as.reason is Reason.PAUSED:
            self.release_as = change

    def _limit(self, request: ControlRequest) -> None:
        """Take the limits of a ``set``; the run's priority is the journal's."""
        self.max_rounds = request.max_rounds or self.max_rounds

    def _resume(self) -> None:
        """Stay with the run, unless a later pause has arrived."""
        if not self._valid("pause") and self.release_as is not None and self.release_as.reason is Reason.PAUSED:
            self.release_as = None

    def _answer_soon(self, answers: Sequence[ControlPayload], then: Callable[[], None] = lambda: None) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(answers, then), name=f"answers {self._run_id}")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, answers: Sequence[ControlPayload], then: Callable[[], None]) -> None:
        try:
            await self._save(Commit(events=answers))
        except (StaleOwner, ControlsChanged):
            return  # the run's next owner, or its end, answers them
        except CallboardError as error:
            log.warning("controls are not answered yet run_id=%s: %s", self._run_id, error)
            return
        self._forget(answers)
        then()

    def _forget(self, answers: Iterable[Payload]) -> None:
        """Leave out the controls that these events answer for good."""
        answered = _answered(answers)
        self._answered |= answered
        self.unread = {key: value for key, value in self.unread.items() if value.control_id not in answered}

    async def refresh(self) -> None:
        """Read the run's unread controls anew: a commit found that they had changed."""
        requests = await self._journal.loop.read(self._journal.owner.unread_controls, self._run_id)
        unread = {request.id for request in requests}
        self.unread = {key: value for key, value in self.unread.items() if key in unread}
        self._resume()
        for request in requests:
            self.receive(request)
        await self.settle()

    async def settle(self) -> None:
        """Return when what has arrived is accepted."""
        while self._answering:
            await asyncio.gather(*self._answering, return_exceptions=True)

    # --- what the owner does with it

    def allowed_rounds(self, of_agent: int) -> int:
        """Return how many rounds with tools the run may have, by its agent, its parent and a client."""
        return min(rounds for rounds in (of_agent, self._rounds_of_parent, self.max_rounds) if rounds is not None)

    @property
    def has_steers(self) -> bool:
        """Whether there is a text for the model."""
        return bool(self._valid("steer"))

    def _valid(self, kind: str) -> list[ControlRequest]:
        """Return the unread controls of a kind that the run takes, in order."""
        return [request for request in self.unread.values() if request.kind == kind and request.refusal is None]

    def steered(self, *, at_claim: bool = False) -> Commit:
        """Return the commit that gives the model the texts that have arrived, the oldest first."""
        steers = self._valid("steer")
        if at_claim:
            unread = [self._read(request) for request in self.unread_at_claim]
            steers = [request for request in unread if request.kind == "steer" and request.refusal is None]
            self.unread_at_claim = [request for request in unread if request not in steers]
        return Commit(
            events=[request.answer("consumed") for request in steers],
            history=[
                HistoryItem(
                    id=new_id("msg"), role="user", data={"content": request.content, "control_id": request.control_id}
                )
                for request in steers
            ],
        )

    async def departure(self) -> tuple[Release | None, list[Payload]]:
        """Return how the run is released now, and the answer to the control by which it is."""
        release = self.release_as
        if release is None or release.reason is not Reason.PAUSED:
            return release, []
        ends_ms = await self._journal.owner.wall_clock_ms() + self._journal.settings.approval_ttl_s * 1000
        pauses = [request.answer("consumed") for request in self._valid("pause")]
        return replace(release, ends_ms=ends_ms), [*pauses]

    async def end(self, change: Commit, *, is_final: bool = False) -> None:
        """Commit the run's end with an answer to each unread control.

        ``is_final``: the run ends although a text for its model arrives, which then begins the thread's next turn.

        Raises:
            ControlsChanged: the run has succeeded, and a text for its model has arrived.
        """
        end = change.events[-1]
        may_go_on = isinstance(end, EndPayload) and end.status == "succeeded" and not is_final
        while True:
            if may_go_on and self.has_steers:  # also where the text was read since the caller looked
                raise ControlsChanged
            try:
                await self._save(answering(change, self._unanswered(change.events)))
            except ControlsChanged:
                await self.refresh()
            else:
                return

    def _unanswered(self, events: Iterable[Payload]) -> list[ControlRequest]:
        """Return the unread controls that these events do not answer: a node may have taken a signal with them."""
        answered = _answered(events)
        return [request for request in self.unread.values() if request.control_id not in answered]

    def committed(self, events: Iterable[Payload]) -> None:
        """Leave out what these events have answered, once they are committed."""
        self._forget(events)


def _answered(events: Iterable[Payload]) -> set[str]:
    """Return the controls that these events answer for good."""
    return {event.control_id for event in events if isinstance(event, ControlPayload) and event.state != "accepted"}
