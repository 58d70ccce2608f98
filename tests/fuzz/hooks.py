"""What schemathesis has to know besides the document: streams do not end, and some texts are made by the server.

It imports this; the answers are counted here too.
"""

from __future__ import annotations

import atexit
import base64
import os
import time
from pathlib import Path
from typing import Any

import orjson
import schemathesis
from hypothesis import strategies as st
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from schemathesis import Case, HookContext
from urllib3.exceptions import HTTPError

from tests.fuzz.calls import Counted
from tests.fuzz.known import Known
from tests.fuzz.waits import shorten

STREAM_S = 0.2
"""How long a stream is read."""
_send = HTTPAdapter.send


def send_briefly(self: HTTPAdapter, request: PreparedRequest, stream: bool = False, **options: Any) -> Response:
    """Send a request, and read a stream of events for a moment only."""
    answer = _send(self, request, stream=True, **options)
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        answer._content = _beginning(answer)
        answer._content_consumed = True
        answer.close()
    elif not stream:
        _ = answer.content
    return answer


def _beginning(answer: Response) -> bytes:
    until, read = time.monotonic() + STREAM_S, b""
    answer.raw._fp.fp.raw._sock.settimeout(STREAM_S)  # urllib3 has given the connection back already
    try:
        while time.monotonic() < until and (piece := answer.raw.read1(4096)):
            read += piece
    except (OSError, HTTPError):  # nothing more within the time
        pass
    return read


HTTPAdapter.send = send_briefly

place = st.tuples(st.integers(0, 2**45), st.text("abcdefghijklmnop_0123456789", min_size=1, max_size=30))
schemathesis.openapi.format(
    "list-place", place.map(lambda position: base64.urlsafe_b64encode(orjson.dumps(position)).decode().rstrip("="))
)
schemathesis.openapi.format(
    "thread-id",
    st.text("abcdefghijklmnopqrstuvwxyzäß0123456789:-_", min_size=1, max_size=128),
)
OWN_FORMATS = ("/thread_id", "/before")
"""Where fields have them."""

known_places, counted = Known.from_environment(), Counted()
atexit.register(lambda: counted.write(Path(os.environ["CALLBOARD_FUZZ_COUNTS"])))


@schemathesis.hook
def filter_case(_context: HookContext, case: Case) -> bool:
    """Leave out requests that break one of these formats and nothing else: any text counts as breaking it."""
    mutations = case.meta.phase.data.mutations if case.meta is not None else ()
    return not mutations or any(
        mutation.keywords != ("format",) or not mutation.schema_pointer.endswith(OWN_FORMATS) for mutation in mutations
    )


@schemathesis.hook
def before_call(_context: HookContext, case: Case, _kwargs: dict[str, Any]) -> None:
    known_places.put_into(case)
    shorten(case)


@schemathesis.hook
def after_call(_context: HookContext, case: Case, answer: schemathesis.Response) -> None:
    if case.method.upper() == case.operation.method.upper():  # else it is sent as another method, to be refused
        counted.add(case.operation.label, answer.status_code)
