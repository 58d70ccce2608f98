"""The files of ``web/static`` as browsers get them: compressed, and with URLs that change when their content does.

``?v=`` is of the file's content, so that browsers keep each file for ever and load only what changed after an update.
Modules import each other by paths without it; the shell's import map adds it. The stylesheets of a shell are one file.
A body that is the same for every reader is compressed once, and named by its content.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from flask import Response, request

from config.watched_files import WatchedFiles

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


STATIC = Path(__file__).resolve().parent / "static"
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Fixed, since guesses differ between machines; files with other suffixes are not served."""
STYLESHEETS = re.compile(r'(?:<link rel="stylesheet" href="/static/[^"]+">\n)+')
LINKED = re.compile(r'<link rel="stylesheet" href="/static/([^"]+)">')
FIRST_MODULE = re.compile(r'<link rel="modulepreload"|<script type="module"')
QUOTED_PATH = re.compile(r'"/static/[^"?]+"')


@cache
def page_files() -> PageFiles:
    """Return the files of the page, read and compressed by the first call in this process."""
    return PageFiles(STATIC)


class PageFiles:
    """The files of a folder by the names that their URLs have behind ``/static/``, and the shells, which name them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._watched = WatchedFiles(lambda: (path for path in sorted(folder.rglob("*")) if path.suffix in TYPES))
        self.files: dict[str, FixedBody] = {}
        self.shells: dict[str, FixedBody] = {}
        self.import_map = ""
        self.refresh()

    def refresh(self) -> None:
        """Read the files again if one of them has changed."""
        changed = self._watched.changed()
        if changed is None:
            return
        paths = [Path(stamp.path) for stamp in changed]
        texts = {path.relative_to(self._folder).as_posix(): path.read_text() for path in paths}
        shells = {name: texts.pop(name) for name in list(texts) if name.endswith(".html")}
        for name, shell in shells.items():
            texts[_stylesheet_of(name)] = "".join(texts[linked] for linked in LINKED.findall(shell))
        self.files = {name: _body(name, _without_comments(text)) for name, text in texts.items()}
        self.import_map = self._import_map()
        self.shells = {name: _body(name, self._shell(name, text)) for name, text in shells.items()}
        self._watched.mark_read(changed)

    @property
    def script_source(self) -> str:
        """The import map as the content policy names it: the only script inside a shell."""
        digest = hashlib.sha256(self.import_map.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    def _import_map(self) -> str:
        modules = (f"/static/{name}" for name in self.files if name.endswith(".js"))
        return json.dumps({"imports": {path: self._versioned(path) for path in modules}}, separators=(",", ":"))

    def _versioned(self, path: str) -> str:
        return f"{path}?v={self.files[path.removeprefix('/static/')].version}"

    def _shell(self, name: str, text: str) -> str:
        link = f'<link rel="stylesheet" href="/static/{_stylesheet_of(name)}">\n'
        text = STYLESHEETS.sub(link, text, count=1)
        text = QUOTED_PATH.sub(lambda match: f'"{self._versioned(match[0][1:-1])}"', text)
        first = FIRST_MODULE.search(text)
        at = first.start() if first else len(text)
        return f'{text[:at]}<script type="importmap">{self.import_map}</script>\n{text[at:]}'


def _stylesheet_of(shell: str) -> str:
    return f"{Path(shell).stem}.css"


def _body(name: str, text: str) -> FixedBody:
    return FixedBody(text.encode(), TYPES[Path(name).suffix])


def _without_comments(text: str) -> str:
    """Return the text with an empty line for each line of a comment, so that errors name the lines of the source."""
    lines = []
    is_comment = False
    for line in text.split("\n"):
        bare = line.strip()
        is_comment = is_comment or bare.startswith("/*")
        lines.append("" if is_comment or bare.startswith("//") else line)
        is_comment = is_comment and not bare.endswith("*/")
    return "\n".join(lines)
