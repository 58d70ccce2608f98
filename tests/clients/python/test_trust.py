"""Trusted certificates are read once a process, and again where another file is named."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from callboard_client import AsyncCallboard, Callboard
from callboard_client.trust import trusted


def test_clients_of_one_process_read_the_certificates_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trusted()
    monkeypatch.setattr(httpx, "create_ssl_context", None)

    for kind in (Callboard, AsyncCallboard):
        assert kind("http://127.0.0.1:1", api_key="k")._transport._http() is not None
    assert trusted() is trusted()


def test_another_file_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trusted()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))

    with pytest.raises(FileNotFoundError):
        trusted()
