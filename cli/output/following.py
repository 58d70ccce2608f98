"""Follow a run to its end on a terminal; Ctrl-C stops the run, or only the following."""

from __future__ import annotations

import click

from agents.handle import RunHandle
from bus.payloads import EndPayload, Payload, StatusPayload, encode
from cli.output.json import print_json_line
from cli.output.transcript import EXIT, WAITING, Transcript

WAITING_HINT = "  this command waits for the answer; Ctrl-C stops the run, and --no-wait returns instead"


def follow(handle: RunHandle, *, after: int = 0, as_json: bool, is_stoppable: bool, no_wait: bool = False) -> int:
    """Print the run's events and return the exit status of its end.

    A wait that the log says before ``after`` is said first, since no event would come of it.
    With ``no_wait``, return as soon as the run waits for an approval. If the run ``is_stoppable``, the first
    Ctrl-C cancels it and keeps following to the end. Any other Ctrl-C ends the following, and the run continues.
    """
    transcript = Transcript(handle.run_id, still_asked=handle.approvals)
    before = handle.wait_before(after) if after else None
    if before is not None and (_asks(before) or not as_json):
        transcript.take(before)
    while True:
        try:
            for payload in handle.events(after):
                after = payload.seq
                if as_json:
                    print_json_line(encode(payload, handle.run_id, handle.thread_id).decode())
                if not as_json or _asks(payload):  # stdout has the events; the question goes to stderr
                    transcript.take(payload)
                if _asks(payload) and handle.approvals():
                    if no_wait:
                        return WAITING
                    if is_stoppable:
                        click.secho(WAITING_HINT, err=True, dim=True)
                if isinstance(payload, EndPayload):
                    return EXIT[payload.status]
            return 0  # the cursor was after the end
        except KeyboardInterrupt:
            if not is_stoppable:
                raise
            click.secho("\nstopping the run; Ctrl-C again stops following it", err=True, dim=True)
            handle.cancel(by="terminal")
            is_stoppable = False


def _asks(payload: Payload) -> bool:
    return isinstance(payload, StatusPayload) and payload.status == "waiting" and payload.reason == "approval"
