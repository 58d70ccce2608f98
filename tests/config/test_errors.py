"""Errors that are rows have the attributes of their row, and keep them where another process reads them."""

from __future__ import annotations

import pickle

import pytest

from config.errors import Permanent, Retryable, Topic

TEAPOT = Permanent.row(
    "teapot", "The pot is for tea.", status=418, text="pot {pot} makes no coffee.", remedy="Use another pot."
)


def test_an_error_of_a_row_is_one_of_its_family_with_the_rows_attributes() -> None:
    error = TEAPOT(pot=3)

    assert type(error) is Permanent
    assert (str(error), error.facts, error.public) == ("pot 3 makes no coffee.", {"pot": 3}, str(error))
    assert (error.code, error.status, error.remedy) == ("teapot", 418, "Use another pot.")
    assert (error.retryable, error.topic) == (False, Topic.REQUEST)


def test_the_family_keeps_its_own_attributes() -> None:
    TEAPOT(pot=3)

    assert (Permanent.status, Permanent.code) == (400, "callboard_error")
    assert TEAPOT("it is empty; fill it.").args == ("it is empty; fill it.",)


@pytest.mark.parametrize("error", [TEAPOT(pot=3), Retryable("again.", retry_after_s=2)], ids=str)
def test_an_error_survives_pickling(error: Permanent | Retryable) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert (str(copy), copy.facts, copy.code, copy.status) == (str(error), error.facts, error.code, error.status)
