"""A body that is the same for every reader: compressed once, and named by its content."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass, field

from flask import Response, request

VERSION_CHARS = 12


@dataclass(frozen=True, slots=True)
class FixedBody:
    """A body with its media type."""

    content: bytes
    media_type: str
    version: str = field(init=False)
    """The beginning of the content's digest."""
    compressed: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "version", hashlib.sha256(self.content).hexdigest()[:VERSION_CHARS])
        object.__setattr__(self, "compressed", gzip.compress(self.content, mtime=0))

    def answer(self, cache_control: str = "no-cache") -> Response:
        """Return the response to this request: compressed if the client takes gzip, 304 if it has this version.

        What an attacker could add to is never compressed together with a secret: this body has neither.
        """
        is_compressed = request.accept_encodings["gzip"] > 0
        answer = Response(self.compressed if is_compressed else self.content, content_type=self.media_type)
        if is_compressed:
            answer.headers["Content-Encoding"] = "gzip"
        answer.headers["Cache-Control"] = cache_control
        answer.vary.add("Accept-Encoding")
        answer.set_etag(self.version, weak=True)  # both forms have it
        answer.make_conditional(request)
        return answer
