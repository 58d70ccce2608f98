"""A LiteLLM that steals keys is neither imported nor worked with."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents.models.errors import ReleaseRefused
from agents.models.releases import TROJANED, installed_release, require_sound_release
from config.folders import ROOT


def install(folder: Path, release: str) -> Path:
    """Put a package into ``folder`` that says it is LiteLLM and, when it is imported, leaves a trace."""
    facts = folder / f"litellm-{release}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: litellm\nVersion: {release}\n")
    (folder / "litellm").mkdir()
    (folder / "litellm" / "__init__.py").write_text(f"open({str(folder / 'stolen')!r}, 'w').close()\n")
    return folder


def test_the_installed_release_is_sound():
    require_sound_release()

    assert installed_release()


@pytest.mark.parametrize("release", TROJANED)
def test_a_trojaned_release_is_refused_with_what_to_do(monkeypatch, tmp_path, release):
    monkeypatch.syspath_prepend(install(tmp_path, release))

    with pytest.raises(ReleaseRefused, match=rf"LiteLLM {release} .* change every key .* remove \.venv") as caught:
        require_sound_release()

    assert caught.value.code == "release_refused"


@pytest.mark.parity
def test_a_trojaned_release_is_not_even_imported(tmp_path):
    install(tmp_path, "1.82.8")
    code = "from agents.models.lite import litellm_module\nlitellm_module()"

    ran = run(["-c", code], tmp_path)

    assert "ReleaseRefused" in ran.stderr
    assert not (tmp_path / "stolen").exists()


@pytest.mark.journey
def test_no_worker_starts_with_a_trojaned_release(tmp_path):
    install(tmp_path, "1.82.7")

    ran = run(["-m", "celery", "--quiet", "-A", "bus.celery_app", "worker"], tmp_path)

    assert ran.returncode != 0
    assert "error: LiteLLM 1.82.7 is a trojaned release" in ran.stderr
    assert "[release_refused]" in ran.stderr
    assert not (tmp_path / "stolen").exists()


def run(arguments: list[str], packages: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with ``packages`` before everything that is installed."""
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{packages}",
        "CALLBOARD_STATE_DIR": str(packages / "state"),
        "CALLBOARD_BROKER_URL": "memory://localhost/",
    }
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=50
    )
