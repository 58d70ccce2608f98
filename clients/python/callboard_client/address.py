"""The address of a server, and what each request to it carries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

from callboard_client.calls import Call, header_text
from callboard_client.envelope import EnvelopeKey
from callboard_client.version import VERSION


class Address:
    """Where the server is, and the keys for it, which appear in no text."""

    def __init__(self, base_url: str, api_key: str | None, envelope_key: EnvelopeKey | None = None) -> None:
        url = _url(base_url)
        self._envelope_key = envelope_key
        self.text = str(url).rstrip("/")
        """The address as errors name it."""
        self._headers = {"User-Agent": f"callboard-client/{VERSION}"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {header_text(api_key, 'the API key')}"

    def __repr__(self) -> str:
        return repr(self.text)

    def request(self, call: Call[Any], timeout: httpx.Timeout) -> Mapping[str, Any]:
        """Return the arguments of ``httpx``'s request; a signed one holds for one request."""
        content = None if call.body is None else json.dumps(call.body, allow_nan=False).encode()
        headers = {**self._headers, **call.headers}
        if content is not None:
            headers["Content-Type"] = "application/json"
        if call.is_signed and self._envelope_key is not None:
            headers |= self._envelope_key.headers(f"{call.method} {call.path}", content or b"")
        return {
            "method": call.method,
            "url": self.text + call.path,
            "params": call.query or None,
            "content": content,
            "headers": headers,
            "timeout": timeout,
            # A redirect would send the key to another address, and turn a POST into a GET.
            "follow_redirects": False,
        }


def _url(text: str) -> httpx.URL:
    """Return the URL, without a name, a password, a path, a query or a fragment in it.

    Raises:
        ValueError: it has one of these, or is no address of HTTP.
    """
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise ValueError(f"base_url is not a URL: {error}.") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("base_url has to begin with http:// or https:// and name a host, as http://127.0.0.1:8000.")
    if url.userinfo or url.query or url.fragment:
        raise ValueError("base_url has a password, a query or a fragment, which logs would show; use api_key.")
    if url.path.strip("/"):
        origin = f"{url.scheme}://{url.netloc.decode()}"
        raise ValueError(f"base_url has a path, and Callboard has a host of its own: write {origin} without a path.")
    return url
