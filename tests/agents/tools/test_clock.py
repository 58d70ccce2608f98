"""The time in a place."""

import re
import zoneinfo
from datetime import datetime, timedelta

import pytest

from agents.tools.clock import clock, zone_of
from config.errors import ToolFailed


@pytest.mark.parametrize(
    ("city", "zone"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Tokyo", "Asia/Tokyo"),
        ("lima", "America/Lima"),
        ("São Paulo", "America/Sao_Paulo"),
        ("new york", "America/New_York"),
        ("San Francisco", "America/Los_Angeles"),
        ("Buenos Aires", "America/Buenos_Aires"),
        ("", "UTC"),
        ("UTC", "UTC"),
    ],
)
def test_a_city_names_its_zone(city, zone):
    time_zone = zone_of(city)

    assert time_zone is not None
    assert offset(time_zone) == offset(zone)


def offset(zone):
    return datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo(zone)).utcoffset()


def test_every_city_that_is_named_has_a_zone_that_exists():
    from agents.tools.clock import _ALSO

    assert set(_ALSO.values()) <= zoneinfo.available_timezones()


def test_returns_date_time_and_offset():
    answer = clock("Asia/Tokyo")

    assert answer["utc_offset"] == "+09:00"
    assert re.fullmatch(r"\d\d:\d\d", answer["time"])
    assert re.fullmatch(r"[A-Z][a-z]+day, \d{1,2} [A-Z][a-z]+ \d{4}", answer["date"])
    assert datetime.fromisoformat(answer["iso"]).utcoffset() == timedelta(hours=9)


@pytest.mark.parametrize(
    ("city", "words"),
    [
        ("Toyko", "Did you mean 'tokyo'?"),
        ("Europ/Berlin", "Did you mean 'Europe/Berlin'?"),
        ("../../etc/passwd", "no time zone"),
        ("\ud800", "no time zone"),
        ("x" * 5000, "no time zone"),
    ],
)
def test_no_place_is_answered_with_the_nearest(city, words):
    with pytest.raises(ToolFailed) as caught:
        clock(city)

    assert words in str(caught.value)
