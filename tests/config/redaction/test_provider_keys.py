"""A process without the providers' keys, which still knows which there are."""

from __future__ import annotations

import os

import pytest

from config.redaction.provider_keys import NAMES_HELD, has_key, without_keys
from config.settings import adopt_env_file, loader

SECRET = "0123456789abcdef"


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AZURE_CLIENT_SECRET", "MY_PASSWORD", "ODD_NAME"],
)
def test_keys_stay_away_and_their_names_are_handed_over(name: str) -> None:
    left = without_keys({name: SECRET, "LANG": "C"}, named=["ODD_NAME"])

    assert SECRET not in str(left)
    assert left["LANG"] == "C"
    assert has_key(left, name)
    assert not has_key(left, "ANTHROPIC_API_KEY")


@pytest.mark.parametrize("name", ["CALLBOARD_DATABASE_URL", "PGPASSWORD", "HOME", "SSL_CERT_FILE"])
def test_what_the_web_process_needs_stays(name: str) -> None:
    assert without_keys({name: SECRET})[name] == SECRET


def test_a_key_that_looks_like_a_path_stays_away_and_a_file_s_path_does_not() -> None:
    left = without_keys({"AWS_SECRET_ACCESS_KEY": f"/{SECRET}", "GOOGLE_APPLICATION_CREDENTIALS": __file__})

    assert SECRET not in str(left)
    assert left["GOOGLE_APPLICATION_CREDENTIALS"] == __file__


def test_an_empty_key_is_not_held() -> None:
    assert without_keys({"OPENAI_API_KEY": ""})[NAMES_HELD] == ""


def test_a_file_gives_no_key_to_a_process_that_holds_none(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={SECRET}\nODD_NAME={SECRET}\nHTTP_PROXY_HINT=plain\n")  # type: ignore[operator]
    monkeypatch.setattr(loader, "ROOT", tmp_path)
    monkeypatch.setattr(loader, "reads_files", lambda: True)
    monkeypatch.setenv(NAMES_HELD, "ODD_NAME")
    for name in ("OPENAI_API_KEY", "ODD_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY_HINT", "")
    monkeypatch.delenv("HTTP_PROXY_HINT")

    adopt_env_file()

    assert "OPENAI_API_KEY" not in os.environ
    assert "ODD_NAME" not in os.environ
    assert os.environ.pop("HTTP_PROXY_HINT") == "plain"
