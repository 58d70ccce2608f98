"""The files of a new capability: its definition, what carries it out, and its test; templates lie beside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent
KINDS = ("process", "container", "http", "function")


def files_of(kind: str, name: str, folder: Path, root: Path, image: str) -> dict[Path, str]:
    """Return the files of a new capability by their paths: the definition, the code where there is any, the test.

    ``folder`` is that of the definitions, ``root`` the folder that tests run in.
    """
    facts = {"NAME": name, "TITLE": name.replace("_", " ").capitalize(), "IMAGE": image}
    places = {
        "definition.yaml.txt": folder / f"{name}.yaml",
        "program.py.txt": folder / f"{name}.py",
        "function.py.txt": root / f"{name}.py",
        "test.py.txt": root / "tests" / f"test_{name}.py",
    }
    files = {}
    for template, target in places.items():
        path = FOLDER / kind / template
        if path.exists():
            files[target] = _filled(path.read_text(), facts)
    return files


def _filled(text: str, facts: Mapping[str, str]) -> str:
    for word, value in facts.items():
        text = text.replace(f"@{word}@", value)
    return text
