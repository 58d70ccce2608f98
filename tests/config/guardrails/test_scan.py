"""A scan of JSON data: one look at the whole, and at each text where that does not say that it is clean."""

from __future__ import annotations

import pytest

from config.guardrails.checks import Checks
from config.guardrails.scan import Detection, cleaned_data, scan_of


@pytest.mark.parametrize(
    "data",
    [
        {"note": "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12"},
        {"password": "hunter2222"},
        {"note": "a\nBearer\nabcdefgh1jkl"},
        {"sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12": 1},
        ["x", {"deep": ["api_key=abcdefg1"]}],
        "token of the API: api_key = abcdefg1",
        {"authorization": "Basic dXNlcjpwYXNzd29yZA=="},
    ],
)
def test_data_is_clean_as_a_whole_only_where_each_of_its_texts_is(data: object) -> None:
    scan, found = scan_of(Checks()), list[Detection]()
    cleaned_data(scan, data, found)

    assert found
    assert not scan.finds_nothing(data)


def test_usual_data_is_clean_at_one_look() -> None:
    data = {"order": "o-1", "boxes": 3, "note": "für den zweiten Stock", "total_eur": 74.7, "urgent": False}

    assert scan_of(Checks(pii="redact")).finds_nothing(data)
