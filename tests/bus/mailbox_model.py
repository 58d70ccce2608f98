"""What a thread's mailbox promises, as a small model: one line of messages and texts, and what becomes of each.

The line has everything that was sent to one thread, in the order of arrival: messages, each of which is a run, and
texts for open runs that their models have not got (steers). Random schedules play it beside the real mailbox.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

ENDED = ("succeeded", "failed", "cancelled")


class Refused(Exception):
    """The mailbox has to refuse it, and nothing changes."""


@dataclass(eq=False, slots=True)
class Run:
    """One message, and the run that answers it."""

    text: str
    status: str = "queued"
    """``paused`` and ``asking`` are the two ways to wait."""
    run_id: str = ""
    """Unknown until it is seen: a text that begins a turn of its own has no request that returns it."""
    is_begun: bool = False
    is_stopping: bool = False
    is_rolled_back: bool = False
    is_to_pause: bool = False
    """A pause was requested of its owner, and was not taken back."""
    given: list[str] = field(default_factory=list)
    """The texts that its model got, besides its own message."""
    is_pause_read: bool = False
    is_misled: bool = False
    """Its owner has read a pause that was taken back meanwhile."""

    @property
    def is_open(self) -> bool:
        return self.status not in ENDED

    @property
    def waits_in_line(self) -> bool:
        return self.status == "queued" and not self.is_begun


@dataclass(eq=False, slots=True)
class Steer:
    """One text that its run's model has not got."""

    run: Run
    text: str
    is_read: bool = False


class Mailbox:
    """The line of one thread."""

    def __init__(self) -> None:
        self.line: list[Run | Steer] = []
        self.undelivered: list[str] = []

    def runs(self) -> list[Run]:
        """Return all runs, in the order in which they are or were to be answered."""
        return [item for item in self.line if isinstance(item, Run)]

    def head(self) -> Run | None:
        """Return the run that the thread is at."""
        return next((run for run in self.runs() if run.is_open), None)

    def waiting(self) -> list[str]:
        """Return the texts that wait, the next one first."""
        return [item.text for item in self.line if isinstance(item, Steer) or item.waits_in_line]

    def steers(self, run: Run) -> list[Steer]:
        return [item for item in self.line if isinstance(item, Steer) and item.run is run]

    def history(self) -> Iterator[tuple[str, bool]]:
        """Yield the users' texts of the thread in order, and whether each is undone."""
        for run in self.runs():
            for text in (run.text, *run.given):
                yield text, run.is_rolled_back and run.status == "cancelled"

    # --- what clients send

    def send(self, text: str, if_busy: str) -> Run:
        """Return the run that takes the message."""
        head = self.head()
        if head is None or if_busy == "enqueue":
            return self._enqueue(text)
        match if_busy:
            case "reject":
                raise Refused
            case "interrupt" | "rollback":
                self.stop(head, is_rollback=if_busy == "rollback")
                run = self._enqueue(text)
                self.put_first(run)
                return run
            case "steer" if not head.is_stopping:
                self.steer(head, text)
                return head
            case "merge" if waiting := [run for run in self.runs() if run.waits_in_line]:
                waiting[-1].text += f"\n\n{text}"
                return waiting[-1]
        return self._enqueue(text)

    def _enqueue(self, text: str) -> Run:
        run = Run(text)
        self.line.append(run)
        return run

    def put_first(self, run: Run) -> None:
        """The others keep their order among themselves."""
        first = next(item for item in self.runs() if item.waits_in_line)
        if first is not run:
            self.line.remove(run)
            self.line.insert(self.line.index(first), run)

    def steer(self, run: Run, text: str) -> None:
        if run.is_stopping or not run.is_open:
            raise Refused
        self.line.append(Steer(run, text))

    def stop(self, run: Run, *, is_rollback: bool = False) -> None:
        if not run.is_open:
            return
        run.is_stopping, run.is_rolled_back = True, run.is_rolled_back or is_rollback
        if run.status != "running":
            self.end(run, "cancelled")

    def pause(self, run: Run) -> None:
        if not run.is_open or run.status == "asking" or run.is_stopping:
            raise Refused
        if run.status == "running":
            run.is_to_pause = True
        elif run.status == "queued":
            run.status, run.is_to_pause = "paused", False

    def resume(self, run: Run) -> None:
        if run.status == "paused":
            run.status = "queued"
        elif run.status in ("running", "queued") and run.is_to_pause:
            run.is_to_pause, run.is_misled = False, run.is_pause_read
        else:
            raise Refused

    def answer(self, run: Run) -> None:
        run.status = "queued"

    # --- what owners do

    def claim(self, run: Run, *, begins_step: bool) -> None:
        """``begins_step``: its next call of the model is a new one, which gets what has arrived."""
        run.status, run.is_begun, run.is_pause_read, run.is_misled = "running", True, False, False
        for steer in self.steers(run):
            steer.is_read = begins_step and not run.is_stopping
        self._give(run)

    def read(self, run: Run) -> None:
        """Its owner reads what has arrived."""
        run.is_pause_read, run.is_misled = run.is_to_pause, False
        for steer in self.steers(run):
            steer.is_read = True

    def step(self, run: Run) -> None:
        """Its owner comes to the end of a step."""
        if run.is_misled:
            self.read(run)
        if run.is_pause_read:
            self.leave(run, "paused")
            run.is_to_pause = False
        else:
            self._give(run)

    def conclude(self, run: Run) -> None:
        """Its model has answered: the run succeeds, unless a text has arrived."""
        if not any(steer.is_read for steer in self.steers(run)):
            self.read(run)
            if not self.steers(run):
                return self.end(run, "succeeded")
        self.step(run)

    def leave(self, run: Run, status: str) -> None:
        """Its owner leaves it; the next one ends a run that is to stop."""
        run.status = "queued" if run.is_stopping else status

    def lose(self, run: Run) -> None:
        """Its owner is lost."""
        if run.is_stopping:
            self.end(run, "cancelled")
        else:
            run.status = "queued"

    def end(self, run: Run, status: str) -> None:
        """A text that no model has got is shown as not delivered after a stop, else it becomes a turn in its place."""
        run.status = status
        for steer in self.steers(run):
            place = self.line.index(steer)
            if status == "cancelled":
                del self.line[place]
                self.undelivered.append(steer.text)
            else:
                self.line[place] = Run(steer.text)

    def _give(self, run: Run) -> None:
        for steer in self.steers(run):
            if steer.is_read:
                self.line.remove(steer)
                run.given.append(steer.text)
