"""Following a run to its end on a terminal; Ctrl-C stops the run, or only the looking."""

from __future__ import annotations

from collections.abc import Callable

import click

from agents.handle import RunHandle
from bus.payloads import EndPayload, Payload, StatusPayload, encode
from web.terminal.printed_json import print_json_line
from web.terminal.transcript import EXIT, WAITING, Transcript

STAYS = "  this command waits, too; Ctrl-C stops the run, and with --no-wait it would have returned"


def follow(
    handle: RunHandle, *, after: int = 0, as_json: bool, on_interrupt: Callable[[], None] | None, no_wait: bool = False
) -> int:
    """Print the run's events and return the exit status its end means.

    With ``no_wait`` it returns as soon as the run waits for a person.
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
                if not as_json or _asks(payload):  # stdout has the events, who has to answer reads stderr
                    transcript.take(payload)
                if _asks(payload) and handle.approvals():
                    if no_wait:
                        return WAITING
                    if on_interrupt is not None:
                        click.secho(STAYS, err=True, dim=True)
                if isinstance(payload, EndPayload):
                    return EXIT[payload.status]
            return 0  # the cursor stood behind the end
        except KeyboardInterrupt:
            if on_interrupt is None:
                raise
            click.secho("\nstopping the run; Ctrl-C again leaves it", err=True, dim=True)
            on_interrupt()
            on_interrupt = None


def _asks(payload: Payload) -> bool:
    return isinstance(payload, StatusPayload) and payload.status == "waiting" and payload.reason == "approval"
