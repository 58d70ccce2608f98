from __future__ import annotations

import base64
import hashlib
import re

import pytest

from cli.doctor.packages import check_packages, package_folders, start_files
from cli.doctor.settings import check_settings
from config.settings import ROOT, SEED_NAMES, SEED_NAMES_UNREAD, Settings, read_settings
from config.settings.project import own_version
from tests.agents.models.test_releases import install
from tests.cli.doctor.conftest import only, verdicts

CODE = "import os; os.environ.setdefault('X', '1')\n"


def test_the_releases_in_use_are_named(settings):
    verdict, text = next(check_packages(settings))

    assert verdict == "ok"
    assert text.startswith(f"callboard {own_version()}, Python 3.")


@pytest.fixture
def packages(tmp_path):
    """A folder of packages with one that has a start file of its own."""
    folder = tmp_path / "site-packages"
    facts = folder / "honest-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: honest\nVersion: 1.0\n")
    (folder / "honest.pth").write_text(CODE)
    digest = base64.urlsafe_b64encode(hashlib.sha256(CODE.encode()).digest()).rstrip(b"=").decode()
    (facts / "RECORD").write_text(f"honest.pth,sha256={digest},{len(CODE)}\nhonest-1.0.dist-info/RECORD,,\n")
    return folder


@pytest.mark.parity
def test_our_own_installation_is_fine():
    """Its editable install has a start file, and so has setuptools."""
    assert any(list(folder.glob("*.pth")) for folder in package_folders())
    assert list(start_files(package_folders())) == []


def test_a_file_that_its_package_answers_for_is_fine(packages):
    assert list(start_files([packages])) == []


def test_a_start_file_of_no_package_is_reported(packages):
    (packages / "zz_update.pth").write_text("# harmless\n/some/folder\nimport base64;exec('1')\n")

    verdict, text = only(start_files([packages]))

    assert verdict == "warn"
    assert str(packages / "zz_update.pth") in text
    assert "delete it" in text


def test_a_file_that_was_changed_since_is_reported(packages):
    (packages / "honest.pth").write_text(CODE + "import base64;exec('1')\n")

    verdict, text = only(start_files([packages]))

    assert (verdict, "was changed after" in text) == ("warn", True)


def test_what_the_trojan_left_behind_fails_even_if_a_package_names_it(packages):
    (packages / "litellm_init.pth").write_text(CODE)
    (packages / "honest-1.0.dist-info" / "RECORD").write_text("honest.pth,,\nlitellm_init.pth,,\n")

    verdict, text = only(start_files([packages]))

    assert verdict == "fail"
    assert "change every key" in text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("paths.pth", "/opt/lib\n../other\n# import os\n"),
        ("_virtualenv.pth", "import _virtualenv"),
        ("imports.pth", "importlib_things\n"),
    ],
)
def test_files_that_only_name_folders_or_come_with_every_environment_are_fine(packages, name, content):
    (packages / name).write_text(content)

    assert list(start_files([packages])) == []


def test_a_stranger_behind_virtualenvs_name_is_reported(packages):
    (packages / "_virtualenv.pth").write_text("import _virtualenv\nimport os\n")

    assert verdicts(start_files([packages])) == ["warn"]


@pytest.mark.parity
def test_a_trojaned_release_is_refused(settings, monkeypatch, tmp_path):
    assert verdicts(check_packages(settings)) == ["ok"]
    monkeypatch.syspath_prepend(install(tmp_path, "1.82.8"))

    verdict, text = only(check_packages(settings))

    assert verdict == "fail"
    assert "litellm 1.82.8 is a trojaned release; change every key" in text


def test_each_name_of_an_earlier_system_is_read_as_the_documents_say() -> None:
    table = re.findall(
        r"^\| `(\w+)` \| `CALLBOARD_(\w+)`", (ROOT / "docs" / "configuration.md").read_text(), re.MULTILINE
    )
    names = {name: setting.lower() for name, setting in table if not name.startswith("CALLBOARD_")}

    assert names == SEED_NAMES


@pytest.mark.parametrize(
    ("name", "value", "setting", "read"),
    [
        ("TEMPORAL_NAMESPACE", "shop", "deployment", "shop"),
        ("TEMPORAL_TASK_QUEUE", "orders", "queue", "orders"),
        ("DATABASE_POOL_SIZE", "7", "database_pool_size", 7),
        ("DATABASE_MAX_OVERFLOW", "9", "database_max_overflow", 9),
    ],
)
def test_a_name_of_an_earlier_system_sets_what_it_set_there(
    name: str, value: str, setting: str, read: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)

    assert read_settings().model_dump(exclude_unset=True, exclude={"no_config"}) == {setting: read}


def test_each_name_of_an_earlier_system_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SEED_NAMES, *SEED_NAMES_UNREAD):
        monkeypatch.setenv(name, "x")

    texts = [text for _, text in check_settings(Settings.model_construct())]

    assert {"MCP_ROLES", "MCP_INITIATOR_ID", "TEMPORAL_UI_URL", "ENABLE_DAGGER_E2E"} < SEED_NAMES.keys()
    for name, setting in SEED_NAMES.items():
        assert f"{name} is read as CALLBOARD_{setting.upper()} unless that is set" in texts
    for name, why in SEED_NAMES_UNREAD.items():
        assert f"{name} is not read: {why}" in texts
