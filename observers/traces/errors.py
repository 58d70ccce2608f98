"""Errors of the collector that traces are sent to."""

from __future__ import annotations

from config.errors import Permanent, Retryable

COLLECTOR_UNSET = Permanent.row(
    "collector_unset",
    "The observer `traces` has no collector to send traces to, so it does not start.",
    over_http=False,
    text=(
        "CALLBOARD_TRACES_URL is not set, so there is no collector for traces; set it to the address of one, such as "
        "http://localhost:4318."
    ),
    remedy="Set `CALLBOARD_TRACES_URL`, and start the observer again.",
)

COLLECTOR_REFUSED = Permanent.row(
    "collector_refused",
    "The collector of traces refused a run's spans and would refuse them again, so they are a dead letter.",
    over_http=False,
    text="the collector at {host} refused the spans with {status}: {sentence}",
    remedy=(
        "Correct what the sentence names, often `CALLBOARD_TRACES_URL` or the key in `CALLBOARD_TRACES_HEADERS`; then "
        "`./callboard observers feed traces --all` sends them again."
    ),
)

COLLECTOR_UNREACHABLE = Retryable.row(
    "collector_unreachable",
    "The collector of traces does not answer, or says that it cannot take spans now; they are sent again later.",
    over_http=False,
    text="the collector at {host} took no spans: {reason}",
    remedy="Start the collector, or correct `CALLBOARD_TRACES_URL`.",
)
