"""The pictures of the documents are made from the running page, and the documents have each of them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from config.folders import ROOT
from tests.browser import pictures

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

DOCS = ROOT / "docs"


def sizes(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the width and height of each picture of a folder, by its path."""
    files = [*folder.glob("page*.png"), *folder.glob("pictures/*.png")]
    return {str(file.relative_to(folder)): struct.unpack(">II", file.read_bytes()[16:24]) for file in files}


def test_the_pictures_of_the_documents_are_made_again(tmp_path: Path) -> None:
    pictures.main(tmp_path)

    assert sizes(tmp_path) == sizes(DOCS), "`python -m tests.browser.pictures` makes them"


def test_each_picture_is_shown_by_a_document() -> None:
    texts = "".join(file.read_text() for file in (ROOT / "README.md", DOCS / "page.md"))

    assert [name for name in sizes(DOCS) if name not in texts] == []


def test_each_view_stands_beside_its_drawing() -> None:
    text, views = (DOCS / "pictures.md").read_text(), [path.name for path in (DOCS / "pictures").glob("*.png")]

    rows = [f"(pictures/drawings/{name}) | ![" in text and f"(pictures/{name}) |" in text for name in views]

    assert views
    assert all(rows)
    assert sorted(path.name for path in (DOCS / "pictures" / "drawings").iterdir()) == sorted(views)
