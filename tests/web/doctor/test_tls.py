"""The doctor sees certificates that expire before clients do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from config.settings import Settings
from tests.certificates import Authority
from web.doctor.tls import check_tls


def checked(settings: Settings, folder: Path, *, days: int = 30, after_days: float = 0) -> list[tuple[str, str]]:
    pair = Authority(folder).issue("server", days=days)
    chosen = settings.model_copy(update={"tls_certificate": pair.certificate, "tls_key": pair.key})
    return list(check_tls(chosen, datetime.now(UTC) + timedelta(days=after_days)))


def test_says_nothing_without_tls(settings: Settings) -> None:
    assert list(check_tls(settings)) == []


@pytest.mark.parametrize(
    ("after_days", "verdict", "words"),
    [(0, "ok", "is valid until"), (17, "warn", "expires on"), (31, "fail", "expired on"), (-80, "fail", "valid from")],
)
def test_judges_the_time_that_is_left(
    settings: Settings, tmp_path: Path, after_days: float, verdict: str, words: str
) -> None:
    (finding,) = checked(settings, tmp_path, after_days=after_days)

    assert finding[0] == verdict
    assert words in finding[1]


def test_files_that_do_not_fit_are_a_failure(settings: Settings, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    first_pair, other = authority.issue("one"), authority.issue("other")
    chosen = settings.model_copy(update={"tls_certificate": first_pair.certificate, "tls_key": other.key})

    ((verdict, text),) = check_tls(chosen)

    assert (verdict, "belongs to another certificate" in text) == ("fail", True)


def test_a_key_of_a_group_is_a_warning_and_the_authority_is_checked_too(settings: Settings, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server")
    pair.key.chmod(0o640)
    chosen = settings.model_copy(
        update={
            "tls_certificate": pair.certificate,
            "tls_key": pair.key,
            "tls_client_ca": authority.certificate,
        }
    )

    verdicts = [verdict for verdict, _ in check_tls(chosen)]

    assert verdicts == ["ok", "ok", "warn"]


@pytest.mark.parametrize(
    ("chosen", "verdict", "words"),
    [
        ({"host": "0.0.0.0"}, "warn", "no TLS is configured"),
        ({"public_url": "http://calls.example"}, "warn", "browsers send credentials in plain text"),
        ({"trusted_proxies": "10.0.0.1, 0.0.0.0/0"}, "fail", "every client may choose the address"),
        ({"trusted_proxies": "::/0"}, "fail", "every client may choose the address"),
    ],
)
def test_what_others_could_read_or_forge_is_a_finding(
    settings: Settings, chosen: dict[str, str], verdict: str, words: str
) -> None:
    ((outcome, text),) = check_tls(settings.model_copy(update=chosen))

    assert (outcome, words in text) == (verdict, True)


@pytest.mark.parametrize(
    "chosen",
    [
        {"public_url": "https://calls.example", "trusted_proxies": "10.0.0.0/8, unix"},
        {"host": "10.0.0.1", "trusted_proxies": "10.0.0.7"},
        {"public_url": "http://localhost:9000"},
    ],
)
def test_an_address_behind_a_proxy_is_no_finding(settings: Settings, chosen: dict[str, str]) -> None:
    assert list(check_tls(settings.model_copy(update=chosen))) == []
