"""What strangers put on a queue, by name: bytes, almost-messages, and messages that ask for more than a wake-up."""

from __future__ import annotations

import base64
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bus.messages.run_agent import RunAgentMessage

Envelope = dict[str, Any]
WIRE = RunAgentMessage(run_id="run_1", agent_id="assistant", thread_id="thr_1").to_wire()
LATER = "9999-12-31T23:59:59+00:00"


class Trap:
    """Pickled, it makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.place = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.open, (str(self.place), os.O_CREAT | os.O_WRONLY)


def body(content: Any) -> str:
    """Return the content as a body lies in the queue."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.b64encode(data).decode()


def envelope(**changes: Any) -> Envelope:
    """Return a message as our publisher sends it, with changes: ``headers__id=5``; ``None`` takes a field away."""
    document: Envelope = {
        "body": body([[WIRE], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": RunAgentMessage.name, "id": "1", "eta": None, "timelimit": [None, None]},
        "properties": {
            "correlation_id": "1",
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "runs"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": "2",
        },
    }
    for name, value in changes.items():
        *folders, last = name.replace("content_", "content-").split("__")
        section = document
        for folder in folders:
            section = section[folder]
        section[last] = value
        if value is None:
            del section[last]
    return document


def item(**changes: Any) -> bytes:
    """Return such a message as it lies in the queue."""
    return json.dumps(envelope(**changes)).encode()


def unreadable() -> dict[str, bytes]:
    """Return items kombu could make no message of."""
    return {
        "bytes": b"\xff\xfe\x00garbage",
        "text": b"hello",
        "nothing": b"",
        "list": b"[1, 2]",
        "number": b"5",
        "null": b"null",
        "another's": b'{"a": 1}',
        "200k brackets": b"[" * 200_000 + b"]" * 200_000,
        "a type to construct": b'{"\\u005f_type__": [], "__value__": 1}',
        "no headers": item(headers=None),
        "headers are a list": item(headers=[1]),
        "no id": item(headers__id=None),
        "id is a list": item(headers__id=[1]),
        "id is no text": item(headers__id="\ud800"),
        "task is a list": item(headers__task=[1]),
        "no properties": item(properties=None),
        "properties are a list": item(properties=[]),
        "no tag": item(properties__delivery_tag=None),
        "tag is a list": item(properties__delivery_tag=[1]),
        "no body": item(body=None),
        "body is a list": item(body=[1]),
        "body is no base64": item(body="!!!"),
        "no content type": item(content_type=None),
        "content type is a list": item(content_type=[1]),
        "protocol 1": item(headers={}, body=body({"task": RunAgentMessage.name, "id": "1", "args": [], "kwargs": {}})),
    }


def huge() -> dict[str, bytes]:
    """Return items of 50 MB."""
    return {"50 MB": b"x" * 50_000_000, "50 MB of body": item(body="x" * 50_000_000)}


def not_ours() -> dict[str, bytes]:
    """Return items that are messages of other applications."""
    return {
        "unknown task": item(headers__task="x.y"),
        "one of Celery's tasks": item(headers__task="celery.chord_unlock"),
        "text": item(content_type="text/plain"),
        "body of bytes": item(body=body(b"\x80\x81")),
        "body is a number": item(body=body(5)),
        "body is short": item(body=body([1, 2])),
        "no arguments": item(body=body([[], {}, {}])),
        "arguments are a number": item(body=body([5, {}, {}])),
        "a number for a command": item(body=body([[5], {}, {}])),
        "another version": item(body=body([[{**WIRE, "v": 99}], {}, {}])),
        "run id is a list": item(body=body([[{**WIRE, "run_id": [1]}], {}, {}])),
        "200k brackets in the body": item(body=body(b"[" * 20_000 + b"]" * 20_000)),
        "YAML": item(content_type="application/x-yaml", body=body(b"!!python/object/apply:os.system ['x']")),
    }


def traps(path: Path) -> dict[str, bytes]:
    """Return items that make a file at ``place`` if they are unpickled."""
    pickled = body(pickle.dumps(Trap(path)))
    return {
        name: item(content_type=kind, content_encoding="binary", body=pickled)
        for name, kind in {
            "pickle": "application/x-python-serialize",
            "pickle by its name": "pickle",
            "pickle as JSON": "application/json",
            "pickle as data": "application/data",
        }.items()
    }


def asking_for_more() -> dict[str, bytes]:
    """Return wake-ups of ours with additional fields that Celery would obey."""
    call = {"task": "celery.chord_unlock", "args": [], "kwargs": {}, "options": {}}
    return {
        "later": item(headers__eta=LATER),
        "eta is a list": item(headers__eta=[1]),
        "expired": item(headers__expires="x"),
        "a limit": item(headers__timelimit=[0.001, 0.001]),
        "a limit of texts": item(headers__timelimit=["a", "b"]),
        "stamps": item(headers__stamped_headers=[5]),
        "compressed": item(headers__compression="zlib"),
        "retries": item(headers__retries="x"),
        "a priority": item(properties__priority="x"),
        "an encoding": item(properties__body_encoding="rot13"),
        "a charset": item(content_encoding="nope"),
        "callbacks": item(body=body([[WIRE], {}, {"callbacks": [call], "errbacks": 5, "chain": [3], "chord": 7}])),
        "keywords": item(body=body([[WIRE], {"x": 5}, [1]])),
    }
