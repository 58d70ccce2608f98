"""Settings: what nobody reads, what is read under an earlier name, and periods that contradict each other."""

from __future__ import annotations

import os
from collections.abc import Iterator

from config.settings import SEED_NAMES, Settings, unknown_variables
from web.terminal.looks.finding import Found, Verdict
from web.terminal.supervisor import GRACE_S


def look_at_settings(settings: Settings) -> Found:
    """Yield the variables nobody reads, and which earlier names count."""
    strangers = unknown_variables(dict(os.environ))
    yield from (("warn", sentence) for sentence in strangers)
    for earlier, name in SEED_NAMES.items():
        if os.environ.get(earlier):
            yield "ok", f"{earlier} is read as CALLBOARD_{name.upper()}, unless that is set"
    if not strangers:
        yield "ok", f"deployment {settings.deployment}, {settings.workers} workers of {settings.slots} slots"


def look_at_periods(settings: Settings) -> Found:
    """Yield periods that defeat each other. A beat longer than half a lease is no setting at all."""
    lease_s, reap_s, hot_s = settings.lease_s, settings.reap_s, settings.hot_log_ttl_s
    worst_s = lease_s + reap_s
    if reap_s > lease_s:
        yield (
            "fail",
            f"CALLBOARD_REAP_S ({reap_s:g}) is longer than CALLBOARD_LEASE_S ({lease_s:g}): a run whose worker died "
            f"may lie for {worst_s:g} s, most of them after its lease was over. Make it at most {lease_s:g}.",
        )
    if hot_s < lease_s:
        yield (
            "fail",
            f"CALLBOARD_HOT_LOG_TTL_S ({hot_s}) is shorter than CALLBOARD_LEASE_S ({lease_s:g}): the hot log of a run "
            "whose worker died is gone before another takes over, and its last words with it. Make it at least "
            f"{max(60, round(4 * lease_s))}.",
        )
    if settings.drain_s >= GRACE_S:
        yield (
            "fail",
            f"CALLBOARD_DRAIN_S ({settings.drain_s:g}) is not shorter than the {GRACE_S:g} s after which `up` and "
            "`worker` end a process: steps are cut off that were promised the time. Make it at most "
            f"{GRACE_S - 5:g}, or start `celery worker` under a supervisor that waits longer.",
        )
    yield from _pointless(settings)
    if reap_s <= lease_s <= hot_s and settings.drain_s < GRACE_S:
        yield "ok", f"a run whose worker dies is taken over within about {worst_s:g} s"


def _pointless(settings: Settings) -> Iterator[tuple[Verdict, str]]:
    """Yield what is to be kept longer than the thing it goes with; 0 keeps for ever."""
    pairs = (("runs", "threads"), ("events", "threads"), ("events", "runs"))
    for part, whole in pairs:
        part_days, whole_days = getattr(settings, f"retain_{part}_days"), getattr(settings, f"retain_{whole}_days")
        if part_days > whole_days > 0:
            yield (
                "warn",
                f"CALLBOARD_RETAIN_{part.upper()}_DAYS ({part_days:g}) is longer than CALLBOARD_RETAIN_{whole.upper()}"
                f"_DAYS ({whole_days:g}), and {part} go with their {whole}: they are not kept that long. Make it at "
                f"most {whole_days:g}, or keep {whole} longer.",
            )
