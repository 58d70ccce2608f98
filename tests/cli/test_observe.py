"""`observe`: what it refuses before it feeds anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.main import status_of

SHOP = "shop: {class: webhooks, tenants: [default], options: {url: 'https://a.example', secret: env:S}}\n"


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["webhooks", "shop"], "an observer is named twice"),
        (["webhook"], "observer 'webhook'"),
    ],
)
def test_it_feeds_nothing_where_one_name_cannot_be_fed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], names: list[str], problem: str
) -> None:
    (tmp_path / "observers.yaml").write_text(SHOP)
    monkeypatch.setenv("CALLBOARD_OBSERVERS_FILE", str(tmp_path / "observers.yaml"))

    assert status_of(["observe", *names, "--state-dir", str(tmp_path / "state")]) == 2

    assert problem in capsys.readouterr().err
    assert not (tmp_path / "state" / "callboard.db").exists()
