"""A short run of generated requests; `python -m tests.fuzz` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.identity_provider.provider import IdentityProvider


@pytest.mark.journey
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_what_the_document_says_holds_for_generated_requests(
    tmp_path: Path, identity_provider: IdentityProvider
) -> None:
    from tests.fuzz.__main__ import fuzz

    chosen = "--phases examples,coverage --seed 1 --max-time 25".split()
    with (tmp_path / "said.txt").open("w") as output_file:
        status, _ = fuzz(tmp_path / "up", identity_provider, *chosen, output=output_file.fileno())

    assert status == 0, (tmp_path / "said.txt").read_text()[-6000:]
