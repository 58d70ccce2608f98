"""Headers that change how a call answers: ``If-None-Match`` (RFC 9110) and ``Prefer: wait`` (RFC 7240)."""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated, Any

import orjson
from flask import Response
from pydantic import Field, PlainValidator, WithJsonSchema
from werkzeug.http import parse_etags

from web.calls.fields import Input, Maybe

MAX_WAIT_S = 300


def _preferred_wait(header: str) -> int:
    """Return the seconds in ``wait=N``, at most ``MAX_WAIT_S``; 0 where the header has none, which is no error."""
    for preference in header.lower().split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        seconds = value.strip().strip('"')
        if name.strip() == "wait" and seconds.isascii() and seconds.isdigit():
            return min(int(seconds[:9]), MAX_WAIT_S)
    return 0


PreferredWait = Annotated[int, PlainValidator(_preferred_wait), WithJsonSchema({"type": "string"})]


class Preferring(Input):
    """The headers of a call that can wait."""

    wait_s: PreferredWait = Field(0, alias="Prefer")
    """``wait=N``: wait up to N seconds, 300 at most; ``Preference-Applied`` says for how many it was ready to wait."""


class Conditional(Input):
    """The headers of a call whose answer has an entity tag."""

    if_none_match: Maybe[str] = Field(None, alias="If-None-Match")
    """The ``ETag`` of an earlier answer; 304 if this one is equal."""

    def answer(self, body: Any) -> Response:
        """Return the body with its entity tag, or 304 where the client has this body.

        The tag is a digest of what this principal sees, so it tells others nothing. The answer is still not for
        caches: clients keep the tag themselves.
        """
        data = orjson.dumps(body)
        tag = blake2b(data, digest_size=12).hexdigest()
        if self.if_none_match is not None and parse_etags(self.if_none_match).contains_weak(tag):
            return Response(status=304, headers={"ETag": f'"{tag}"'})
        return Response(data, content_type="application/json", headers={"ETag": f'"{tag}"'})


def applied(wait_s: int) -> dict[str, str]:
    """Return the header that says that the call waited as preferred; empty where it did not.

    Also where the answer was there at once: the preference is the most that the client waits (RFC 7240, 4.3).
    """
    return {"Preference-Applied": f"wait={wait_s}"} if wait_s else {}
