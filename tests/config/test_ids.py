"""Identifiers: their form, their order, and that they differ."""

from __future__ import annotations

import time

import pytest

from config.ids import canonical_digest, is_made, new_id


def test_an_id_has_its_prefix_and_26_characters() -> None:
    assert is_made("run", new_id("run"))
    assert not is_made("run", new_id("thr"))


def test_ids_of_one_moment_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_800_000_000_000_000_000)
    ids = [new_id("run") for _ in range(10_000)]

    assert len(set(ids)) == len(ids)
    assert len({run_id[:14] for run_id in ids}) == 1
    assert {char for run_id in ids for char in run_id[14:]} == set("0123456789abcdefghjkmnpqrstvwxyz")


@pytest.mark.parametrize("ms", [1, 31, 32, 1_800_000_000_000, (1 << 48) - 2])
def test_ids_sort_by_their_millisecond(monkeypatch: pytest.MonkeyPatch, ms: int) -> None:
    ids = []
    for now_ms in (ms - 1, ms, ms + 1):
        monkeypatch.setattr(time, "time_ns", lambda now_ms=now_ms: now_ms * 1_000_000 + 999_999)
        ids.append(new_id("run"))

    assert ids == sorted(ids)
    assert len({run_id[:14] for run_id in ids}) == 3


def test_the_digest_does_not_mind_the_order_of_keys() -> None:
    assert canonical_digest({"a": 1, "b": [2]}) == canonical_digest({"b": [2], "a": 1})
    assert canonical_digest({"a": 1}) != canonical_digest({"a": "1"})
