"""What a result backend holds, decoded: Celery's JSON, and everything that is none."""

from __future__ import annotations

import bz2
import lzma
import pickle
import uuid
import zlib
from datetime import UTC, datetime
from decimal import Decimal

import orjson
import pytest
from celery import Celery

from bus.celery_tasks.state import MAX_BYTES, PENDING, TaskState, decode_meta, decode_row

MAGIC = b"\x00celery-compressed\x00"
DONE = b'{"status": "SUCCESS", "result": {"paid": 25.0}, "traceback": null, "children": [], "task_id": "key_1"}'


def test_a_result_is_the_json_that_the_task_returned():
    assert decode_meta(DONE) == TaskState(name="SUCCESS", result={"paid": 25.0})


def test_what_celery_itself_encodes_is_read():
    backend = Celery("shop", backend="cache+memory://", set_as_current=False).backend
    kinds = {"at": datetime(2026, 1, 2, tzinfo=UTC), "price": Decimal("1.50"), "id": uuid.UUID(int=7)}

    state = decode_meta(backend.encode({"status": "SUCCESS", "result": kinds}).encode())

    assert state.result == {"at": "2026-01-02T00:00:00+00:00", "price": "1.50", "id": uuid.UUID(int=7).hex}


def test_an_exception_is_its_type_and_its_text_alone():
    raw = orjson.dumps(
        {
            "status": "FAILURE",
            "result": {"exc_type": "OrderUnknown", "exc_message": ["no order", 7], "exc_module": "os"},
            "traceback": "File /srv/shop/secret.py",
        }
    )

    assert decode_meta(raw) == TaskState(name="FAILURE", error="OrderUnknown", message="no order, 7")


@pytest.mark.parametrize("status", ["PENDING", "STARTED", "RETRY", "PROGRESS", "X" * 500])
def test_a_state_that_is_no_end_leaves_the_task_open(status: str):
    state = decode_meta(orjson.dumps({"status": status, "result": {"done": 10}}))

    assert not state.has_ended
    assert state.result is None


@pytest.mark.parametrize(
    ("kind", "compress"),
    [("application/x-gzip", zlib.compress), ("application/x-bz2", bz2.compress), ("application/x-lzma", lzma.compress)],
)
def test_a_compressed_result_is_read(kind: str, compress):
    assert decode_meta(MAGIC + kind.encode() + b"\0" + compress(DONE)).result == {"paid": 25.0}


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (pickle.dumps({"status": "SUCCESS", "result": 1}), "pickle is never read"),
        (b"\x81\xa6status\xa7SUCCESS", "not JSON"),
        (b"status: SUCCESS", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"1" * 5000, "not JSON"),
        (b"[]", "something else"),
        (b'{"status": 5}', "something else"),
        (b'{"result": 5}', "something else"),
        (MAGIC + b"application/zstd\0x", "result_compression"),
        (MAGIC + b"application/x-gzip\0broken", "damaged"),
        (MAGIC + b"application/x-lzma\0broken", "damaged"),
        (MAGIC + b"application/x-gzip\0" + zlib.compress(b" " * (MAX_BYTES + 100)), "more than"),
        (b'{"status": "FAILURE", "result": "' + b"x" * MAX_BYTES, "more than"),
    ],
)
def test_what_cannot_be_read_says_why(raw: bytes, problem: str):
    state = decode_meta(raw)

    assert state.unreadable is not None
    assert problem in state.unreadable
    assert state.has_ended


def test_of_a_huge_result_it_is_known_that_the_task_succeeded():
    state = decode_meta(b'{"status": "SUCCESS", "result": "' + b"x" * MAX_BYTES + b'"}')

    assert (state.name, state.unreadable) == ("SUCCESS", None)
    assert "more than 4,194,304 bytes" in state.result


def test_a_row_of_a_database_has_its_status_beside_the_result():
    assert decode_row("SUCCESS", b'{"paid": 1}') == TaskState(name="SUCCESS", result={"paid": 1})
    assert decode_row("STARTED", None) == TaskState(name="STARTED")
    assert "pickle" in str(decode_row("SUCCESS", pickle.dumps({"paid": 1})).unreadable)
    assert PENDING.name == "PENDING"


@pytest.mark.parametrize("result", [None, "text", [1], {"exc_message": {"a": 1}}, {"exc_type": 5, "exc_message": None}])
def test_a_failure_in_another_form_is_a_failure(result: object):
    state = decode_meta(orjson.dumps({"status": "FAILURE", "result": result}))

    assert state.name == "FAILURE"
    assert isinstance(state.message, str)
