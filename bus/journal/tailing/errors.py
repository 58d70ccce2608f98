"""Errors of observers that tail the log."""

from __future__ import annotations

from config.errors import Permanent

OBSERVER_AHEAD = Permanent.row(
    "observer_ahead",
    "An observer's cursor, or the place where it has to start, is beyond the end of the log: the database is an older "
    "copy, or the number is wrong.",
    status=409,
    over_http=False,
    text=(
        "the cursor {position} of observer '{name}' is beyond the last event of the log, {last}; nothing was "
        "delivered. `./callboard observers reset {name} --from now` sets it to the end of the log; if the observer is "
        "new, correct its `start`."
    ),
    remedy="Reset the observer with `./callboard observers reset NAME --from now`, or from an earlier place.",
)

OBSERVER_UNKNOWN = Permanent.row(
    "observer_unknown",
    "No observer of this name has ever tailed the log.",
    status=404,
    over_http=False,
    text="no observer '{name:.80}' tails the log; `./callboard observers` lists those that do.",
    remedy="`./callboard observers` lists them; `./callboard observe NAME` starts one.",
)
