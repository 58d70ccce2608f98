"""The queues of a deployment: the default one, those that agents name, and those that this process's worker serves."""

from __future__ import annotations

from dataclasses import dataclass

from config.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedQueues:
    """The queues whose runs a worker process takes."""

    default: str
    """The queue of runs whose agent names none."""
    names: tuple[str, ...]

    def has(self, queue: str | None) -> bool:
        """Return whether the worker takes the runs of a queue; None is the default one."""
        return (queue or self.default) in self.names


def served_queues(settings: Settings) -> ServedQueues:
    """Return the queues that a worker with these settings serves: the default one, unless ``queues`` lists others."""
    listed = (part.strip() for part in settings.queues.split(","))
    names = tuple(dict.fromkeys(name for name in listed if name))
    return ServedQueues(default=settings.queue, names=names or (settings.queue,))
