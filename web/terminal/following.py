"""Following a run to its end on a terminal; Ctrl-C stops the run, or only the looking."""

from __future__ import annotations

from collections.abc import Callable

import click

from agents.handle import RunHandle
from bus.payloads import EndPayload, encode
from web.terminal.printed_json import print_json_line
from web.terminal.transcript import EXIT, Transcript


def follow(handle: RunHandle, *, after: int = 0, as_json: bool, on_interrupt: Callable[[], None] | None) -> int:
    """Print the run's events and return the exit status its end means.

    The first Ctrl-C calls ``on_interrupt`` and goes on to the end, which then comes soon; without one, and
    at the second Ctrl-C, looking ends and the run goes on.
    """
    transcript = Transcript(handle.run_id, still_asked=handle.approvals)
    cursor = after
    while True:
        try:
            for payload in handle.events(cursor):
                cursor = payload.seq
                if as_json:
                    print_json_line(encode(payload, handle.run_id, handle.thread_id).decode())
                else:
                    transcript.take(payload)
                if isinstance(payload, EndPayload):
                    return EXIT[payload.status]
            return 0  # the cursor stood behind the end
        except KeyboardInterrupt:
            if on_interrupt is None:
                raise
            click.secho("\nstopping the run; Ctrl-C again leaves it", err=True, dim=True)
            on_interrupt()
            on_interrupt = None
