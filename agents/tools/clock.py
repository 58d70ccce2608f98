"""The time, anywhere."""

from __future__ import annotations

import unicodedata
import zoneinfo
from functools import lru_cache

from agents.tools.tool import tool
from config.clock import utc_now
from config.errors import ToolFailed, did_you_mean

_ALSO = {
    "beijing": "Asia/Shanghai", "mumbai": "Asia/Kolkata", "delhi": "Asia/Kolkata", "new delhi": "Asia/Kolkata",
    "bangalore": "Asia/Kolkata", "san francisco": "America/Los_Angeles", "seattle": "America/Los_Angeles",
    "washington": "America/New_York", "boston": "America/New_York", "miami": "America/New_York",
    "dallas": "America/Chicago", "houston": "America/Chicago", "montreal": "America/Toronto",
    "rio de janeiro": "America/Sao_Paulo", "rio": "America/Sao_Paulo", "brasilia": "America/Sao_Paulo",
    "munich": "Europe/Berlin", "hamburg": "Europe/Berlin", "frankfurt": "Europe/Berlin", "cologne": "Europe/Berlin",
    "barcelona": "Europe/Madrid", "milan": "Europe/Rome", "geneva": "Europe/Zurich", "edinburgh": "Europe/London",
    "cape town": "Africa/Johannesburg", "abuja": "Africa/Lagos", "kyoto": "Asia/Tokyo", "osaka": "Asia/Tokyo",
    "hanoi": "Asia/Ho_Chi_Minh", "abu dhabi": "Asia/Dubai", "islamabad": "Asia/Karachi", "saigon": "Asia/Ho_Chi_Minh",
    "utc": "UTC", "gmt": "UTC", "here": "UTC",
}  # fmt: skip
"""Cities people ask for that the time zone database files under another one."""


@tool(effect="pure", timeout_s=5)
def clock(timezone: str = "UTC") -> dict[str, str]:
    """Tell the date and time now.

    Args:
        timezone: an IANA time zone like Europe/Berlin, or a city like Tokyo. UTC when left out.
    """
    name = zone_of(timezone)
    if name is None:
        words = timezone.strip()[:80]
        zones = did_you_mean(words, _zones().values())
        near = zones if zones and "/" in words else did_you_mean(_key(words), _cities()) or zones
        raise ToolFailed(f"'{words}' is no time zone.{near} Write one like Europe/Berlin.")
    now = utc_now().astimezone(zoneinfo.ZoneInfo(name))
    return {
        "timezone": name,
        "iso": now.isoformat(timespec="seconds"),
        "date": f"{now:%A}, {now.day} {now:%B} {now.year}",
        "time": f"{now:%H:%M}",
        "utc_offset": f"{now:%z}"[:3] + ":" + f"{now:%z}"[3:5],
    }


def zone_of(place: str) -> str | None:
    """Return the time zone of a city, or of a zone's own name in any case; None when there is none."""
    if not place.strip():
        return "UTC"
    key = _key(place)
    return _ALSO.get(key) or _cities().get(key) or _zones().get(key.replace(" ", "_"))


def _key(place: str) -> str:
    plain = unicodedata.normalize("NFKD", place).encode("ascii", "ignore").decode()
    return " ".join(plain.lower().replace("_", " ").split())


@lru_cache(maxsize=1)
def _zones() -> dict[str, str]:
    return {name.lower(): name for name in zoneinfo.available_timezones()}


@lru_cache(maxsize=1)
def _cities() -> dict[str, str]:
    regions = ("Africa", "America", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
    names = (name for name in sorted(_zones().values()) if name.split("/")[0] in regions)
    return {_key(name.rsplit("/", 1)[-1]): name for name in names}
