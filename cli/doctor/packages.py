"""Checks of what is installed: LiteLLM's release, files that run code whenever Python starts, names of our folders."""

from __future__ import annotations

import base64
import hashlib
import platform
import site
from collections.abc import Iterator, Sequence
from importlib.metadata import PackagePath, distributions
from pathlib import Path
from sysconfig import get_path

from agents.models.releases import REMEDY, TROJAN_FILE, TROJANED, installed_release
from config.folders import foreign_packages, require_own_folders
from config.settings import Settings
from config.settings.project import own_version
from web.doctor import Verdicts, fail, ok, warn

VIRTUALENV = ("_virtualenv.pth", b"import _virtualenv")
"""The file that virtualenv and uv put into each environment; it belongs to no package."""


START = "runs code whenever Python starts"
INSPECT = "Inspect it, and delete it if you did not put it there."


def check_folders(_: Settings) -> Verdicts:
    """Yield the installed packages that have the name of a folder of ours."""
    require_own_folders()
    foreign = foreign_packages()
    for folder, file in foreign.items():
        yield warn(
            f"{file} has the name of our folder {folder}/; ours wins while ./callboard starts things. Uninstall it."
        )
    if not foreign:
        yield ok("each import finds Callboard's own folder")


def check_packages(_: Settings) -> Verdicts:
    """Yield whether LiteLLM is a trusted release, and which ``.pth`` files are not trusted."""
    release = installed_release()
    if release is None:
        yield fail("litellm is not installed; run ./callboard again, which installs missing packages")
    elif release in TROJANED:
        yield fail(f"litellm {release} is a trojaned release; {REMEDY}")
    else:
        yield ok(f"callboard {own_version()}, Python {platform.python_version()}, litellm {release}")
    yield from start_files(package_folders())


def package_folders() -> list[Path]:
    """Return the folders whose ``.pth`` files this Python reads at its start."""
    folders = [get_path("purelib"), get_path("platlib"), *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return [Path(folder) for folder in dict.fromkeys(folders)]


def start_files(folders: Sequence[Path]) -> Verdicts:
    """Yield the ``.pth`` files that run code and match no installed package's RECORD (name and digest)."""
    for folder in folders:
        recorded = {file.name: file for file in _recorded(folder)}
        for path in sorted(folder.glob("*.pth")):
            content, entry = path.read_bytes(), recorded.get(path.name)
            if path.name == TROJAN_FILE:
                yield fail(f"{path} is a remnant of a trojaned LiteLLM and runs whenever Python starts; {REMEDY}")
            elif not _runs_code(content) or (path.name, content.strip()) == VIRTUALENV:
                continue
            elif entry is None:
                yield warn(f"{path} {START}, and belongs to no installed package. {INSPECT}")
            elif not _has_digest(entry, content):
                yield warn(f"{path} {START}, and was changed after its installation. {INSPECT}")


def _recorded(folder: Path) -> Iterator[PackagePath]:
    for distribution in distributions(path=[str(folder)]):
        yield from (file for file in distribution.files or () if file.suffix == ".pth" and len(file.parts) == 1)


def _runs_code(content: bytes) -> bool:
    """Return whether ``site`` would execute a line of the file."""
    lines = content.removeprefix(b"\xef\xbb\xbf").splitlines()
    return any(line.startswith((b"import ", b"import\t")) for line in lines)


def _has_digest(entry: PackagePath, content: bytes) -> bool:
    if entry.hash is None:
        return True
    if entry.hash.mode not in hashlib.algorithms_guaranteed:
        return False
    digest = hashlib.new(entry.hash.mode, content).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == entry.hash.value
