"""Checks of the sections ``[tenants.NAME]``: what each sets, what contradicts itself, and names that nothing has."""

from __future__ import annotations

from cli.doctor.database import reading_database
from cli.doctor.finding import Verdicts, ok, warn
from cli.doctor.settings import outlived
from config.database.engine import Database
from config.identity import tenants
from config.settings import Settings
from config.spelling import did_you_mean


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
        unused = tenants.unused(connection, sorted(settings.tenants))
        known = {settings.tenant, *tenants.with_keys(connection)}
    for name in unused:
        yield ok(f"{name}: nothing in the database is of this tenant yet.{did_you_mean(name, known)}")
