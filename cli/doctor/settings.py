"""Checks of settings: unknown variables, earlier names, contradicting periods, sections of principals, and plugins.

A path of CALLBOARD_PLUGINS has to name an observer, a tool, or a module that can be imported.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from types import ModuleType

from agents.catalogue import find_tool
from bus.identity import principals
from cli.supervisor.supervisor import GRACE_S
from config.database.engine import Database
from config.definitions.dotted_path import NotImportable, import_path
from config.definitions.errors import PluginUnknown
from config.errors import CallboardError
from config.settings import SEED_NAMES, SEED_NAMES_UNREAD, Settings, unknown_settings
from config.text.names import did_you_mean
from observers.discovery import OBSERVERS
from web.doctor import Verdicts, fail, ok, warn
from web.doctor.database import reading_database


def check_settings(settings: Settings) -> Verdicts:
    """Yield the names that no setting reads, and the earlier names in use."""
    unknown = unknown_settings()
    yield from map(warn, unknown)
    for earlier, name in SEED_NAMES.items():
        if os.environ.get(earlier):
            yield ok(f"{earlier} is read as CALLBOARD_{name.upper()} unless that is set")
    for earlier, why in SEED_NAMES_UNREAD.items():
        if os.environ.get(earlier):
            yield ok(f"{earlier} is not read: {why}")
    if not unknown:
        yield ok(f"deployment {settings.deployment}; {_counts(settings)}")


def _counts(settings: Settings) -> str:
    """Return how many workers would be started; those that were are counted by ``check_workers``."""
    number = "1 worker process" if settings.workers == 1 else f"{settings.workers} worker processes"
    return f"`up` and `worker` without options start {number} of {settings.slots} slots"


def check_periods(settings: Settings) -> Verdicts:
    """Yield periods that contradict each other. Settings itself refuses a beat longer than half a lease."""
    lease_s, reap_s, hot_s = settings.lease_s, settings.reap_s, settings.hot_log_ttl_s
    worst_s = lease_s + reap_s
    if reap_s > lease_s:
        yield fail(
            f"CALLBOARD_REAP_S ({reap_s:g}) is longer than CALLBOARD_LEASE_S ({lease_s:g}): a run whose worker died "
            f"may wait {worst_s:g} s, most of it after the lease expired. Set it to at most {lease_s:g}."
        )
    if hot_s < lease_s:
        yield fail(
            f"CALLBOARD_HOT_LOG_TTL_S ({hot_s}) is shorter than CALLBOARD_LEASE_S ({lease_s:g}): the hot log of a run "
            "whose worker died expires before another worker takes the run over, and its last text is lost. Set it to "
            f"at least {max(60, round(4 * lease_s))}."
        )
    if settings.drain_s >= GRACE_S:
        yield fail(
            f"CALLBOARD_DRAIN_S ({settings.drain_s:g}) is not shorter than the {GRACE_S:g} s after which `up` and "
            "`worker` kill a process: steps are cut off before the drain ends. Set it to at most "
            f"{GRACE_S - 5:g}, or start `celery worker` under a supervisor that waits longer."
        )
    yield from _pointless(settings)
    if reap_s <= lease_s <= hot_s and settings.drain_s < GRACE_S:
        yield ok(f"a run whose worker dies is taken over within about {worst_s:g} s")


def outlived(settings: Settings) -> Iterator[tuple[str, float, str, float]]:
    """Yield the parts whose retention is longer than that of their whole, with the days of both; 0 keeps for ever."""
    for part, whole in (("runs", "threads"), ("events", "threads"), ("events", "runs")):
        part_days, whole_days = getattr(settings, f"retain_{part}_days"), getattr(settings, f"retain_{whole}_days")
        if part_days > whole_days > 0:
            yield part, part_days, whole, whole_days


def _pointless(settings: Settings) -> Verdicts:
    for part, part_days, whole, whole_days in outlived(settings):
        yield warn(
            f"CALLBOARD_RETAIN_{part.upper()}_DAYS ({part_days:g}) is longer than CALLBOARD_RETAIN_{whole.upper()}"
            f"_DAYS ({whole_days:g}), and {part} are removed with their {whole}. Set it to at most "
            f"{whole_days:g}, or keep {whole} longer."
        )


def check_plugins(settings: Settings) -> Verdicts:
    """Yield each plugin that cannot be used; ``check_agents`` sees only those that an agent names."""
    broken = list(broken_plugins(settings))
    yield from map(fail, broken)
    if settings.plugin_paths and not broken:
        yield ok(f"{len(settings.plugin_paths)} can be used")


def broken_plugins(settings: Settings) -> Iterator[str]:
    """Yield an error with its remedy for each path that cannot be used."""
    for path in settings.plugin_paths:
        try:
            thing = import_path(path, settings)
            if inspect.isclass(thing):
                OBSERVERS.find(path, settings)
            elif not isinstance(thing, ModuleType):
                find_tool(path, settings)
        except NotImportable as error:
            yield f"CALLBOARD_PLUGINS: '{path}' {error} [{PluginUnknown.code}]"
        except CallboardError as error:
            yield f"CALLBOARD_PLUGINS: {error} [{error.code}]"


def check_tenants(settings: Settings) -> Verdicts:
    """Yield the settings of each section. A wrong name or value ends each command at its start, also this one."""
    for name, section in sorted(settings.tenants.items()):
        values = section.model_dump(exclude_none=True)
        if not values:
            yield warn(f"[tenants.{name}] sets nothing; add a setting, or remove the section.")
            continue
        yield ok(f"{name}: {', '.join(f'{setting} {_shown(value)}' for setting, value in values.items())}")
        yield from _unreached(name, values)
        for part, days, whole, whole_days in outlived(settings.for_tenant(name)):
            if f"retain_{part}_days" in values or f"retain_{whole}_days" in values:
                yield warn(
                    f"{name}: retain_{part}_days ({days:g}) is longer than retain_{whole}_days ({whole_days:g}), and "
                    f"{part} are removed with their {whole}. Set it to at most {whole_days:g}, or keep {whole} longer."
                )
    if settings.tenants:
        yield from _unused(settings)


def _shown(value: int | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _unreached(name: str, values: dict[str, int | float]) -> Verdicts:
    """Yield the limits of a principal that its tenant's limit is below; 0 is no limit."""
    for setting, limit in values.items():
        whole = setting.replace("principal_", "tenant_")
        if whole != setting and 0 < values.get(whole, 0) < limit:
            yield warn(
                f"{name}: {setting} ({limit}) is above {whole} ({values[whole]}), so that one principal can take "
                f"all of the tenant's. Set it to less than {values[whole]}."
            )


@reading_database
def _unused(settings: Settings, database: Database) -> Verdicts:
    """Yield the sections of tenants that the database does not know: a new one, or a mistake in the name."""
    with database.read() as connection:
        unused = principals.unused(connection, sorted(settings.tenants))
        names = {settings.tenant, *principals.with_keys(connection)}
    for name in unused:
        yield ok(f"{name}: nothing in the database is of this tenant yet.{did_you_mean(name, names)}")
