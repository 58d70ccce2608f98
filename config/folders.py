"""Whether `import agents`, `import config` and so on find Callboard's folders, and can work: each folder asks first.

Only the standard library is used here, and no syntax that an old Python cannot read. The other folders run this file by
its path, because another project's `config` may stand in for ours: docs/decisions/0027-imported-from-elsewhere.md.
"""

from __future__ import annotations

import sys
import warnings
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("agents", "bus", "config", "handlers", "observers", "web")
OLDEST_PYTHON = (3, 11)
NEEDED = (
    "alembic", "blinker", "celery", "click", "flask", "flask_sock", "gunicorn", "hiredis", "jsonschema_rs", "kombu",
    "litellm", "mcp", "orjson", "packaging", "pydantic", "pydantic_settings", "dotenv", "yaml", "redis", "rich",
    "sqlalchemy",
)  # fmt: skip
"""What pyproject.toml depends on, by the names under which it is imported."""

_is_checked = False


class FolderTaken(ImportError):
    """Another project's package has the name of one of Callboard's folders, and comes first."""


def require() -> None:
    """Import ``config`` where Callboard can be imported; the first folder of a process asks, for all of them.

    Raises:
        FolderTaken: another project's package comes first; the sentence names its file and the remedy.
        ImportError: this Python is too old, or lacks a package Callboard needs.
    """
    global _is_checked
    if _is_checked:
        return
    _require_packages()
    stranger = first_stranger(ROOT)
    if stranger is not None:
        raise FolderTaken(sentence_about(*stranger, ROOT))
    _is_checked = True
    __import__("config")


def warn_of_hidden_strangers() -> None:
    """Warn of each package of another project that ours hides, at the line that imported Callboard."""
    for folder, file in hidden_strangers():
        warnings.warn(
            f"`import {folder}` finds Callboard's folder and hides {file}: a program that needs both has to talk to "
            f"Callboard over HTTP ({ROOT / 'docs' / 'python.md'}).",
            RuntimeWarning,
            stacklevel=_levels_to_importer(),
        )


def _levels_to_importer() -> int:
    """Return how many calls above ``warn_of_hidden_strangers`` the first line outside of Callboard stands."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(("<frozen", str(ROOT))):
        # Python itself leaves the import system's frames out of its count.
        level += "importlib._bootstrap" not in frame.f_code.co_filename
        frame = frame.f_back
    return level


def first_stranger(root: Path) -> tuple[str, str] | None:
    """Return a folder's name and the file that answers to it instead of ours, or None.

    Where nothing answers, ``root`` is put on ``sys.path``: Celery imports its application from the current folder, and
    takes that off the path again.
    """
    if any(_spec(folder) is None for folder in FOLDERS):
        sys.path.insert(0, str(root))
    for folder in FOLDERS:
        origin = origin_of(_spec(folder)) or "nothing"
        if not Path(origin).resolve().is_relative_to(root.resolve()):
            return folder, origin
    return None


def sentence_about(folder: str, file: str, root: Path) -> str:
    """Return what to do about a stranger."""
    return (
        f"`import {folder}` finds {file} instead of {root / folder}. Where that one is not needed, start through "
        f"./callboard, or set PYTHONPATH={root} (it has to come first; the folder of the program itself comes before "
        f"it, so move the program to another), or uninstall the package that brought it; a program that needs both "
        f"has to talk to Callboard over HTTP ({root / 'docs' / 'python.md'})."
    )


def hidden_strangers() -> list[tuple[str, str]]:
    """Return the packages beside other programs that ours hide: a folder's name and a file, each once.

    Those in ``site-packages`` are left to the doctor: programs seldom mean them.
    """
    places = {str(Path(place or ".").resolve()): None for place in sys.path}
    found = []
    for place in places:
        if place != str(ROOT) and not {"site-packages", "dist-packages"} & set(Path(place).parts):
            specs = ((folder, PathFinder.find_spec(folder, [place])) for folder in FOLDERS)
            found += [(folder, origin) for folder, spec in specs if (origin := _code_of(spec)) is not None]
    return found


def origin_of(spec: ModuleSpec | None) -> str | None:
    """Return the file or folder where a package was found."""
    if spec is None:
        return None
    return spec.origin or next(iter(spec.submodule_search_locations or ()), None)


def _code_of(spec: ModuleSpec | None) -> str | None:
    """Return where a package was found; a folder without any module is no package, whatever its name."""
    origin = origin_of(spec)
    if origin is None or (Path(origin).is_dir() and not any(Path(origin).glob("*.py"))):
        return None
    return origin


def _spec(folder: str) -> ModuleSpec | None:
    try:
        return find_spec(folder)
    except ValueError:  # a module somebody put into sys.modules by hand has no spec
        return None


def _require_packages() -> None:
    if sys.version_info < OLDEST_PYTHON:
        version = ".".join(map(str, sys.version_info[:2]))
        raise ImportError(f"Callboard needs Python 3.11 or later, and {sys.executable} is {version}; {_remedy()}")
    missing = next((name for name in NEEDED if name not in sys.modules and find_spec(name) is None), None)
    if missing is not None:
        raise ImportError(
            f"Callboard needs the package '{missing}', which is not installed in {sys.executable}; {_remedy()}"
        )


def _remedy() -> str:
    program = ROOT / ".venv" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    return (
        f"run the program with {program} (`./callboard up` makes it), install {ROOT / 'requirements.lock'}, or talk to "
        f"Callboard over HTTP ({ROOT / 'docs' / 'python.md'})."
    )
