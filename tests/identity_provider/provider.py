"""A real OpenID Connect provider in a process of its own, and a person who fills in its forms."""

from __future__ import annotations

import subprocess
from html.parser import HTMLParser
from pathlib import Path
from types import TracebackType
from urllib.parse import urljoin

import httpx

from tests.identity_provider import environment

SERVER = Path(__file__).parent / "server.py"
CLIENT_ID, CLIENT_SECRET = "callboard", "the-secret-of-callboard"
OTHER_CLIENT_ID = "another-application"
PASSWORD = "correct horse battery staple"
MOST_PAGES = 10


class IdentityProvider:
    """Canaille with the people and groups of ``server.py``."""

    def __enter__(self) -> IdentityProvider:
        pipe = subprocess.PIPE
        command = [str(environment.ready()), "-I", str(SERVER)]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        self.issuer = f"http://127.0.0.1:{int(self._answer())}/"
        return self

    def allow(self, origin: str) -> None:
        """Let a Callboard at this origin sign people in."""
        assert self._process.stdin is not None
        self._process.stdin.write(origin + "\n")
        self._process.stdin.flush()
        assert self._answer() == origin

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def pass_forms(client: httpx.Client, url: str, name: str, stop_at: str) -> str:
    """Return the address, beginning with ``stop_at``, that the provider sends a person to who signs in."""
    answer = client.get(url)
    for _ in range(MOST_PAGES):
        if "location" in answer.headers:
            url = urljoin(str(answer.url), answer.headers["location"])
            if url.startswith(stop_at):
                return url
            answer = client.get(url)
        else:
            form = _Form(answer.text)
            fields = form.fields | {field: text for field, text in _typed(name).items() if field in form.fields}
            answer = client.post(urljoin(str(answer.url), form.action), data=fields)
    raise AssertionError(f"the provider stays at {answer.url}")


def _typed(name: str) -> dict[str, str]:
    return {"login": name, "password": PASSWORD}


class _Form(HTMLParser):
    """The first form of a page that is posted."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self._is_inside = self._is_over = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "form" and (attributes.get("method") or "").lower() == "post" and not self._is_over:
            self._is_inside, self.action = True, attributes.get("action") or ""
        elif self._is_inside and tag == "input" and attributes.get("name"):
            self.fields[str(attributes["name"])] = attributes.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "form" and self._is_inside:
            self._is_inside, self._is_over = False, True
