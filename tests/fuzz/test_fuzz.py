"""A short run of generated requests; `python -m tests.fuzz` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("schemathesis")


@pytest.mark.journey
@pytest.mark.timeout(120)
def test_what_the_document_says_holds_for_generated_requests(tmp_path: Path) -> None:
    from tests.fuzz.__main__ import fuzz

    with (tmp_path / "said.txt").open("w") as said:
        status = fuzz(
            tmp_path / "state", "--phases", "examples,coverage", "--seed", "1", "--max-time", "25", output=said.fileno()
        )

    assert status == 0, (tmp_path / "said.txt").read_text()[-6000:]
