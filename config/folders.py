"""Check that `import agents`, `import config` and so on find Callboard's folders; each folder runs this check first.

It uses only the standard library, and no syntax that an old Python cannot parse. The other folders run this file by its
path, because `import config` may find another project's package: docs/decisions/0001-plain-folders.md.
"""

from __future__ import annotations

import sys
import warnings
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("agents", "bus", "cli", "config", "handlers", "observers", "web")
OLDEST_PYTHON = (3, 11)
NEEDED = tuple(
    """
    aiohttp alembic authlib blinker brotli cel_expr_python celery click cryptography discord flask flask_sock gunicorn
    hiredis httpx httpx_sse httpx2 joserfc jsonschema_rs kombu limits litellm mcp minijinja opentelemetry orjson
    prometheus_client pydantic pydantic_settings dotenv re2 redis slack_bolt sqlalchemy wrapt yaml
    """.split()
)
"""The dependencies of pyproject.toml, by their import names."""

_is_checked = False


class FolderTaken(ImportError):
    """Another project's package has the name of one of Callboard's folders, and precedes it on ``sys.path``."""


def require() -> None:
    """Import ``config`` if Callboard can be imported; the first imported folder checks for all.

    Raises:
        FolderTaken: another project's package comes first; the message names its file and the remedy.
        ImportError: this Python is too old, or lacks a dependency.
    """
    global _is_checked
    if _is_checked:
        return
    _require_packages()
    foreign = first_foreign_package(ROOT)
    if foreign is not None:
        raise FolderTaken(describe_conflict(*foreign, ROOT))
    _is_checked = True
    __import__("config")


def require_own_folders(root: Path = ROOT) -> None:
    """Return if each folder's name imports the folder in ``root``, which is added to ``sys.path`` if necessary.

    Raises:
        ROOM_TAKEN: another package is imported; the message names its file and the remedy.
    """
    foreign = first_foreign_package(root)
    if foreign is not None:
        from config.errors import ROOM_TAKEN

        raise ROOM_TAKEN(describe_conflict(*foreign, root), room=foreign[0], found=foreign[1])


def warn_of_hidden_packages() -> None:
    """Warn about each package of another project that ours hides, at the line that imported Callboard.

    The doctor reports those in ``site-packages``, which programs rarely use.
    """
    places = {str(Path(entry or ".").resolve()): None for entry in sys.path}
    for path_entry in places:
        if path_entry == str(ROOT) or {"site-packages", "dist-packages"} & set(Path(path_entry).parts):
            continue
        for folder, file in foreign_packages(path_entry).items():
            if Path(file).is_dir() and not any(Path(file).glob("*.py")):
                continue  # a folder of that name without any module
            warnings.warn(
                f"`import {folder}` finds Callboard's folder and hides {file}: a program that needs both has to talk "
                f"to Callboard over HTTP ({ROOT / 'docs' / 'python.md'}).",
                RuntimeWarning,
                stacklevel=_levels_to_importer(),
            )


def _levels_to_importer() -> int:
    """Return how many calls above ``warn_of_hidden_packages`` the first line outside Callboard is."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(("<frozen", str(ROOT))):
        # Python does not count the import system's frames.
        level += "importlib._bootstrap" not in frame.f_code.co_filename
        frame = frame.f_back
    return level


def first_foreign_package(root: Path) -> tuple[str, str] | None:
    """Return a folder's name and the file that is imported instead of ours, or None.

    If a folder is not found, ``root`` is added to ``sys.path``: Celery imports its application from the current folder,
    and then removes that from the path.
    """
    if any(_spec(folder) is None for folder in FOLDERS):
        sys.path.insert(0, str(root))
    for folder in FOLDERS:
        origin = _origin_of(_spec(folder)) or "nothing"
        if not Path(origin).resolve().is_relative_to(root.resolve()):
            return folder, origin
    return None


def describe_conflict(folder: str, file: str, root: Path) -> str:
    """Return a message that names the conflict and its remedies."""
    return (
        f"`import {folder}` finds {file} instead of {root / folder}. If that one is not needed, start through "
        f"./callboard, or set PYTHONPATH={root} (it has to come first; the folder of the program itself comes before "
        f"it, so move the program to another), or uninstall the package that brought it; a program that needs both "
        f"has to talk to Callboard over HTTP ({root / 'docs' / 'python.md'})."
    )


def foreign_packages(path_entry: str | None = None) -> dict[str, str]:
    """Return the packages with a name of ours in a folder: their files or folders, by name.

    ``place``: None is the folder of the installed packages.
    """
    origins = {
        folder: _origin_of(PathFinder.find_spec(folder, [path_entry or get_path("purelib")])) for folder in FOLDERS
    }
    return {folder: origin for folder, origin in origins.items() if origin is not None}


def _origin_of(spec: ModuleSpec | None) -> str | None:
    """Return the file or folder where a package was found."""
    if spec is None:
        return None
    return spec.origin or next(iter(spec.submodule_search_locations or ()), None)


def _spec(folder: str) -> ModuleSpec | None:
    try:
        return find_spec(folder)
    except ValueError:  # a module that was put into sys.modules by hand has no spec
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
    program = ROOT / ".venv" / "bin" / "python"
    return (
        f"run the program with {program} (`./callboard up` makes it), install {ROOT / 'requirements.lock'}, or talk to "
        f"Callboard over HTTP ({ROOT / 'docs' / 'python.md'})."
    )
