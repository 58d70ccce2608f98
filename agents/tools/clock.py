"""A tool that returns the date and time in any time zone."""

from __future__ import annotations

import unicodedata
import zoneinfo
from functools import lru_cache
from typing import Annotated

from pydantic import Field

from agents.tools.tool import tool
from config.clock import utc_now
from config.errors import ToolFailed
from config.text.names import did_you_mean

_CITIES = {
    "Asia/Shanghai": "beijing",
    "Asia/Kolkata": "mumbai, delhi, new delhi, bangalore",
    "America/Los_Angeles": "san francisco, seattle",
    "America/New_York": "washington, boston, miami",
    "America/Chicago": "dallas, houston",
    "America/Toronto": "montreal",
    "America/Sao_Paulo": "rio de janeiro, rio, brasilia",
    "Europe/Berlin": "munich, hamburg, frankfurt, cologne",
    "Europe/Madrid": "barcelona",
    "Europe/Rome": "milan",
    "Europe/Zurich": "geneva",
    "Europe/London": "edinburgh",
    "Africa/Johannesburg": "cape town",
    "Africa/Lagos": "abuja",
    "Asia/Tokyo": "kyoto, osaka",
    "Asia/Ho_Chi_Minh": "hanoi, saigon",
    "Asia/Dubai": "abu dhabi",
    "Asia/Karachi": "islamabad",
    "UTC": "utc, gmt, here",
}
_ALSO = {city: zone for zone, cities in _CITIES.items() for city in cities.split(", ")}
"""Cities that the time zone database lists under another city's name."""


@tool(effect="pure", timeout_s=5)
def clock(timezone: Annotated[str, Field(max_length=200)] = "UTC") -> dict[str, str]:
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


def zone_of(location: str) -> str | None:
    """Return the time zone of a city, or of a zone's own name in any case; None when there is none."""
    if not location.strip():
        return "UTC"
    key = _key(location)
    return _ALSO.get(key) or _cities().get(key) or _zones().get(key.replace(" ", "_"))


def _key(location: str) -> str:
    plain = unicodedata.normalize("NFKD", location).encode("ascii", "ignore").decode()
    return " ".join(plain.lower().replace("_", " ").split())


@lru_cache(maxsize=1)
def _zones() -> dict[str, str]:
    return {name.lower(): name for name in zoneinfo.available_timezones()}


@lru_cache(maxsize=1)
def _cities() -> dict[str, str]:
    regions = ("Africa", "America", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
    names = (name for name in sorted(_zones().values()) if name.split("/")[0] in regions)
    return {_key(name.rsplit("/", 1)[-1]): name for name in names}
